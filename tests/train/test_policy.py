"""A policy scores packs as plain transformers scores one sequence at a time, and swaps adapters without a trace."""

import shutil
from dataclasses import replace

import pytest
import torch

from schemas.errors import CheckpointError
from tests.train.conftest import KINDS
from tests.train.logged import forked_traces, logged, plain_action_logprobs, plain_model, save_random_adapter
from train.attention import PackLayout, Segment
from train.packing import build_packs, make_pack
from train.policy import Policy

LOGPROB_TOLERANCE = 2e-5
"""float32 through two layers and a softmax over 64 words; neighbours in sight make 1e-1."""


def _sequences():
    return [sequence for trace in forked_traces() for sequence in trace]


def _gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def _trainable(folder):
    policy = Policy.load(folder)
    for parameter in policy.model.parameters():
        parameter.requires_grad_(True)
    return policy


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_scores_are_those_of_one_sequence_at_a_time(kind, share, model_folders):
    """Forked traces at two temperatures in one pack, with and without shared beginnings."""
    sequences, plain = _sequences(), plain_model(model_folders[kind])
    with torch.no_grad():
        packed = Policy.load(model_folders[kind]).score(make_pack(sequences, share=share)).logprobs
        alone = torch.cat([plain_action_logprobs(plain, sequence) for sequence in sequences])
    torch.testing.assert_close(packed, alone, atol=LOGPROB_TOLERANCE, rtol=0)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_gradients_are_those_of_one_sequence_at_a_time(kind, share, model_folders):
    """Every weight, the embedding and the head included, gets the gradient that the sequences one by one give it."""
    sequences, plain = _sequences(), plain_model(model_folders[kind])
    policy = _trainable(model_folders[kind])
    packed = policy.score(make_pack(sequences, share=share)).logprobs
    weights = torch.linspace(-1, 2, len(packed))
    alone = torch.cat([plain_action_logprobs(plain, sequence) for sequence in sequences])
    ours, theirs = _gradients(policy.model, (weights * packed).sum()), _gradients(plain, (weights * alone).sum())
    for name, expected in theirs.items():
        error = float((ours[name] - expected).norm() / expected.norm())
        # float32 sums over 250 tokens in another order.
        assert error < 1e-5, f"{name}: {error}"


def test_a_shared_beginning_that_is_cut_short_shows(tiny_folder):
    """A suffix that sees five tokens too few of what it follows scores far off: the equality above can fail."""
    pack = make_pack([logged([*range(3, 23), leaf, 5, 6], [21, 22], trace=str(leaf)) for leaf in (30, 31)])
    root, *leaves = pack.layout.segments
    cut = PackLayout((replace(root, length=15), Segment(15, 5, (0,)), *(replace(leaf, before=(0,)) for leaf in leaves)))
    policy = Policy.load(tiny_folder)
    with torch.no_grad():
        right, wrong = (policy.score(replace(pack, layout=layout)).logprobs for layout in (pack.layout, cut))
    assert float((right - wrong).abs().max()) > 1e-2


def test_neighbours_in_a_pack_do_not_see_each_other(tiny_folder):
    """Other tokens in one trace leave the scores of another exactly as they are, to float32's order of sums."""
    policy, mine = Policy.load(tiny_folder), logged([5, 6, 7, 8, 9, 10], [3, 4, 5], trace="mine")
    with torch.no_grad():
        scored = [
            policy.score(make_pack([mine, logged([20, word, 22, 23], [2, 3], trace="other")])).logprobs[:3]
            for word in (30, 40)
        ]
    torch.testing.assert_close(*scored, atol=1e-6, rtol=0)


def test_a_small_budget_scores_as_a_large_one(tiny_folder):
    """Splitting traces into more packs changes no score beyond rounding."""
    policy, traces = Policy.load(tiny_folder), forked_traces()
    scores = []
    for budget in (60, 10_000):
        with torch.no_grad():
            packs = build_packs(traces, token_budget=budget)
            scores.append(torch.cat([policy.score(pack).logprobs for pack in packs]))
    torch.testing.assert_close(*scores, atol=LOGPROB_TOLERANCE, rtol=0)


def test_the_order_of_adapters_changes_nothing(tiny_folder, tmp_path):
    """Base, a, b, a, base: each scores bit for bit as it did alone."""
    adapters = [save_random_adapter(tmp_path / name, tiny_folder, seed=seed) for seed, name in enumerate("ab")]
    policy, pack = Policy.load(tiny_folder), make_pack(_sequences())
    seen = []
    for adapter in (None, adapters[0], adapters[1], adapters[0], None):
        policy.use(adapter)
        with torch.no_grad():
            seen.append(policy.score(pack).logprobs)
    assert torch.equal(seen[0], seen[4])
    assert torch.equal(seen[1], seen[3])
    assert float((seen[1] - seen[2]).abs().max()) > 1e-3


def test_an_adapter_scores_as_a_server_that_merges_it(tiny_folder, tmp_path):
    """Laid over or added into the weights, an adapter gives the same scores to float32 rounding."""
    from peft import PeftModel

    adapter = save_random_adapter(tmp_path / "a", tiny_folder, seed=1)
    sequences, policy = _sequences(), Policy.load(tiny_folder)
    policy.use(adapter)
    merged = PeftModel.from_pretrained(plain_model(tiny_folder), str(adapter)).merge_and_unload()
    with torch.no_grad():
        laid_over = policy.score(make_pack(sequences)).logprobs
        added = torch.cat([plain_action_logprobs(merged, sequence) for sequence in sequences])
    torch.testing.assert_close(laid_over, added, atol=LOGPROB_TOLERANCE, rtol=0)


def test_bfloat16_weights_are_close_and_scores_stay_float32(tiny_folder):
    """A bfloat16 trunk scores within its noise, and never rounds the log-probability itself."""
    pack = make_pack(_sequences())
    with torch.no_grad():
        fine, coarse = (Policy.load(tiny_folder, dtype=dtype).score(pack).logprobs for dtype in ("float32", "bfloat16"))
    assert coarse.dtype == torch.float32
    assert 0 < float((fine - coarse).abs().mean()) < 0.2


def test_a_folder_without_a_model_is_refused(tmp_path):
    """The message names the folder and what was expected in it."""
    with pytest.raises(CheckpointError, match="no model there"):
        Policy.load(tmp_path / "nothing")


def test_a_pickled_model_is_not_loaded(tiny_folder, tmp_path):
    """A folder whose weights are a pickle counts as one without weights."""
    (tmp_path / "config.json").write_bytes((tiny_folder / "config.json").read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="safetensors"):
        Policy.load(tmp_path)


def test_a_folder_that_lacks_weights_is_refused(tiny_folder, tmp_path):
    """They would be random, and other ones each time."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(tiny_folder, tmp_path / "cut")
    file = tmp_path / "cut" / "model.safetensors"
    weights = load_file(file)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"1 weights are missing, such as model\.layers\.1\.mlp\.up_proj"):
        Policy.load(tmp_path / "cut")
