"""What each method would do to a batch, by hand arithmetic."""

import json
import math
from dataclasses import asdict

import pytest
import torch
from hypothesis import given

from schemas.errors import BatchError
from tests.train.strategies import IN_RANGE, PROPERTY
from tests.train.strategies import rows as random_rows
from train.batch import Batch
from train.methods import BPCO, SAO, FlashReinforce, Reinforce
from train.methods.regime import regime


def batch_of(*ratios, rewards=None):
    """One trace a list of ratios, every behavior probability 0.1."""
    rows = [
        {
            "reward": float(number % 2) if rewards is None else rewards[number],
            "behavior_logprobs": [math.log(0.1)] * len(own),
            "logprobs": [math.log(0.1 * ratio) for ratio in own],
        }
        for number, own in enumerate(ratios)
    ]
    return Batch.from_rows(rows, dtype=torch.float64)


def only(batch, method):
    """What one method would do to it."""
    return regime(batch, [method]).touches[0]


def test_a_band_says_which_share_it_would_mask():
    """Of four tokens the ratios 0.5 and 7 are outside of (0.7, 6)."""
    touch = only(batch_of([1.0, 0.5], [7.0, 1.0]), SAO())
    assert touch.masked_token_share == 0.5
    assert touch.masked_trace_share == 0.0
    assert touch.departure == pytest.approx((0 + 1 + 1 + 0) / 4)
    assert touch.sentence == "acts (with a critic that says the mean reward)"


def test_a_gate_says_which_traces_it_would_mask():
    """The trace at ratio 5 is far beyond 0.003 nats; it holds one token of three."""
    touch = only(batch_of([1.0, 1.0], [5.0]), FlashReinforce())
    assert touch.masked_trace_share == 0.5
    assert touch.masked_token_share == pytest.approx(1 / 3)
    assert touch.effective_token_share == pytest.approx(2 / 3, abs=1e-6)


def test_a_bound_is_told_from_a_mask():
    """TIS keeps the token at ratio 5, at weight 2."""
    touch = only(batch_of([1.0], [5.0]), Reinforce(correction="tis"))
    assert (touch.masked_token_share, touch.bounded_token_share) == (0.0, 0.5)
    assert touch.departure == pytest.approx(0.5)


def test_a_batch_of_the_same_policy_makes_every_method_plain():
    """Ratio 1 everywhere: nothing to correct."""
    touches = regime(batch_of([1.0, 1.0], [1.0])).touches
    measured = [touch for touch in touches if touch.departure is not None]
    assert len(measured) >= 5
    assert all("would equal plain policy gradient" in touch.sentence for touch in measured)


def test_a_mask_that_hardly_acts_is_named():
    """One token of 2,000 outside of the band is no test of the band, though the ratios are not 1."""
    touch = only(batch_of([1.2] * 1999, [9.0]), SAO())
    assert touch.masked_token_share == pytest.approx(1 / 2000)
    assert touch.sentence.startswith("its gate, mask or bound would hardly act: importance-weighted policy gradient")


def test_a_method_that_the_batch_cannot_feed_is_not_measured():
    """GRPO without groups has no share, and its own sentence."""
    told = {touch.method.split(",")[0]: touch for touch in regime(batch_of([1.0], [1.0])).touches}
    assert told["grpo"].masked_token_share is None
    assert told["grpo"].sentence.startswith("not measured: grpo: trace 0 and the rest of the batch have no group")


def test_a_reward_out_of_range_is_not_measured():
    """BPCO refuses it, the others do not."""
    batch = batch_of([1.0], [1.0], rewards=[0.0, 3.0])
    assert "reward 3.0; expected within [0, 1]" in only(batch, BPCO()).sentence
    assert only(batch, SAO()).masked_token_share == 0.0


def test_an_unscored_batch_is_refused():
    """There is no ratio without the current policy."""
    with pytest.raises(BatchError, match="regime: the batch has no logprobs"):
        regime(Batch.from_rows([{"reward": 1.0, "behavior_logprobs": [-1.0]}]))


def test_a_regime_prints_a_line_on_the_batch_and_one_a_method():
    """With the head of the table between them."""
    found = regime(batch_of([1.0, 2.0], [1.0]), [FlashReinforce(), SAO()])
    lines = str(found).splitlines()
    assert lines[0].startswith("2 traces, 3 action tokens: mean |log ratio| 0.231, largest ratio 2, mean drift ")
    assert [line.split()[0] for line in lines[1:]] == ["masked", "flash_reinforce", "sao"]


@PROPERTY
@given(random_rows(min_traces=2, reward=IN_RANGE))
def test_the_shares_of_any_batch_are_shares(rows):
    """From 0 to 1, together too, and writable as JSON."""
    found = regime(Batch.from_rows(rows, dtype=torch.float64))
    json.dumps(asdict(found), allow_nan=False)
    for touch in found.touches:
        if touch.departure is not None:
            assert 0 <= touch.masked_trace_share <= 1
            assert 0 <= touch.masked_token_share + touch.bounded_token_share <= 1 + 1e-9
            assert 0 <= touch.effective_token_share <= 1 + 1e-9
