"""What holds for baselines and corrections, whatever the batch."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.strategies import PROPERTY
from tests.train.strategies import rows as random_rows
from train.batch import Batch
from train.methods import GRPO, RAE, SAO, Reinforce, after, gates, proximal
from train.methods.correction_catalog import correction_by_name

EXACT = 1e-12
"""Sums of a few float64 numbers in another order."""

ROWS = random_rows(min_traces=2)
SQUARES = st.lists(st.floats(0.0, 4.0), min_size=1, max_size=12).map(lambda v: torch.tensor(v, dtype=torch.float64))
BUDGET = st.floats(1e-3, 2.0)


def batch_of(rows):
    """The batch in float64."""
    return Batch.from_rows(rows, dtype=torch.float64)


def corrected(rows, **rule):
    """Coefficients of REINFORCE about the batch mean with that correction."""
    return Reinforce(correction=rule).update(batch_of(rows)).coefficients


@PROPERTY
@given(ROWS)
def test_a_group_of_one_reward_moves_nothing(rows):
    """A group of one, and a group of equals, at any reward."""
    same = [row | {"reward": float(row["group"])} for row in rows]
    alone = [row | {"group": number} for number, row in enumerate(rows)]
    for made in (same, alone):
        assert not GRPO(singleton="zero").update(batch_of(made)).coefficients.any()


@PROPERTY
@given(ROWS, st.floats(-5, 5))
def test_a_groups_rewards_shift_for_nothing(rows, shift):
    """Only differences within the group count."""
    shifted = [row | {"reward": row["reward"] + shift} for row in rows]
    method = GRPO(singleton="zero", scaled=False, correction="none")
    first, second = (method.update(batch_of(each)).coefficients for each in (rows, shifted))
    assert torch.allclose(first, second, rtol=0, atol=1e-12 * 10)


@PROPERTY
@given(ROWS)
def test_the_first_running_advantage_is_the_raw_reward(rows):
    """Of each key: its running mean starts at 0 and is updated after it is used."""
    seen = set()
    for row, trace in zip(rows, RAE().update(batch_of(rows)).per_trace(), strict=True):
        if row["key"] not in seen:
            acting = [a for a, acted in zip(trace.advantages, row["action_mask"], strict=True) if acted]
            assert acting == [row["reward"]] * len(acting)
        seen.add(row["key"])


@PROPERTY
@given(ROWS, st.data())
def test_running_means_go_on_exactly_where_they_stopped(rows, data):
    """Cut anywhere: the same advantages and, bit for bit, the same means."""
    at = data.draw(st.integers(1, len(rows) - 1))
    whole = RAE().update(batch_of(rows))
    first = RAE().update(batch_of(rows[:at]))
    second = after(RAE(), first).update(batch_of(rows[at:]))
    assert torch.equal(torch.cat([first.advantages, second.advantages]), whole.advantages)
    assert second.state == whole.state


def test_the_order_of_traces_counts_for_a_running_mean():
    """Rewards 1, 0 against 0, 1: the second advantage is -0.05 or 1."""
    rows = [{"reward": reward, "logprobs": [-1.0], "behavior_logprobs": [-1.0]} for reward in (1.0, 0.0)]
    forward, backward = (RAE().update(batch_of(each)).advantages.tolist() for each in (rows, rows[::-1]))
    assert forward == pytest.approx([1.0, -0.05])
    assert backward == pytest.approx([0.0, 1.0])


def test_a_running_mean_converges_to_the_mean_reward():
    """After 400 rewards of mean 0.5 the baseline is 0.5, within the swing of one reward of 0.05."""
    rows = [{"reward": float(n % 2), "logprobs": [-1.0], "behavior_logprobs": [-1.0]} for n in range(400)]
    update = RAE().update(batch_of(rows))
    assert update.state["agent"] == pytest.approx(0.5, abs=0.05)


@PROPERTY
@given(ROWS, st.floats(0.1, 5.0))
def test_truncating_a_ratio_never_enlarges_a_coefficient(rows, high):
    """|c| of TIS is at most |c| of the bare ratio."""
    assert (corrected(rows, name="tis", high=high).abs() <= corrected(rows, name="is").abs() + EXACT).all()


@PROPERTY
@given(ROWS, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_tighter_bound_on_whole_traces_only_removes_traces(rows, one, other):
    """Of the product of ratios, and of the worst token."""
    tight, loose = sorted((one, other))
    for name, option, base in (("seq_mis", "high", 1.0), ("trust_region", "max_divergence", 0.0)):
        few, many = (corrected(rows, **{"name": name, option: base + bound}) for bound in (tight, loose))
        assert torch.equal(few[few != 0], many[few != 0])


@PROPERTY
@given(SQUARES, BUDGET)
def test_a_budgeted_mask_meets_its_budget_or_keeps_one(squares, budget):
    """The mean of what is kept is below it."""
    kept = squares[proximal.kept_within_budget(squares, budget)]
    assert len(kept) == 1 or float(kept.mean()) < budget


@PROPERTY
@given(SQUARES, BUDGET)
def test_the_exact_bound_spends_the_budget_and_the_released_one_no_more(squares, budget):
    """Sum min(v, tau^2) is n budget for the exact tau; the release stops at a data value below it."""
    exact, released = proximal.exact_bound(squares, budget), proximal.budgeted_bound(squares, budget)
    assert released <= exact + EXACT
    if math.isfinite(exact):
        assert float(squares.clamp(max=exact).mean()) == pytest.approx(budget, rel=1e-9)


@PROPERTY
@given(st.lists(st.floats(0.01, 50.0), min_size=1, max_size=20), st.floats(0.1, 10.0))
def test_an_effective_sample_size_lies_between_one_and_b(weights, scale):
    """And does not depend on the scale of the weights."""
    tensor = torch.tensor(weights, dtype=torch.float64)
    size = gates.effective_sample_size(tensor)
    # The guard in the denominator takes off a relative 1e-8 over the sum of squares, 1e-4 at least here.
    assert 1.0 - 1e-3 <= size <= len(weights) + 1e-9
    assert gates.effective_sample_size(tensor * scale) == pytest.approx(size, rel=1e-2)


@PROPERTY
@given(ROWS)
def test_decoupled_ppo_around_the_behavior_policy_is_ppo(rows):
    """pi_prox = mu: w is 1 and rho' the ratio."""
    around = [row | {"prox_logprobs": row["behavior_logprobs"]} for row in rows]
    decoupled = corrected(around, name="decoupled_ppo", low=0.1, high=0.1)
    assert torch.equal(decoupled, corrected(around, name="ppo", low=0.1, high=0.1))


@PROPERTY
@given(ROWS)
def test_a_three_po_at_one_update_of_age_is_ppo(rows):
    """Alpha is 0 there: the policy in the middle is the one that wrote the trace."""
    fresh = [row | {"policy_lag": 1} for row in rows]
    interpolated = corrected(fresh, name="a3po", low=0.1, high=0.1)
    assert torch.allclose(interpolated, corrected(fresh, name="ppo", low=0.1, high=0.1), rtol=0, atol=EXACT)


@PROPERTY
@given(ROWS, st.floats(0.01, 0.5))
def test_icepop_keeps_its_bounds_and_a_strict_band_does_not(rows, bound):
    """A ratio that stands exactly on a bound: inclusive there, strict in SAO."""
    batch = batch_of(rows)
    ratios = torch.exp(batch.logprobs - batch.behavior_logprobs)[batch.action_mask]
    at = float(ratios.max())
    rule = correction_by_name({"name": "icepop", "low": bound * at, "high": at})
    kept = rule.weigh(batch, torch.ones(len(batch.actions), dtype=torch.float64)).kept
    assert bool(kept[ratios.argmax()])
    assert SAO(band=(bound * at, at)).update(batch).weights[batch.action_mask][ratios.argmax()] == 0
