"""Which trainer runs which method: every pair is settled, and where it agrees the gradients do."""

import math

import pytest
import torch

from schemas.errors import UsageError
from tests.train.handoff.handed import shapes, three
from tests.train.handoff.losses import LOSSES
from train.handoff.agreements import OPEN_GATE, VERSIONS, agreement, form_of
from train.handoff.carried import carried, checked_batch
from train.methods import corrections
from train.methods.baselines import GRPO, Reinforce
from train.methods.catalog import METHODS
from train.methods.correction_catalog import CORRECTIONS
from train.methods.flash_reinforce import FlashReinforce
from train.methods.terms import PROBABILITY_FLOOR

RULES = {
    "trl": (corrections.PPO(low=0.2, high=0.28), corrections.PPO(high=math.inf)),
    "prime-rl": (corrections.ImportanceSampling(), corrections.DPPOTV(low=0.1, high=0.2), corrections.IPO(bound=0.1)),
    "verl": (
        corrections.NoCorrection(),
        corrections.ImportanceSampling(),
        corrections.TIS(high=1.5),
        corrections.IcePop(low=0.7, high=1.4),
        corrections.PPO(low=0.2, high=0.28, dual=1.5),
        corrections.PPO(low=1.0, high=math.inf),
        corrections.DPPOTV(low=0.1, high=0.2, truncate=1.5),
        corrections.DPPOKL(low=0.02, high=0.01),
        corrections.CISPO(low=0.3, high=0.2),
    ),
}
"""What each trainer was found to run, with bounds that tokens cross."""


def per_token(rows):
    """The advantages of the rows, one an action token."""
    parts = [torch.full((row.sequence.num_action_tokens,), row.advantage, dtype=torch.float64) for row in rows]
    return torch.cat(parts)


PAIRS = [
    (trainer, rule, aggregation)
    for trainer, rules in RULES.items()
    for rule in rules
    for aggregation in ("token_mean", "trace_mean", "trace_sum")
]


def moved(batch, seed):
    """Log-probabilities of a policy that has moved by about 0.4 nats a token."""
    step = 0.4 * torch.randn(len(batch.action_mask), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (batch.behavior_logprobs + step).clamp(max=-1e-3)


@pytest.mark.parametrize(("trainer", "rule", "aggregation"), PAIRS)
def test_the_trainer_s_loss_on_our_rows_has_our_gradient(trainer, rule, aggregation):
    """Its loss over N, on the advantages that the rows carry, is the method's own coefficient at every token."""
    method, traces = Reinforce(correction=rule, aggregation=aggregation), three()
    settings = agreement(trainer, method, shapes()).settings
    rows = carried(traces, method, aggregation)
    advantages = per_token(rows)
    batch = checked_batch(traces)
    for seed in range(8):
        logprobs = moved(batch, seed).requires_grad_()
        loss = LOSSES[trainer](logprobs, batch.behavior_logprobs, advantages, settings).sum() / len(logprobs)
        (gradient,) = torch.autograd.grad(loss, logprobs)
        ours = method.update(batch.with_logprobs(logprobs.detach())).coefficients
        torch.testing.assert_close(-gradient, ours, rtol=1e-12, atol=1e-15)


def test_flash_reinforce_with_its_gate_open_is_what_prime_rl_runs():
    """No token reaches 13.8 nats, and 1/(T B) is in the advantages."""
    assert -math.log(PROBABILITY_FLOOR) < OPEN_GATE
    method, traces = FlashReinforce(trust=OPEN_GATE), three()
    settings = agreement("prime-rl", method, shapes()).settings
    rows = carried(traces, method, form_of(method).aggregation)
    advantages = per_token(rows)
    batch = checked_batch(traces)
    logprobs = moved(batch, 1).requires_grad_()
    loss = LOSSES["prime-rl"](logprobs, batch.behavior_logprobs, advantages, settings).sum() / len(logprobs)
    (gradient,) = torch.autograd.grad(loss, logprobs)
    ours = method.update(batch.with_logprobs(logprobs.detach())).coefficients
    torch.testing.assert_close(-gradient, ours, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("trainer", VERSIONS)
@pytest.mark.parametrize("method", sorted(set(METHODS) - {"reinforce", "grpo"}))
def test_a_method_with_a_gate_a_critic_or_a_weight_of_its_own_is_refused(trainer, method):
    """With what it asks for, what the trainer has, and the way out."""
    with pytest.raises(UsageError, match=f"{method} is not handed to {trainer}") as refused:
        agreement(trainer, METHODS[method](), shapes())
    assert "--to jsonl" in str(refused.value)
    assert trainer in str(refused.value).split(": ", 1)[1] or trainer.upper() in str(refused.value)


@pytest.mark.parametrize("trainer", VERSIONS)
@pytest.mark.parametrize("rule", sorted(CORRECTIONS))
def test_every_correction_is_settled(trainer, rule):
    """It is one of those whose gradients are compared above, or it is refused by name."""
    method = GRPO(correction=rule, singleton="zero")
    if rule in {known.name for known in RULES[trainer]}:
        assert agreement(trainer, method, shapes()).settings
    else:
        with pytest.raises(UsageError, match=f"its correction is {rule!r}, "):
            agreement(trainer, method, shapes())


@pytest.mark.parametrize(
    ("trainer", "rule"),
    [
        ("trl", corrections.PPO(dual=3.0)),
        ("prime-rl", corrections.DPPOTV(truncate=10.0)),
        ("verl", corrections.TIS(low=0.5)),
        ("verl", corrections.IcePop(low=0.0)),
        ("verl", corrections.PPO(dual=1.0)),
    ],
)
def test_a_bound_that_the_trainer_cannot_set_is_refused(trainer, rule):
    """Rather than left out."""
    with pytest.raises(UsageError, match="its correction is"):
        agreement(trainer, Reinforce(correction=rule), shapes())


@pytest.mark.parametrize("trainer", ["trl", "verl"])
def test_several_temperatures_go_to_prime_rl_alone(trainer):
    """TRL and verl scale all logits by one."""
    method = Reinforce(correction="ppo")
    with pytest.raises(UsageError, match=r"2 temperatures, from 0\.7 to 1"):
        agreement(trainer, method, shapes(temperatures=(0.7, 1.0)))
    assert agreement("prime-rl", Reinforce(correction="is"), shapes(temperatures=(0.7, 1.0)))


def test_trl_needs_batches_of_one_size():
    """It draws so many samples a step; with others its batches would be no batches of the plan."""
    with pytest.raises(UsageError, match="from 4 to 5 sequences"):
        agreement("trl", Reinforce(correction="ppo"), shapes(4, 5))
    assert agreement("trl", Reinforce(correction="ppo"), shapes(4, 4)).settings["per_device_train_batch_size"] == 4


def test_a_stale_trace_is_not_dropped_by_trl():
    """It drops what lags more than max_staleness of its own syncs, of which there is one a step and one before."""
    assert agreement("trl", Reinforce(correction="ppo"), shapes(4, 4, 4)).settings["max_staleness"] == 4
