"""SAO: its band, its refusals, its words, and a toy that must climb."""

import math

import pytest
import torch
from hypothesis import given

from schemas.errors import BatchError, SettingsError
from tests.train.strategies import IN_RANGE, PROPERTY
from tests.train.strategies import rows as random_rows
from tests.train.toy import climbs
from train.batch import Batch
from train.methods import SAO
from train.methods.sao import CODING_BAND

THREE = {
    "reward": 1.0,
    "logprobs": [-1.0, -1.0, -1.0],
    "behavior_logprobs": [-1.0, -3.0, -0.5],
    "values": [0.5, 0.5, 0.5],
}
"""Ratios 1, e^2 = 7.4 and e^-0.5 = 0.61: the second above the default band, the third below."""


def update(rows, method=None):
    """The update of rows in float64."""
    return (method or SAO()).update(Batch.from_rows(rows, dtype=torch.float64))


@PROPERTY
@given(random_rows(reward=IN_RANGE))
def test_a_coefficient_is_ratio_times_advantage_over_n_inside_the_band(rows):
    """And 0 outside, whatever the sign of the advantage."""
    made = update(rows, SAO(band=(0.9, 1.1)))
    num = sum(sum(row["action_mask"]) for row in rows)
    packed = [
        (math.exp(pi - mu), action)
        for row in rows
        for pi, mu, action in zip(row["logprobs"], row["behavior_logprobs"], row["action_mask"], strict=True)
    ]
    for (ratio, action), advantage, got in zip(
        packed, made.advantages.tolist(), made.coefficients.tolist(), strict=True
    ):
        expected = ratio * advantage / num if action and 0.9 < ratio < 1.1 else 0.0
        assert got == pytest.approx(expected, abs=1e-12)


@PROPERTY
@given(random_rows(reward=IN_RANGE))
def test_a_wider_band_keeps_a_superset(rows):
    """The coding band's lower end is below the reasoning band's, not its upper."""
    narrow, wide = update(rows, SAO(band=(0.9, 1.1))), update(rows, SAO(band=(0.5, 2.0)))
    assert (wide.coefficients[narrow.coefficients != 0] != 0).all()


def test_masked_tokens_are_counted_on_their_side():
    """One below, one above; the third that stays is the whole trace's trust."""
    made = update([THREE])
    assert made.coefficients[1:].tolist() == [0.0, 0.0]
    assert "1 tokens at or below ratio 0.7 and 1 at or above 6 masked, 66.67% of 3; furthest is ratio" in str(made)
    assert made.stats["masked_token_share"] == pytest.approx(2 / 3)


def test_a_trace_outside_with_every_token_is_named():
    """It is out of trust, and its tokens stay in N."""
    far = {"reward": 1.0, "logprobs": [-5.0], "behavior_logprobs": [-1.0], "values": [0.5]}
    made = update([THREE, far])
    assert made.in_trust.tolist() == [True, False]
    assert "1 trace (1) outside of the band with every token" in str(made)
    assert float(made.coefficients[0]) == pytest.approx(float(made.advantages[0]) / 4)


def test_a_band_that_never_acted_says_so():
    """Such a run tests nothing of SAO but its critic."""
    assert "masked nothing: this is plain importance-weighted policy gradient" in str(
        update([THREE], SAO(band=(0.1, 9)))
    )


def test_targets_are_the_reward_without_a_discount():
    """Lambda 1 for the critic; with gamma 0.5 a return halves with each action token to come."""
    assert update([THREE]).value_targets.tolist() == [1.0, 1.0, 1.0]
    assert update([THREE], SAO(gamma=0.5)).value_targets.tolist() == [0.25, 0.5, 1.0]
    assert update([THREE]).per_trace()[0].value_targets == [1.0, 1.0, 1.0]


def test_a_value_that_is_no_number_is_refused():
    """A critic that has diverged must not train a policy."""
    with pytest.raises(BatchError, match="trace 0, token 1: value nan"):
        update([THREE | {"values": [0.5, math.nan, 0.5]}])


def test_trace_without_action_tokens_is_named():
    """It adds nothing and is no error here: the critic is the baseline."""
    idle = THREE | {"action_mask": [False] * 3}
    made = update([THREE, idle])
    assert "1 trace (1) without an action token" in str(made)
    assert made.coefficients[:3].tolist() == update([THREE]).coefficients.tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"band": (6.0, 0.7)},
        {"band": 0.7},
        {"band": (-0.1, 2.0)},
        {"band": (True, 2.0)},
        {"gae_alpha": 0.0},
        {"gamma": 1.1},
        {"aggregation": "sum"},
    ],
    ids=str,
)
def test_a_bad_option_is_refused_where_it_is_set(options):
    """With its name, its value and the bound."""
    (name,) = options
    with pytest.raises(SettingsError, match=rf"SAO\({name}=.*expected"):
        SAO(**options)


@pytest.mark.parametrize("lag", [0, 8])
def test_a_toy_policy_climbs_from_chance(lag):
    """With a critic that learns beside it, at lag 0 and at eight updates of lag, in the coding band."""
    assert climbs(SAO(band=CODING_BAND), above=0.9, lag=lag, learning_rate=16.0, num_updates=60)
