"""What holds for credit over action tokens and for bounded values, whatever the batch."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.strategies import IN_RANGE, PROPERTY
from tests.train.strategies import rows as random_rows
from train.batch import Batch
from train.methods import BPCO, SAO, values

EXACT = 1e-12
"""Sums of a few float64 numbers in another order."""

ROWS = random_rows(reward=IN_RANGE)
DISCOUNT = st.floats(0.0, 1.0)


def batch_of(rows):
    """The batch in float64."""
    return Batch.from_rows(rows, dtype=torch.float64)


def advantages(rows, gamma, lam):
    """GAE of rows with one lambda for all traces, a list a trace of its action tokens."""
    batch = batch_of(rows)
    lambdas = torch.full((len(rows),), lam, dtype=torch.float64)
    own = batch.on_actions("values")
    found = values.skip_observation_advantages(own, batch.rewards, batch.actions, gamma, lambdas)
    packed = batch.actions.spread(found)
    return [part[mask].tolist() for part, mask in zip(*_split(batch, packed), strict=True)]


def _split(batch, packed):
    sizes = batch.sequence_lengths.tolist()
    return torch.split(packed, sizes), torch.split(batch.action_mask, sizes)


def acting(row, name="values"):
    """A field of a row on its action tokens."""
    return [value for value, action in zip(row[name], row["action_mask"], strict=True) if action]


def deltas(row, gamma):
    """One-step errors of a row over its action tokens, the reward at the last."""
    own = acting(row)
    return [gamma * later - now for now, later in pairwise(own)] + [row["reward"] - own[-1]]


@PROPERTY
@given(ROWS, DISCOUNT)
def test_lambda_zero_is_one_step_of_td(rows, gamma):
    """A_t = gamma V of the next action token - V_t, and R - V at the last."""
    for row, found in zip(rows, advantages(rows, gamma, 0.0), strict=True):
        assert found == pytest.approx(deltas(row, gamma), abs=EXACT)


@PROPERTY
@given(ROWS, DISCOUNT, DISCOUNT)
def test_advantages_are_the_closed_form(rows, gamma, lam):
    """A_t = sum_k (gamma lambda)^k delta_(t+k)."""
    for row, found in zip(rows, advantages(rows, gamma, lam), strict=True):
        steps = deltas(row, gamma)
        expected = [
            sum((gamma * lam) ** ahead * step for ahead, step in enumerate(steps[first:]))
            for first in range(len(steps))
        ]
        assert found == pytest.approx(expected, abs=EXACT)


@PROPERTY
@given(ROWS, DISCOUNT, DISCOUNT)
def test_skipping_observations_is_leaving_them_out(rows, gamma, lam):
    """The same trace without its tool tokens has the same advantages."""
    names = ("values", "logprobs", "behavior_logprobs", "prox_logprobs")
    bare = [
        row | {name: acting(row, name) for name in names} | {"action_mask": [True] * sum(row["action_mask"])}
        for row in rows
    ]
    for whole, alone in zip(advantages(rows, gamma, lam), advantages(bare, gamma, lam), strict=True):
        assert whole == pytest.approx(alone, abs=EXACT)


@PROPERTY
@given(ROWS)
def test_targets_without_a_discount_are_the_reward(rows):
    """At every action token, of both methods with a critic."""
    batch = batch_of(rows)
    expected = batch.rewards[batch.trace_index]
    for method in (SAO(), BPCO()):
        targets = method.update(batch).value_targets
        assert torch.equal(targets[batch.action_mask], expected[batch.action_mask])


@PROPERTY
@given(ROWS, st.floats(0.01, 0.99))
def test_a_token_is_closed_exactly_when_its_probability_moved_its_advantages_way(rows, clip):
    """By more than the clip; an open one has rho A / B."""
    batch = batch_of(rows)
    update = BPCO(clip=clip).update(batch)
    for token in batch.action_mask.nonzero().flatten().tolist():
        pi, mu = math.exp(batch.logprobs[token]), math.exp(batch.behavior_logprobs[token])
        advantage = float(update.advantages[token])
        closed = (pi - mu) * math.copysign(1.0, advantage) > clip and advantage != 0
        if abs(abs(pi - mu) - clip) > EXACT:  # at the bound itself rounding decides
            expected = 0.0 if closed else pi / mu * advantage / len(rows)
            assert float(update.coefficients[token]) == pytest.approx(expected, abs=EXACT)


@PROPERTY
@given(random_rows(reward=IN_RANGE, on_policy=True))
def test_on_policy_a_bounded_critics_coefficient_is_the_advantage_over_b(rows):
    """Nothing is closed at ratio 1."""
    update = BPCO().update(batch_of(rows))
    assert torch.allclose(update.coefficients, update.advantages / len(rows), rtol=0, atol=EXACT)


@PROPERTY
@given(st.floats(-50, 50), st.floats(-3, 3), st.floats(0.1, 5))
def test_a_bounded_value_is_in_range_and_has_its_slope(raw, low, width):
    """dV/dz = width / (pi (1 + z^2)); the inverse gives z back."""
    z = torch.tensor(raw, dtype=torch.float64, requires_grad=True)
    value = values.bounded_values(z, low, low + width)
    value.backward()
    assert low < float(value.detach()) < low + width
    assert float(z.grad) == pytest.approx(width / (math.pi * (1 + raw**2)), rel=1e-12)
    # The tangent near its pole loses as many digits as the value has lost of its distance to the bound.
    assert float(values.raw_values(value.detach(), low, low + width)) == pytest.approx(raw, rel=1e-9, abs=1e-9)


@PROPERTY
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)), min_size=1, max_size=8))
def test_explained_variance_is_at_most_one_and_undefined_on_equal_rewards(pairs):
    """Never a huge negative number from a variance that is only rounding."""
    rewards, predicted = (torch.tensor(column, dtype=torch.float64) for column in zip(*pairs, strict=True))
    explained = values.explained_variance(rewards, predicted, torch.ones(len(pairs), dtype=torch.bool))
    assert math.isnan(explained) == (len({reward for reward, _ in pairs}) == 1)
    assert math.isnan(explained) or explained <= 1.0


@PROPERTY
@given(ROWS, st.floats(0.0, 1.0), st.floats(1.0, 8.0), st.floats(0.0, 0.5), st.floats(0.0, 4.0))
def test_a_wider_band_of_any_width_keeps_a_superset(rows, low, high, below, above):
    """And does not change what it kept."""
    batch = batch_of(rows)
    narrow = SAO(band=(low, high + 0.1)).update(batch)
    wide = SAO(band=(low * (1 - below), high + 0.1 + above)).update(batch)
    kept = narrow.weights != 0
    assert torch.equal(wide.coefficients[kept], narrow.coefficients[kept])
