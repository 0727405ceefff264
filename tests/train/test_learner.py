"""One update: the method's gradient whatever the packs, a finite step, or none."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from schemas.errors import TrainingError
from tests.train.logged import (
    OPTIMIZATION,
    facts,
    plain_action_logprobs,
    plain_model,
)
from train.learner import Learner
from train.methods import FlashReinforce
from train.methods.baselines import RAE
from train.policy import Policy


def _rewards(traces):
    return {trace[0].trace_id: float(number % 3 == 0) for number, trace in enumerate(traces)}


@pytest.fixture
def make(tiny_folder, adapter):
    """Makes a learner on the adapter."""

    def _make(method=None, *, token_budget=10_000, **optimization):
        policy = Policy.load(tiny_folder)
        policy.use(adapter)
        chosen = method or FlashReinforce(trust=math.inf)
        return Learner(policy, chosen, replace(OPTIMIZATION, **optimization), token_budget)

    return _make


def _gradients(learner):
    return {name: parameter.grad.clone() for name, parameter in learner.parameters.items()}


def _oracle(tiny_folder, adapter, traces, rewards):
    """FlashREINFORCE's gradient on the adapter by plain peft, one sequence at a time: sum of A rho / (T B) d log pi."""
    from peft import PeftModel

    model = PeftModel.from_pretrained(plain_model(tiny_folder), str(adapter), is_trainable=True)
    mean = sum(rewards.values()) / len(rewards)
    for trace in traces:
        length = sum(int(sequence.action_mask.sum()) for sequence in trace)
        for sequence in trace:
            logprobs = plain_action_logprobs(model, sequence)
            behavior = torch.from_numpy(sequence.behavior_logprobs[sequence.action_mask])
            ratios = (logprobs.detach() - behavior).exp()
            weight = (rewards[sequence.trace_id] - mean) / (length * len(traces))
            (-(weight * ratios * logprobs).sum()).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("token_budget", [10_000, 70])
def test_the_gradient_is_the_methods_whatever_the_packs(token_budget, make, traces, tiny_folder, adapter):
    """One pack or six: the sum over packs is the equation's gradient, B and T of the whole batch."""
    learner, rewards = make(token_budget=token_budget), _rewards(traces)
    learner.learn(0, traces, facts(rewards))
    expected = _oracle(tiny_folder, adapter, traces, rewards)
    ours = _gradients(learner)
    assert ours.keys() == expected.keys()
    for name, gradient in expected.items():
        # float32 sums over 230 tokens in another order.
        assert float((ours[name] - gradient).norm() / gradient.norm()) < 1e-5


def test_a_method_that_needs_the_whole_batch_is_split_all_the_same(make, traces):
    """A method that cannot be split sees the batch scored first, and no pack size changes its gradient."""
    results = []
    for token_budget in (10_000, 70):
        learner = make(RAE(), token_budget=token_budget)
        learner.learn(0, traces, facts(_rewards(traces)))
        results.append(_gradients(learner))
    for name, gradient in results[0].items():
        torch.testing.assert_close(gradient, results[1][name], atol=1e-6, rtol=1e-4)


def test_the_order_of_traces_changes_nothing(make, traces):
    """The batch is a set: bit for bit the same gradient."""
    results = []
    for order in (traces, traces[::-1]):
        learner = make()
        learner.learn(0, order, facts(_rewards(traces)))
        results.append(_gradients(learner))
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])


def test_equal_rewards_move_nothing(make, traces):
    """Every coefficient is 0, so the optimizer, whose momentum and decay would act, is left alone."""
    learner = make(weight_decay=0.5)
    learner.learn(0, traces, facts(_rewards(traces)))
    before = {name: weight.detach().clone() for name, weight in learner.parameters.items()}
    learned = learner.learn(1, traces, facts(dict.fromkeys(_rewards(traces), 1.0)))
    assert not learned.moved
    assert learned.figures["grad_norm"] == 0.0
    assert all(torch.equal(before[name], weight) for name, weight in learner.parameters.items())


