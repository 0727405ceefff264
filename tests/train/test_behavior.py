"""Asking the policies that wrote the traces, beside the one in training."""

from dataclasses import replace

import pytest
import torch

from schemas.errors import BatchError
from tests.train.logged import forked_traces, save_random_adapter
from train.behavior import BehaviorPolicies
from train.logprobs import action_tokens
from train.packing import make_pack
from train.policy import Policy
from train.registry import Weights


@pytest.fixture(scope="module")
def adapters(tiny_folder, tmp_path_factory):
    """The base and two adapters by version."""
    root = tmp_path_factory.mktemp("adapters")
    made = {f"v{seed}": save_random_adapter(root / str(seed), tiny_folder, seed=seed) for seed in (1, 2)}
    return {"v0": None, **made}


def weights_by_version(base, adapters):
    """Where each version lies."""
    return {name: Weights(base, adapter) for name, adapter in adapters.items()}


def sequences_by(*versions):
    """A sequence by each of these versions."""
    traces = forked_traces()
    return [replace(trace[0], behavior_version=version) for trace, version in zip(traces, versions, strict=False)]


def test_each_sequence_is_asked_of_the_version_that_wrote_it(tiny_folder, adapters):
    """Three versions in one pack, the same states as each of them has by itself."""
    policy = Policy.load(tiny_folder)
    asked = BehaviorPolicies(policy.twin(), weights_by_version(tiny_folder, adapters))
    pack = make_pack(sequences_by("v2", "v0", "v1", "v2"))
    found = torch.split(asked.states(pack).hidden, [each.num_action_tokens for each in pack.sequences])
    for sequence, states in zip(pack.sequences, found, strict=True):
        alone = Policy.load(tiny_folder)
        alone.use(adapters[sequence.behavior_version])
        own = make_pack([sequence])
        with torch.no_grad():
            expected = alone.hidden_states(own)[action_tokens(own).slots]
        # float32 through two layers; another adapter is off by 1e-2 and more.
        assert torch.allclose(states, expected, atol=2e-5)


def test_a_twin_holds_the_weights_once_and_its_adapters_alone(tiny_folder, adapters):
    """The policy in training scores the same, bit for bit, whatever its twin has in use."""
    policy = Policy.load(tiny_folder)
    twin = policy.twin()
    policy.use(adapters["v1"])
    pack = make_pack(sequences_by("v1"))
    with torch.no_grad():
        before = policy.score(pack).logprobs
        twin.use(adapters["v2"])
        assert torch.equal(policy.score(pack).logprobs, before)
        assert not torch.equal(twin.score(pack).logprobs, before)
    ours, theirs = (each.model.get_input_embeddings().weight for each in (policy, twin))
    assert ours.data_ptr() == theirs.data_ptr()


@pytest.mark.parametrize("version", [None, "v9"])
def test_an_unknown_version_is_refused_by_trace(version, tiny_folder, adapters):
    """Nobody can be asked."""
    asked = BehaviorPolicies(Policy.load(tiny_folder).twin(), weights_by_version(tiny_folder, adapters))
    (sequence,) = sequences_by(version)
    with pytest.raises(BatchError, match=f"trace {sequence.trace_id}: written by .* expected one of v0, v1, v2"):
        asked.states(make_pack([sequence]))
