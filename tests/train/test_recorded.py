"""The behavior policy's other tokens: fresh draws from its weights, and the heads that the server logged."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from schemas.errors import BatchError
from tests.train.klpo_literal import literal_loss
from tests.train.logged import OPTIMIZATION, facts, forked_traces, plain_model, save_random_adapter, served_by
from train.behavior import BehaviorPolicies
from train.learner import Learner
from train.methods import KLPO
from train.packing import build_packs
from train.policy import Policy
from train.recorded import Draws, Heads, LoggedHeads
from train.registry import Weights

K = 5


@pytest.fixture(scope="module")
def versions(tiny_folder, tmp_path_factory):
    """The base, which wrote the traces, and the version in training."""
    moved = save_random_adapter(tmp_path_factory.mktemp("adapters") / "v1", tiny_folder, seed=1)
    return {"v0": Weights(tiny_folder), "v1": Weights(tiny_folder, moved)}


@pytest.fixture(scope="module")
def traces(tiny_folder):
    """Four traces of two sequences that the base wrote."""
    return served_by(plain_model(tiny_folder), forked_traces(num=4), version="v0")


def vocabulary(model, sequence):
    """[A, V] log-probabilities of everything at each action token, by the model's own forward pass."""
    with torch.set_grad_enabled(any(each.requires_grad for each in model.parameters())):
        logits = model(torch.tensor([sequence.token_ids.tolist()]), use_cache=False).logits[0]
    return torch.log_softmax(logits[np.flatnonzero(sequence.action_mask) - 1] / sequence.temperature, dim=-1)


def with_heads(traces, model, num=K):
    """The traces with the `num` likeliest tokens of the model at each action token."""
    changed = []
    for trace in traces:
        heads = [vocabulary(model, each).detach().topk(num, dim=-1) for each in trace]
        changed.append(
            tuple(
                replace(each, top_token_ids=head.indices.int().numpy(), top_logprobs=head.values.numpy())
                for each, head in zip(trace, heads, strict=True)
            )
        )
    return changed


def draws_of(tiny_folder, versions, **options):
    """A source of draws over the base."""
    return Draws(BehaviorPolicies(Policy.load(tiny_folder), versions), **{"num_draws": 3, "seed": 1, **options})


def asked(recorder, traces, *, number=0, token_budget=10_000):
    """The drawn ids by sequence."""
    recorder.begin(number, traces)
    found = {}
    for pack in build_packs(traces, token_budget=token_budget):
        ids = recorder.ask(pack).token_ids
        lengths = [each.num_action_tokens for each in pack.sequences]
        for sequence, own in zip(pack.sequences, ids.split(lengths), strict=True):
            found[sequence.trace_id, sequence.sequence_index] = own.tolist()
    return found


def test_draws_do_not_depend_on_the_packs(tiny_folder, versions, traces):
    """A resumed run, or one with more ranks, draws the same."""
    first = asked(draws_of(tiny_folder, versions), traces)
    assert asked(draws_of(tiny_folder, versions), traces[::-1], token_budget=60) == first


def test_every_update_draws_anew(tiny_folder, versions, traces):
    """Draws that trained once are no fresh ones."""
    recorder = draws_of(tiny_folder, versions)
    assert asked(recorder, traces, number=0) != asked(recorder, traces, number=1)


def test_draws_follow_the_distribution_at_the_logged_temperature(tiny_folder, versions, traces):
    """Over 20,000 draws the shares of tokens are the probabilities of the version that wrote the sequence."""
    sequence = traces[1][0]
    assert sequence.temperature != 1.0
    ids = asked(draws_of(tiny_folder, versions, num_draws=20_000), [(sequence,)])[sequence.trace_id, 0]
    shares = torch.bincount(torch.tensor(ids[0]), minlength=64) / 20_000
    expected = vocabulary(plain_model(tiny_folder), sequence)[0].exp()
    # Four standard errors of a share of one half.
    assert float((shares - expected.detach()).abs().max()) < 4 * math.sqrt(0.25 / 20_000)


