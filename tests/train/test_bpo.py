"""BPO: its weight, its two forms, its refusals, its words, and a toy that must climb."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BatchError, SettingsError
from tests.train.strategies import PROPERTY
from tests.train.strategies import rows as random_rows
from tests.train.toy import climbs
from train.batch import Batch
from train.methods import BPO, KLPO, Reinforce, terms
from train.methods.bpo_weight import BPOWeight
from train.replay import TrainSettings, check_method

LOGPROB = st.floats(-40.0, -1e-9)
EPSILON = st.sampled_from([0.01, 0.1, 1.0])


def row(reward=1.0, now=-0.5, then=-0.5, group=0, value=0.5):
    """A trace of one token."""
    return {"reward": reward, "logprobs": [now], "behavior_logprobs": [then], "group": group, "values": [value]}


def batch_of(rows):
    """The batch of rows in float64."""
    return Batch.from_rows(rows, dtype=torch.float64)


def weight(now, then, epsilon):
    """The weight of one token."""
    numbers = (torch.tensor([value], dtype=torch.float64) for value in (now, then))
    return float(terms.bpo_weights(*numbers, epsilon))


@PROPERTY
@given(LOGPROB, LOGPROB, EPSILON)
def test_a_weight_is_bounded_and_above_one_where_the_token_became_more_likely(now, then, epsilon):
    """0 < omega <= (1 + eps) / eps; the side of 1 is that of pi - mu, as far as float64 can tell them apart."""
    omega = weight(now, then, epsilon)
    assert 0 < omega <= (1 + epsilon) / epsilon * (1 + 1e-12)
    moved = math.exp(now) - math.exp(then)
    if abs(moved) > 1e-15:
        assert (omega >= 1) is (moved > 0)
    assert weight(now, now, epsilon) == 1.0


def test_a_weight_by_hand():
    """From 0.5 to 0.75 at eps 0.1: 0.6 / 0.35; a token rare under both has 1, though its ratio is 20."""
    assert weight(math.log(0.75), math.log(0.5), 0.1) == pytest.approx(0.6 / 0.35)
    assert weight(-9.0, -12.0, 0.1) == pytest.approx(1.0, abs=2e-4)


def test_the_mask_is_decided_before_the_cap():
    """The weight is 10.9: a cap of 1.1 would hide it from 1 + high = 1.2, and the token would train."""
    rows = [row(1.0, -1e-6, -5.0), row(0.0, -1e-6, -5.0)]
    made = BPO(correction=BPOWeight(cap=1.1)).update(batch_of(rows))
    assert made.weights.tolist() == [0.0, pytest.approx(1.1)]
    assert made.in_trust.tolist() == [False, True]


@PROPERTY
@given(random_rows(min_traces=2), st.sampled_from([1.0, 1.1, 3.0, math.inf]))
def test_no_cap_moves_the_mask(rows, cap):
    """The tokens that train are the same under any cap, and none weighs more than it."""
    capped, free = (BPO(singleton="zero", correction=BPOWeight(cap=c)).update(batch_of(rows)) for c in (cap, math.inf))
    assert torch.equal(capped.weights != 0, free.weights != 0)
    assert torch.equal(capped.weights, free.weights.clamp(max=cap))


@PROPERTY
@given(random_rows())
def test_a_trace_alone_in_its_group_moves_nothing(rows):
    """Whatever its reward and its ratios; the others train as if it had not been there, B aside."""
    rows = [own | {"group": 0} for own in rows]
    made = BPO(singleton="zero").update(batch_of([*rows, rows[0] | {"group": 1, "reward": 5.0}]))
    own = batch_of(rows).action_mask.numel()
    assert not made.coefficients[own:].any()
    without = BPO(singleton="zero").update(batch_of(rows)).coefficients * len(rows) / (len(rows) + 1)
    assert made.coefficients[:own].tolist() == pytest.approx(without.tolist(), abs=1e-12)


@PROPERTY
@given(random_rows(min_traces=2), st.booleans())
def test_the_gradient_is_that_of_the_literal_loss(rows, scaled):
    """TRL's: the mean over traces of the mean over tokens of -A M min(sg(omega), C) log pi, in plain tensors."""
    batch = batch_of(rows)
    made = BPO(scaled=scaled, singleton="zero").update(batch)
    total = torch.zeros((), dtype=torch.float64)
    logprobs = batch.logprobs.clone().requires_grad_()
    for trace in range(len(rows)):
        own = (batch.trace_index == trace) & batch.action_mask
        pi, mu = torch.exp(logprobs[own]).detach(), torch.exp(batch.behavior_logprobs[own])
        advantage, omega = made.advantages[own][0], (1.1 - mu) / (1.1 - pi)
        masked = ((omega < 0.8) & (advantage < 0)) | ((omega > 1.2) & (advantage > 0))
        total = total + (-advantage * torch.where(masked, 0.0, omega.clamp(max=3.0)) * logprobs[own]).mean()
    (total / len(rows)).backward()
    assert (-logprobs.grad).tolist() == pytest.approx(made.coefficients.tolist(), abs=1e-12)


