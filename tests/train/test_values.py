"""Credit over action tokens, against a plain recursion and by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.strategies import IN_RANGE, PROPERTY
from tests.train.strategies import rows as random_rows
from train.batch import Batch
from train.methods import values


def plain_advantages(row, gamma, lam):
    """GAE from the last action token backward, in plain floats, observations left out."""
    own = [value for value, action in zip(row["values"], row["action_mask"], strict=True) if action]
    following, advantage, backward = 0.0, 0.0, []
    for place, value in enumerate(reversed(own)):
        reward = row["reward"] if place == 0 else 0.0
        advantage = reward + gamma * following - value + gamma * lam * advantage
        following = value
        backward.append(advantage)
    remaining = iter(reversed(backward))
    return [next(remaining) if action else 0.0 for action in row["action_mask"]]


def advantages(rows, gamma, lambdas):
    """Those of the batch, packed."""
    batch = Batch.from_rows(rows, dtype=torch.float64)
    lambdas = torch.tensor(lambdas, dtype=torch.float64)
    own = batch.on_actions("values")
    found = values.skip_observation_advantages(own, batch.rewards, batch.actions, gamma, lambdas)
    return batch.actions.spread(found).tolist()


@PROPERTY
@given(random_rows(), st.floats(0, 1), st.floats(-0.25, 1))
def test_the_scan_equals_the_recursion(rows, gamma, lam):
    """For any gamma and lambda, a negative one too."""
    expected = [value for row in rows for value in plain_advantages(row, gamma, lam)]
    assert advantages(rows, gamma, [lam] * len(rows)) == pytest.approx(expected, abs=1e-12)


def test_a_long_trace_is_scanned_exactly():
    """A thousand tokens: ten passes reach across."""
    row = {"reward": 1.0, "behavior_logprobs": [-1.0] * 1000, "values": [math.sin(t) for t in range(1000)]}
    row["action_mask"] = [t % 7 != 3 for t in range(1000)]
    assert advantages([row], 0.999, [0.99]) == pytest.approx(plain_advantages(row, 0.999, 0.99), abs=1e-12)


@PROPERTY
@given(random_rows(reward=IN_RANGE))
def test_lambda_one_telescopes_to_the_reward_minus_the_value(rows):
    """A = R - V at every action token."""
    expected = [
        row["reward"] - value if action else 0.0
        for row in rows
        for value, action in zip(row["values"], row["action_mask"], strict=True)
    ]
    assert advantages(rows, 1.0, [1.0] * len(rows)) == pytest.approx(expected, abs=1e-12)


@PROPERTY
@given(random_rows(), st.floats(0, 1))
def test_the_last_action_token_has_the_reward_minus_its_value(rows, lam):
    """Whatever lambda is, and whatever observation follows."""
    got = iter(advantages(rows, 1.0, [lam] * len(rows)))
    for row in rows:
        own = [next(got) for _ in row["action_mask"]]
        last = max(place for place, action in enumerate(row["action_mask"]) if action)
        assert own[last] == pytest.approx(row["reward"] - row["values"][last], abs=1e-12)


def test_credit_bootstraps_over_an_observation():
    """Values 0.2, 0.6 around a tool token of value 0.9: (0.6 - 0.2) + lambda (1 - 0.6)."""
    row = {"reward": 1.0, "behavior_logprobs": [-1.0] * 3, "values": [0.2, 0.9, 0.6], "action_mask": [1, 0, 1]}
    assert advantages([row], 1.0, [0.5]) == pytest.approx([0.4 + 0.5 * 0.4, 0.0, 0.4])


def test_the_bounded_head_starts_in_the_middle_and_inverts():
    """V(0) is the midpoint; z of V of z is z."""
    raw = torch.tensor([-3.0, 0.0, 0.5], dtype=torch.float64)
    bounded = values.bounded_values(raw, -1.0, 3.0)
    assert bounded[1] == 1.0
    assert values.raw_values(bounded, -1.0, 3.0).tolist() == pytest.approx(raw.tolist(), abs=1e-12)


def test_a_value_loss_reads_nothing_off_the_mask():
    """Neither NaN values nor NaN targets, forward or backward."""
    own = torch.tensor([0.5, math.nan], dtype=torch.float64, requires_grad=True)
    targets, mask = torch.tensor([1.0, math.nan]), torch.tensor([True, False])
    loss = values.value_loss(own, targets, mask, old_values=own.detach(), clip=0.2)
    loss.backward()
    assert loss.item() == pytest.approx(0.125)
    assert own.grad.tolist() == [-0.5, 0.0]