def gradients(tiny_folder, versions, traces, method, recorder, token_budget):
    """Of one update on the version in training."""
    policy = Policy.load(tiny_folder)
    policy.become(versions["v1"])
    learner = Learner(policy, method, OPTIMIZATION, token_budget, recorder=recorder)
    rewards = {trace[0].trace_id: number / 3 for number, trace in enumerate(traces)}
    update = learner.learn(0, traces, facts(rewards)).update
    return update, {name: each.grad for name, each in learner.parameters.items()}


@pytest.mark.parametrize("token_budget", [10_000, 60])
@pytest.mark.parametrize("route", ["token", "sequence"])
def test_the_gradient_over_draws_is_that_of_the_literal_loss(route, token_budget, tiny_folder, versions, traces):
    """KLPO's loss written out over the very draws, by plain peft and one sequence at a time."""
    from peft import PeftModel

    method, recorder = KLPO(centering="monte_carlo", route=route), draws_of(tiny_folder, versions)
    _, ours = gradients(tiny_folder, versions, traces, method, recorder, token_budget)
    drawn = asked(draws_of(tiny_folder, versions), traces)
    current = PeftModel.from_pretrained(plain_model(tiny_folder), str(versions["v1"].adapter), is_trainable=True)
    base, told = plain_model(tiny_folder), []
    for number, trace in enumerate(traces):
        parts = []
        for each in trace:
            ids = torch.tensor(drawn[each.trace_id, each.sequence_index])
            own = torch.tensor(each.token_ids[each.action_mask].tolist())[:, None]
            p, q = vocabulary(current, each), vocabulary(base, each).detach()
            logged = torch.from_numpy(each.action_logprobs)
            parts.append((p.gather(1, own)[:, 0], logged, p.gather(1, ids), q.gather(1, ids)))
        told.append((number / 3, *(torch.cat(column) for column in zip(*parts, strict=True))))
    literal_loss(told, route, "mc", method.beta).backward()
    expected = {name: each.grad for name, each in current.named_parameters() if each.grad is not None}
    assert ours.keys() == expected.keys()
    for name, gradient in expected.items():
        assert float((ours[name] - gradient).norm() / gradient.norm()) < 2e-5


def test_heads_are_cut_to_what_every_token_has(tiny_folder, versions, traces):
    """One trace logged 5 and one 3: the batch has 3 of each."""
    model = plain_model(tiny_folder)
    mixed = [*with_heads(traces[:2], model), *with_heads(traces[2:], model, num=3)]
    update, _ = gradients(tiny_folder, versions, mixed, KLPO(centering="topk"), LoggedHeads(), 10_000)
    assert update.batch.records.num_records == 3


def test_a_head_as_large_as_the_vocabulary_is_exact(tiny_folder, versions, traces):
    """All 64 tokens logged: the gradient is that over the behavior policy's whole vocabulary."""
    from train.recorded import Expectations

    whole = with_heads(traces, plain_model(tiny_folder), num=63)
    _, ours = gradients(tiny_folder, versions, whole, KLPO(centering="topk"), LoggedHeads(), 60)
    exact = Expectations(BehaviorPolicies(Policy.load(tiny_folder), versions))
    _, expected = gradients(tiny_folder, versions, traces, KLPO(centering="exact"), exact, 10_000)
    for name, gradient in expected.items():
        assert float((ours[name] - gradient).norm() / gradient.norm()) < 1e-3


def test_heads_of_the_weights_are_those_that_a_server_logs(tiny_folder, versions, traces):
    """The same likeliest tokens and numbers as plain transformers gives for the version that wrote the traces."""
    logged, asked_again = LoggedHeads(), Heads(BehaviorPolicies(Policy.load(tiny_folder), versions), K)
    served = with_heads(traces, plain_model(tiny_folder))
    logged.begin(0, served)
    (pack,) = build_packs(served, token_budget=10_000)
    ours, theirs = asked_again.ask(pack), logged.ask(pack)
    assert torch.equal(ours.token_ids, theirs.token_ids)
    torch.testing.assert_close(ours.behavior_logprobs, theirs.behavior_logprobs, atol=1e-5, rtol=0)


def test_a_trace_without_a_head_is_refused_by_name(traces):
    """It is left out of the plan; in a batch it is an error."""
    with pytest.raises(BatchError, match=f"trace {traces[0][0].trace_id}: update 3: no top-K list"):
        LoggedHeads().begin(3, traces)