@PROPERTY
@given(random_rows(), st.sampled_from([0.5, 1.0, 10.0]), st.booleans())
def test_the_exact_residual_is_the_gradient_of_its_objective(rows, eta, with_critic):
    """delta^2 / (2 eta), the mean over traces, by autograd: eta (R - V) less the sum of log-ratio and Bernoulli KL."""
    batch = batch_of([own | {"logprobs": [min(x, -1e-3) for x in own["logprobs"]]} for own in rows])
    made = BPO(form="exact_residual", eta=eta, baseline="critic" if with_critic else "zero").update(batch)
    logprobs, total = batch.logprobs.clone().requires_grad_(), 0.0
    for trace, own in enumerate(rows):
        acted = (batch.trace_index == trace) & batch.action_mask
        pi, mu = logprobs[acted], batch.behavior_logprobs[acted]
        p, q = torch.exp(pi), torch.exp(mu)
        kl = q * (mu - pi) + (1 - q) * torch.log((1 - q) / (1 - p))
        above = own["reward"] - (own["values"][own["action_mask"].index(True)] if with_critic else 0.0)
        total = total + (eta * above - (pi - mu + kl).sum()) ** 2 / (2 * eta) / len(rows)
    total.backward()
    scale = max(1.0, float(made.coefficients.abs().max()))
    assert (-logprobs.grad).tolist() == pytest.approx(made.coefficients.tolist(), abs=1e-9 * scale)


@PROPERTY
@given(random_rows(), st.sampled_from([0.02, 0.1, 1.0]))
def test_the_exact_residual_is_klpos_sequence_binary_route(rows, beta):
    """With beta = 1/eta and V = 0: the same coefficients."""
    batch = batch_of([own | {"logprobs": [min(x, -1e-3) for x in own["logprobs"]]} for own in rows])
    ours = BPO(form="exact_residual", eta=1 / beta).update(batch)
    theirs = KLPO(beta=beta, route="sequence", centering="binary").update(batch)
    assert ours.coefficients.tolist() == pytest.approx(theirs.coefficients.tolist(), rel=1e-12)


def test_the_exact_residual_by_hand():
    """Both at 0.61, V = 0.25: c = (1 - 0.25) / 1; and the critic's target is the reward."""
    made = BPO(form="exact_residual", baseline="critic").update(batch_of([row(value=0.25)]))
    assert made.coefficients.tolist() == [pytest.approx(0.75)]
    assert made.value_targets.tolist() == [1.0]
    assert "KLPO's sequence-binary route with beta 0.1" in str(made)


def test_near_the_behavior_policy_the_exact_residual_is_the_reward_above_v():
    """delta/eta tends to R - V: a log-ratio of 1e-9 moves it by no more."""
    made = BPO(form="exact_residual").update(batch_of([row(1.0, -0.5 + 1e-9), row(-2.0)]))
    assert made.advantages.tolist() == pytest.approx([1.0, -2.0], abs=1e-8)


