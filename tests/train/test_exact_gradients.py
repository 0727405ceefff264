"""The trainer's gradients against a naive padded implementation, both in float64."""

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

from tests.train.logged import forked_traces, save_random_adapter
from train import logprobs
from train.packing import build_packs, make_pack
from train.policy import Policy

TRACES = forked_traces(num=4)
SEQUENCES = [sequence for trace in TRACES for sequence in trace]


def coefficients():
    """One a sequence and action token, by the sequence's name."""
    random = np.random.default_rng(3)
    return {
        (each.trace_id, each.sequence_index): torch.from_numpy(random.normal(size=each.num_action_tokens))
        for each in SEQUENCES
    }


def naive_gradients(model):
    """Of -(coefficients x logprobs), on one right-padded batch with a mask and its own attention."""
    longest = max(len(each.token_ids) for each in SEQUENCES)
    ids, mask = (torch.zeros(len(SEQUENCES), longest, dtype=torch.int64) for _ in range(2))
    for row, each in enumerate(SEQUENCES):
        ids[row, : len(each.token_ids)] = torch.from_numpy(each.token_ids.astype(np.int64))
        mask[row, : len(each.token_ids)] = 1
    logits = model(ids, attention_mask=mask, use_cache=False).logits
    loss, chosen = 0.0, coefficients()
    for row, each in enumerate(SEQUENCES):
        for place, at in enumerate(np.flatnonzero(each.action_mask)):
            said = torch.log_softmax(logits[row, at - 1] / np.float32(each.temperature), dim=-1)[
                int(each.token_ids[at])
            ]
            loss = loss - chosen[each.trace_id, each.sequence_index][place] * said
    loss.backward()
    return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


def our_gradients(policy, packs):
    """Of the same, pack by pack."""
    parameters, chosen = policy.trainable(), coefficients()
    for pack in packs:
        scored = policy.score(pack).logprobs
        wanted = torch.cat([chosen[each.trace_id, each.sequence_index] for each in pack.sequences])
        (-(wanted * scored).sum()).backward()
    return {name: each.grad for name, each in parameters.items()}


def norm_in_full(self, hidden):
    """The norm of both models without its detour through float32, which would round a shared beginning otherwise."""
    return self.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


PACKINGS = {
    "one pack, shared beginnings": lambda: [make_pack(SEQUENCES)],
    "one pack, nothing shared": lambda: [make_pack(SEQUENCES, share=False)],
    "many packs": lambda: build_packs(TRACES, token_budget=70),
    "one at a time": lambda: [make_pack([each]) for each in SEQUENCES],
}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("block", [3, 1000])
@pytest.mark.parametrize("weights", ["lora", "full"])
@pytest.mark.parametrize("kind", ["llama", pytest.param("qwen2", marks=pytest.mark.soak)])
def test_gradients_are_those_of_a_padded_batch(  # noqa: PLR0917 - each combination is a case
    kind, weights, block, checkpointed, packing, model_folders, tmp_path, monkeypatch
):
    """To 1e-10, packed or not, with recomputed layers or not, in blocks of any size, an adapter or every weight."""
    monkeypatch.setattr(logprobs, "LOGITS_AT_ONCE", 64 * block)
    for norm in (LlamaRMSNorm, Qwen2RMSNorm):
        monkeypatch.setattr(norm, "forward", norm_in_full)
    adapter = save_random_adapter(tmp_path / "a", model_folders[kind], seed=1)
    plain = AutoModelForCausalLM.from_pretrained(model_folders[kind], dtype=torch.float64).eval()
    policy = Policy.load(model_folders[kind])
    if weights == "lora":
        plain = PeftModel.from_pretrained(plain, str(adapter), is_trainable=True).eval().double()
        policy.use(adapter)
    else:
        policy.train_whole()
    policy.model.double()
    if checkpointed:
        policy.recompute_activations()
    expected, ours = naive_gradients(plain), our_gradients(policy, PACKINGS[packing]())
    assert ours.keys() == expected.keys()
    for name, gradient in expected.items():
        assert float((ours[name] - gradient).norm()) <= 1e-10 * max(1.0, float(gradient.norm())), name


def test_recomputed_layers_keep_less_for_the_way_back(tiny_folder):
    """What autograd saves of a forward pass is a fraction of what it saves without."""

    def saved(recomputes):
        policy = Policy.load(tiny_folder)
        policy.train_whole()
        policy.trainable()
        if recomputes:
            policy.recompute_activations()
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda kept: sizes.append(kept.numel()) or kept, lambda kept: kept
        ):
            policy.score(make_pack(SEQUENCES))
        return sum(sizes)

    assert saved(True) < saved(False) / 3