def test_a_closed_gate_moves_nothing(make, traces):
    """With no trace in trust there is no step, and the account says so."""
    learned = make(FlashReinforce(trust=0.0)).learn(0, traces, facts(_rewards(traces)))
    assert not learned.moved
    assert "no trace is in trust" in str(learned.update)


def test_rewarded_replies_become_likelier(make, traces):
    """Ten updates at a fair rate raise the rewarded traces above the others."""
    learner, rewards = make(), _rewards(traces)
    told = [learner.learn(number, traces, facts(rewards)).update.log_ratios for number in range(10)]
    index = torch.tensor([rewards[name] for name in learner.learn(10, traces, facts(rewards)).update.batch.trace_ids])
    trace_of = learner.learn(11, traces, facts(rewards)).update.batch.trace_index
    rewarded = index[trace_of] == 1.0
    moved = told[-1] - told[0]
    assert float(moved[rewarded].mean()) > 0.05 > float(moved[~rewarded].mean())


def test_a_log_probability_that_is_not_finite_stops_before_the_step(make, traces):
    """A damaged weight is found in the forward pass; nothing is stepped on."""
    learner = make()
    next(iter(learner.parameters.values())).data.fill_(math.nan)
    kept = [weight.detach().clone() for weight in learner.parameters.values()][1:]
    with pytest.raises(TrainingError, match="logprobs nan"):
        learner.learn(0, traces, facts(_rewards(traces)))
    assert all(torch.equal(a, b) for a, b in zip(kept, list(learner.parameters.values())[1:], strict=True))


def test_a_gradient_that_is_not_finite_stops_before_the_step(make, traces):
    """An overflow on the way back leaves the weights as they were."""
    learner = make()
    before = [weight.detach().clone() for weight in learner.parameters.values()]
    next(iter(learner.parameters.values())).register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(TrainingError, match="gradient norm"):
        learner.learn(3, traces, facts(_rewards(traces)))
    assert all(torch.equal(a, b) for a, b in zip(before, learner.parameters.values(), strict=True))


def test_the_norm_is_bounded_and_the_figure_tells_what_it_was(make, traces):
    """The clip scales the gradient to the bound; the metrics have the norm before it."""
    learner = make(max_grad_norm=1e-3)
    figures = learner.learn(0, traces, facts(_rewards(traces))).figures
    clipped = torch.cat([parameter.grad.flatten() for parameter in learner.parameters.values()])
    assert float(clipped.norm()) == pytest.approx(1e-3, rel=1e-3)
    assert figures["grad_norm"] > 1e-3


def test_figures_count_tokens_and_slots(make, traces):
    """Tokens are those of the sequences; slots are fewer where beginnings are shared."""
    figures = make().learn(0, traces, facts(_rewards(traces))).figures
    assert figures["num_tokens"] == sum(len(sequence.token_ids) for trace in traces for sequence in trace)
    assert figures["num_slots"] < figures["num_tokens"]
    assert figures["num_traces"] == 6
    assert 0 < figures["mean_entropy"] < math.log(64)


def test_the_rate_rises_then_stays():
    """Three updates of warm-up: a quarter, a half, three quarters, then all of it."""
    rising = replace(OPTIMIZATION, learning_rate=4.0, warmup_updates=3)
    assert [rising.rate(update) for update in range(5)] == [1.0, 2.0, 3.0, 4.0, 4.0]


def test_a_cosine_ends_at_a_tenth():
    """It begins whole, is half way between in the middle, and falls towards a tenth."""
    cosine = replace(OPTIMIZATION, learning_rate=1.0, schedule="cosine", num_updates=100)
    rates = np.array([cosine.rate(update) for update in (0, 50, 100)])
    assert rates == pytest.approx([1.0, 0.55, 0.1])
