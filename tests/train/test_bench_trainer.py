"""The arithmetic of `bench/trainer.py`: what it counts, what it compares and when it refuses a ratio."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))  # Its files import one another as scripts do.

import trainer
import trainer_gpu
import trainer_peers
from trainer_work import Draw, Logs, Naive, Ours, Shape, draw, gradients_of, logs_of, padded, relative_difference

from train.attention import VARLEN

pytestmark = pytest.mark.soak

TINY = Shape(vocabulary=64, hidden=32, layers=2, heads=4, key_value_heads=2, intermediate=48)
LENGTHS = [(4, 6), (9, 11), (2, 3), (3, 25)]


@pytest.fixture(scope="module")
def logs():
    """Traces of 10, 20, 5 and 28 tokens."""
    return logs_of(LENGTHS, TINY.vocabulary)


def test_padding_is_counted_by_chunk_and_order(logs):
    """Two at a time: as they arrived 2 x 20 + 2 x 28, by length 2 x 10 + 2 x 28; packed as many as there are."""
    model = TINY.model("sdpa")
    assert Naive(model, logs, by_length=False, rows=2).num_slots == 96
    assert Naive(model, logs, by_length=True, rows=2).num_slots == 76
    assert Ours(TINY.model(VARLEN), logs).num_slots == logs.num_tokens == 63


def test_a_system_prompt_takes_its_slots_once():
    """Four traces behind 40 tokens: 40 and 63 slots, for 4 x 40 and 63 tokens."""
    shared = logs_of(LENGTHS, TINY.vocabulary, shared=40)
    assert shared.num_tokens == 223
    assert Ours(TINY.model(VARLEN), shared).num_slots == 103


@pytest.mark.parametrize("shared", [0, 40])
def test_packed_and_padded_steps_have_one_loss_and_one_gradient(shared):
    """To float32, which loses some 1e-7 a sum; two packs, two chunks."""
    given = logs_of(LENGTHS, TINY.vocabulary, shared=shared)
    first, second = trainer.race(
        [
            trainer.Contestant(lambda shape, logs: Ours(shape.model(VARLEN), logs, budget=30)),
            trainer.Contestant(lambda shape, logs: Naive(shape.model("sdpa"), logs, by_length=True, rows=2)),
        ],
        TINY,
        given,
        num_runs=1,
    )
    assert first.off == (0.0, 0.0)
    assert max(second.off) < 1e-5


def test_the_loss_is_the_mean_over_action_tokens_of_advantage_ratio_and_logprob(logs):
    """By a plain loop over the tokens of each trace alone, in Python's own floats."""
    model, total = TINY.model("sdpa").eval(), 0.0
    for number, sequence in enumerate(logs.sequences):
        logits = model(torch.from_numpy(sequence.token_ids).long()[None]).logits[0].double()
        for at in np.flatnonzero(sequence.action_mask):
            logprob = float(torch.log_softmax(logits[at - 1], -1)[sequence.token_ids[at]].detach())
            ratio = math.exp(logprob - float(sequence.behavior_logprobs[at]))
            total -= logs.advantages[number] * ratio * logprob
    assert Ours(TINY.model(VARLEN), logs).step() == pytest.approx(total / logs.num_actions, rel=1e-5)


def test_another_work_gets_no_ratio(logs, capsys):
    """A side with other advantages is named, and its speed is not compared."""
    other = Logs(logs.sequences, tuple(2 * value for value in logs.advantages))
    timed = trainer.race(
        [
            trainer.Contestant(lambda shape, logs: Ours(shape.model(VARLEN), logs)),
            trainer.Contestant(lambda shape, _: Naive(shape.model("sdpa"), other, by_length=False)),
        ],
        TINY,
        logs,
        num_runs=1,
    )
    trainer.tell(timed, logs)
    assert "NOT THE SAME WORK, so no ratio" in capsys.readouterr().out.splitlines()[1]


def test_the_difference_of_gradients_is_relative_to_all_of_them():
    """(3, 4) and (0) against (3, 4.3) and (0.4): 0.5 over 5; weights without a gradient on one side count as all."""
    own = {"a": torch.tensor([3.0, 4.0], dtype=torch.float64), "b": torch.zeros(1, dtype=torch.float64)}
    other = {"a": torch.tensor([3.0, 4.3], dtype=torch.float64), "b": torch.tensor([0.4], dtype=torch.float64)}
    assert relative_difference(own, other) == pytest.approx(0.1)
    assert relative_difference(own, {"a": other["a"]}) == math.inf


def test_every_weight_has_a_gradient(logs):
    """Full weights: none is frozen, and the tied head is counted once."""
    side = Ours(TINY.model(VARLEN), logs)
    side.step()
    assert gradients_of(side.model).keys() == dict(side.model.named_parameters()).keys()


def test_padding_is_zero_where_there_is_none():
    """Also where nothing was logged."""
    assert padded([np.array([1.0]), np.array([np.nan, 2.0])]).tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert padded([np.array([1]), np.array([3, 2])], left=True).tolist() == [[0, 1], [3, 2]]


def test_a_goal_is_met_or_missed_in_words():
    """Missed with how far; nothing where there is no goal."""
    assert trainer.verdict(2.0, 2.0).endswith("goal 2: met")
    assert trainer.verdict(1.5, 2.0).endswith("goal 2: MISSED, 75% of it")
    assert not trainer.verdict(9.0, None)


def test_a_peer_that_is_not_there_says_how_to_get_it(monkeypatch):
    """With the command, and its contestants are left out."""
    monkeypatch.setattr(trainer_peers, "find_spec", lambda _: None)
    assert "pip install --no-deps -r bench/peers.txt" in trainer_peers.missing("verl")
    assert [each.peer for each in trainer.installed(trainer.SPEED)] == ["", "", ""]


def test_logs_are_the_same_each_time():
    """Every process draws the same lengths, tokens and advantages."""
    first, second = draw(Draw(num_traces=3), 64), draw(Draw(num_traces=3), 64)
    assert first.advantages == second.advantages
    for one, other in zip(first.sequences, second.sequences, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()


@pytest.mark.parametrize("is_whole", [False, True])
def test_the_gpu_benchmark_does_the_same_with_activations_computed_again(is_whole):
    """LoRA and full: 0 of difference is asked for, to float32."""
    setting = trainer_gpu.Setting(64, is_whole, "cpu")
    again = trainer_gpu.ours(setting, TINY)
    again.policy.recompute_activations()
    plain = trainer_gpu.measure(trainer_gpu.ours(setting, TINY), "cpu", 1)
    assert plain.differs(trainer_gpu.measure(again, "cpu", 1)) < 1e-5
    assert not setting.recomputes


def test_flop_of_a_token_are_those_of_the_published_dimensions():
    """2 (1.310e9 + 0.6 or so of 0.233e9) and attention, forward; three times that for full weights, twice for LoRA."""
    setting = trainer_gpu.Setting(4096, True, "cpu")
    logs = setting.logs(trainer_gpu.LARGE.vocabulary)
    actions = logs.num_actions / logs.num_tokens
    trunk = 28 * (2 * 1536 * 1536 + 2 * 1536 * 256 + 3 * 1536 * 8960)
    squares = sum(len(each.token_ids) ** 2 for each in logs.sequences) / logs.num_tokens
    forward = 2 * trunk + 2 * actions * 151_936 * 1536 + 2 * 28 * 1536 * squares
    assert trainer_gpu.flops(setting, trainer_gpu.LARGE) / logs.num_tokens == pytest.approx(3 * forward, rel=1e-3)
