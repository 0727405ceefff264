"""KLPO on the trainer: centred over the whole vocabulary of the policies that wrote the traces."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import PeftModel

from tests.train.klpo_literal import literal_loss
from tests.train.logged import OPTIMIZATION, forked_traces, plain_model, save_random_adapter, served_by
from train.behavior import BehaviorPolicies
from train.learner import Learner
from train.methods import KLPO
from train.policy import Policy
from train.recorded import Expectations
from train.registry import Weights
from train.replay import TrainSettings, check_method
from train.trace_batch import Facts


@pytest.fixture(scope="module")
def adapters(tiny_folder, tmp_path_factory):
    """The base, which wrote some traces, v1, which wrote the others, and v2, which is trained."""
    root = tmp_path_factory.mktemp("adapters")
    made = {f"v{seed}": save_random_adapter(root / str(seed), tiny_folder, seed=seed) for seed in (1, 2)}
    return {"v0": None, **made}


def _model(folder, adapter, *, trainable=False):
    plain = plain_model(folder)
    return PeftModel.from_pretrained(plain, str(adapter), is_trainable=trainable) if adapter else plain


@pytest.fixture(scope="module")
def traces(tiny_folder, adapters):
    """Three traces that the base wrote and three of v1."""
    made = forked_traces()
    first = served_by(_model(tiny_folder, None), made[:3], version="v0")
    return first + served_by(_model(tiny_folder, adapters["v1"]), made[3:], version="v1")


REWARDS = (1.0, 0.0, 0.5, 0.0, 1.0, 0.25)


def _vocabulary(model, sequence):
    """[A, V] log-probabilities before each action token, by the model's own forward pass."""
    logits = model(torch.tensor([sequence.token_ids.tolist()]), use_cache=False).logits[0]
    return torch.log_softmax(logits[np.flatnonzero(sequence.action_mask) - 1] / sequence.temperature, -1)


def _literal_gradient(folder, adapters, traces, route, beta):
    """The gradient of the paper's loss on v2, one sequence at a time, every vocabulary written out."""
    current = _model(folder, adapters["v2"], trainable=True)
    by_version = {version: _model(folder, adapter) for version, adapter in adapters.items()}
    told = []
    for trace, reward in zip(traces, REWARDS, strict=True):
        parts = []
        for sequence in trace:
            ids = torch.from_numpy(sequence.token_ids[sequence.action_mask].astype(np.int64))[:, None]
            ps = _vocabulary(current, sequence)
            qs = _vocabulary(by_version[sequence.behavior_version], sequence).detach()
            parts.append((ps.gather(1, ids)[:, 0], torch.from_numpy(sequence.action_logprobs), ps, qs))
        told.append((reward, *(torch.cat(column) for column in zip(*parts, strict=True))))
    literal_loss(told, route, "full", beta).backward()
    return {name: parameter.grad for name, parameter in current.named_parameters() if parameter.grad is not None}


def _learner(folder, adapters, method, token_budget=10_000):
    policy = Policy.load(folder)
    versions = {name: Weights(folder, adapter) for name, adapter in adapters.items()}
    asked = Expectations(BehaviorPolicies(policy.twin(), versions))
    policy.use(adapters["v2"])
    return Learner(policy, method, OPTIMIZATION, token_budget, recorder=asked)


def _facts(traces):
    return {trace[0].trace_id: Facts(reward) for trace, reward in zip(traces, REWARDS, strict=True)}


@pytest.mark.parametrize("token_budget", [10_000, 70])
@pytest.mark.parametrize("route", ["token", "sequence"])
def test_the_gradient_is_that_of_the_literal_loss(route, token_budget, tiny_folder, adapters, traces):
    """In one pack or in several, with traces of two versions beside each other."""
    learner = _learner(tiny_folder, adapters, KLPO(beta=0.3, route=route, centering="exact"), token_budget)
    learned = learner.learn(0, traces, _facts(traces))
    expected = _literal_gradient(tiny_folder, adapters, traces, route, 0.3)
    for name, parameter in learner.parameters.items():
        # float32 through two layers, and another order of sums.
        torch.testing.assert_close(parameter.grad, expected[name], atol=1e-5, rtol=1e-3)
    assert learned.moved
    assert "centred exactly, over the sums of a whole vocabulary" in str(learned.update)


def test_binary_centering_asks_nobody(tiny_folder, adapters, traces):
    """It reads the sampled token alone, and says what it is."""
    learner = replace(_learner(tiny_folder, adapters, KLPO(centering="binary")), recorder=None)
    learned = learner.learn(0, traces, _facts(traces))
    assert learned.moved
    assert "an approximation: not centred" in str(learned.update)


@pytest.mark.parametrize("centering", ["exact", "monte_carlo", "topk", "binary"])
def test_what_the_trainer_can_centre_is_taken(centering):
    """At once, before a night begins."""
    check_method(TrainSettings(method="klpo", options={"centering": centering}))
