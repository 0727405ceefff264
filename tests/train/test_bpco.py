"""BPCO: its clip, its refusals, its words, and a toy that must climb."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BatchError, SettingsError
from tests.train.strategies import IN_RANGE, PROPERTY
from tests.train.strategies import rows as random_rows
from tests.train.toy import climbs
from train.batch import Batch
from train.methods import BPCO


def row(reward=1.0, now=-0.5, then=-0.5, value=0.5):
    """A trace of one token."""
    return {"reward": reward, "logprobs": [now], "behavior_logprobs": [then], "values": [value]}


def update(rows, method=None):
    """The update of rows in float64."""
    return (method or BPCO()).update(Batch.from_rows(rows, dtype=torch.float64))


@PROPERTY
@given(random_rows(reward=IN_RANGE), st.sampled_from([0.001, 0.02, 0.2]))
def test_the_gradient_is_that_of_the_clipped_minimum(rows, clip):
    """Eq. 2, min(rho A, clip(rho, 1 - eps/mu, 1 + eps/mu) A) summed and over B, differentiated by autograd."""
    batch = Batch.from_rows(rows, dtype=torch.float64)
    made = BPCO(clip=clip).update(batch)
    logprobs = batch.logprobs.clone().requires_grad_()
    ratio = torch.exp(logprobs - batch.behavior_logprobs)
    width = clip / torch.exp(batch.behavior_logprobs)
    clipped = torch.maximum(torch.minimum(ratio, 1 + width), 1 - width)
    objective = torch.minimum(ratio * made.advantages, clipped * made.advantages)[batch.action_mask].sum() / len(rows)
    objective.backward()
    assert logprobs.grad.tolist() == pytest.approx(made.coefficients.tolist(), abs=1e-12)


@pytest.mark.parametrize(
    ("reward", "now", "closed"),
    [(1.0, 0.75, True), (1.0, 0.25, False), (0.0, 0.25, True), (0.0, 0.75, False), (1.0, 0.65, False)],
)
def test_a_token_is_closed_when_its_probability_moved_too_far_its_advantages_way(reward, now, closed):
    """From 0.5, by more than 0.2, up for a good trace, down for a bad one."""
    made = update([row(reward, math.log(now), math.log(0.5))])
    assert (made.coefficients.tolist() == [0.0]) is closed


def test_a_rare_token_is_not_closed_for_being_rare():
    """Ratio e^3 = 20 and a move of 0.0024: open; PPO's clip would close it."""
    made = update([row(1.0, -6.0, -9.0)])
    assert made.coefficients.tolist() == pytest.approx([0.5 * math.exp(3.0)])


def test_a_ratio_is_cut_at_e_to_the_twenty():
    """Under the ratio rule a token from 1e-13 to 0.6 stays open; the probability rule closes it."""
    rare = row(1.0, -0.5, -30.0)
    assert update([rare], BPCO(mask_rule="ratio")).coefficients.tolist() == pytest.approx([0.5 * math.exp(20.0)])
    assert update([rare]).coefficients.tolist() == [0.0]


def test_a_clip_that_never_acted_says_so():
    """And one that did counts its tokens."""
    assert "closed nothing: this is plain importance-weighted policy gradient" in str(update([row()]))
    closed = update([row(), row(1.0, math.log(0.75), math.log(0.5))])
    assert "1 of 2 tokens (50.00%) had moved by more than 0.2" in str(closed)


def test_a_critic_worse_than_a_constant_is_told():
    """High where the reward is low: explained variance 1 - 1/0.25 of residuals -+1."""
    made = update([row(1.0, value=0.0), row(0.0, value=1.0)])
    assert made.stats["explained_variance"] == pytest.approx(1 - 1 / 0.25)
    assert "the critic predicts worse than a constant" in str(made)


def test_a_value_out_of_range_is_refused_with_its_place():
    """On an action token; one under the mask is never read."""
    with pytest.raises(BatchError, match=r"trace 0, token 0: value 1\.2; expected within \[0, 1\]"):
        update([row(value=1.2)])


@pytest.mark.parametrize(
    "options",
    [
        {"clip": -0.1},
        {"clip": 1.5},
        {"gae_alpha": 0.0},
        {"reward_range": (1.0, 0.0)},
        {"mask_rule": "kl"},
        {"lambda_floor": 1},
    ],
    ids=str,
)
def test_a_bad_option_is_refused_where_it_is_set(options):
    """With its name, its value and the bound."""
    (name,) = options
    with pytest.raises(SettingsError, match=rf"BPCO\({name}=.*expected"):
        BPCO(**options)


@pytest.mark.parametrize("lag", [0, 8])
def test_a_toy_policy_climbs_from_chance(lag):
    """With a critic that learns beside it, at lag 0 and at eight updates of lag."""
    assert climbs(BPCO(), above=0.9, lag=lag, learning_rate=8.0, num_updates=60)