def test_a_group_of_one_is_refused_with_what_works():
    """The practical form has nothing to compare it with; the exact residual takes it."""
    alone = batch_of([row(), row(0.0), row(group=1)])
    with pytest.raises(BatchError, match=r'\(2\) alone.*BPO\(form="exact_residual"\).*KLPO\(route="sequence"'):
        BPO().update(alone)
    assert BPO(singleton="zero").update(alone).advantages.tolist()[2] == 0.0
    assert BPO(form="exact_residual").update(alone).moves


def test_a_batch_without_groups_is_refused():
    """They are what the practical form compares in."""
    rows = [{key: value for key, value in row().items() if key != "group"}]
    with pytest.raises(BatchError, match="bpo: trace 0 and the rest of the batch have no group"):
        BPO().update(batch_of(rows))


def test_missing_numbers_are_refused_by_name():
    """No ratio is invented, no value either."""
    without = [{key: value for key, value in row().items() if key != "behavior_logprobs"}] * 2
    for form in ("practical", "exact_residual"):
        with pytest.raises(BatchError, match="have no behavior_logprobs"):
            BPO(form=form).update(batch_of(without))
    valueless = [{key: value for key, value in row().items() if key != "values"}]
    with pytest.raises(BatchError, match=r"bpo: trace 0 .* no values"):
        BPO(form="exact_residual", baseline="critic").update(batch_of(valueless))


def test_its_weight_goes_around_another_advantage():
    """BPO's weight with a batch mean, which is not BPO, under its own name."""
    made = Reinforce(correction="bpo_weight").update(batch_of([row(1.0, math.log(0.4), math.log(0.5)), row(0.0)]))
    assert made.weights.tolist() == pytest.approx([0.6 / 0.7, 1.0])


def test_equal_rewards_move_nothing_and_say_so():
    """In a group."""
    made = BPO().update(batch_of([row(), row()]))
    assert not made.moves
    assert "every group has one reward throughout, so nothing moves" in made.notes


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (BPO, {"form": "literal"}),
        (BPO, {"eta": 0.0}),
        (BPO, {"baseline": "group"}),
        (BPO, {"scaled": 1}),
        (BPO, {"singleton": "raw"}),
        (BPO, {"correction": "ppo"}),
        (BPO, {"eta": 5.0}),
        (BPO, {"baseline": "critic"}),
        (BPO, {"certain": "floor"}),
        (BPO, {"scaled": False, "form": "exact_residual"}),
        (BPO, {"singleton": "zero", "form": "exact_residual"}),
        (BPO, {"correction": BPOWeight(cap=2.0), "form": "exact_residual"}),
        (BPOWeight, {"epsilon": 0.0}),
        (BPOWeight, {"cap": 0.5}),
        (BPOWeight, {"low": 1.5}),
        (BPOWeight, {"high": -0.1}),
    ],
    ids=str,
)
def test_a_bad_option_is_refused_where_it_is_set(kind, options):
    """With its name, its value and the bound."""
    name = next(iter(options))
    with pytest.raises(SettingsError, match=rf"{kind.__name__}\({name}=.*expected"):
        kind(**options)


@pytest.mark.parametrize("lag", [0, 8])
@pytest.mark.parametrize("method", [BPO(), BPO(form="exact_residual", baseline="critic")], ids=["practical", "exact"])
def test_a_toy_policy_climbs_from_chance(method, lag):
    """At lag 0 and at eight updates of lag."""
    assert climbs(method, above=0.9, lag=lag, learning_rate=8.0, num_updates=60)


def test_the_trainer_runs_both_forms():
    """Groups are asks, for the practical form alone; a critic is kept where the residual is taken above its values."""
    check_method(TrainSettings(method="bpo", options={"form": "exact_residual"}))
    check_method(TrainSettings(method="bpo"))
    assert BPO(form="exact_residual", baseline="critic").needs_critic
    assert (BPO().needs_groups, BPO(form="exact_residual").needs_groups) == (True, False)
    check_method(TrainSettings(method="bpo", options={"form": "exact_residual", "baseline": "critic"}))
