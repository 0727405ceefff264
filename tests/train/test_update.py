"""The update: its loss, its lists, and the account it gives of itself."""

import math

import pytest
import torch

from train.batch import Batch
from train.methods import FlashReinforce

LESSON = [
    {"reward": 1.0, "logprobs": [-0.4, -0.7, -0.2], "behavior_logprobs": [-0.41, -0.7, -0.21]},
    {"reward": 0.0, "logprobs": [-1.1, -0.3], "behavior_logprobs": [-1.0, -0.3]},
    {
        "reward": 1.0,
        "logprobs": [-0.2, -0.9, -0.6, -0.1],
        "behavior_logprobs": [-0.2, -0.9, -0.6, -0.1],
        "action_mask": [True, True, False, True],
    },
    {"reward": 0.0, "logprobs": [-3.0, -0.5], "behavior_logprobs": [-0.4, -0.5]},
]
"""The example of "A production trace is one try with a score": one tool token, one trace far from its policy."""


def lesson():
    """The update of the lesson's batch."""
    return FlashReinforce().update(Batch.from_rows(LESSON))


def test_the_lesson_prints_its_numbers():
    """Three of four traces in trust, and why the fourth is not."""
    masked = (
        "  1 trace (3) over trust 0.003 masked whole (max drift 0.697); the policy has moved further from what wrote it "
        "than the gate allows: check that behavior_logprobs are the behavior policy's own, then train sooner after "
        "serving or raise trust"
    )
    assert str(lesson()).splitlines() == [
        "flash_reinforce update: 3 of 4 traces in trust",
        "  batch mean reward: 0.5",
        "  in trust share: 0.75",
        "  mean drift: 0.1746",
        "  max drift: 0.6969",
        "  mean ratio: 0.9906",
        "  max ratio: 1.01",
        masked,
    ]
    assert repr(lesson()) == str(lesson())


def test_the_lessons_coefficients_by_hand():
    """A / (T B) times the ratio: +-0.5 / (3 * 4), the tool token nothing, the stale trace nothing."""
    first, second, third, fourth = (trace.coefficients for trace in lesson().per_trace())
    assert first == pytest.approx([0.5 / 12 * math.exp(0.01), 0.5 / 12, 0.5 / 12 * math.exp(0.01)], rel=1e-6)
    assert second == pytest.approx([-0.5 / 8 * math.exp(-0.1), -0.5 / 8], rel=1e-6)
    assert third == pytest.approx([0.5 / 12, 0.5 / 12, 0.0, 0.5 / 12], rel=1e-6)
    assert fourth == [0.0, 0.0]


def test_each_trace_is_told_apart():
    """Names, advantages and trust by trace."""
    traces = lesson().per_trace()
    assert [trace.trace_id for trace in traces] == ["0", "1", "2", "3"]
    assert traces[2].advantages == [0.5, 0.5, 0.0, 0.5]
    assert [trace.in_trust for trace in traces] == [True, True, True, False]


def test_each_sequence_is_a_row_of_replays():
    """Figures are over the action tokens of the sequence, drift and trust are the trace's."""
    rows = [{"trace_id": "t", **row} for row in (LESSON[0], LESSON[2])] + [{"trace_id": "u", **LESSON[1]}]
    first, second, third = FlashReinforce(trust=0.01).update(Batch.from_rows(rows)).per_sequence()
    assert (first.trace_id, first.sequence_index, second.trace_id, second.sequence_index) == ("t", 0, "t", 1)
    assert first.drift == second.drift < third.drift
    assert second.mean_ratio == pytest.approx(1.0)
    assert first.max_ratio == pytest.approx(math.exp(0.01))
    assert third.negative_mass == pytest.approx(-0.5 / 4 * (1 + math.exp(-0.1)))
    assert (third.positive_mass, second.masked_share, first.advantage) == (0.0, 0.0, 0.5)


def test_a_ratio_that_would_overflow_is_reported_as_a_number():
    """A masked trace may be any distance away; its row in replays stays finite."""
    rows = [
        {"reward": 1.0, "logprobs": [-0.1], "behavior_logprobs": [-900.0]},
        {"reward": 0.0, "logprobs": [-0.1], "behavior_logprobs": [-0.1]},
    ]
    row = FlashReinforce().update(Batch.from_rows(rows)).per_sequence()[0]
    assert row.max_ratio == pytest.approx(math.exp(700.0))
    assert row.masked_share == 1.0


def test_the_loss_reads_nothing_off_the_mask():
    """NaN there is neither in the loss nor in its gradient."""
    update = lesson()
    logprobs = update.batch.logprobs.clone()
    logprobs[7] = math.nan
    logprobs.requires_grad_()
    loss = update.loss(logprobs)
    loss.backward()
    assert math.isfinite(loss.item())
    assert torch.equal(logprobs.grad, -update.coefficients)


def test_an_update_of_nothing_says_that_it_moves_nothing():
    """So that the trainer skips the step, whose momentum would act."""
    equal = [{**row, "reward": 0.3} for row in LESSON]
    assert lesson().moves
    assert not FlashReinforce().update(Batch.from_rows(equal)).moves
