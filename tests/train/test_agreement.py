"""A model whose packed scores are not its own is refused when it is loaded."""

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, GraniteConfig, GraniteForCausalLM

from schemas.errors import CheckpointError
from tests.train.conftest import KINDS
from tests.train.logged import forked_traces, save_random_adapter
from train.agreement import largest_reload_difference, open_policy, require_agreement
from train.policy import Policy
from train.registry import ModelSettings

_SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
}


@pytest.mark.parametrize("kind", KINDS)
def test_models_with_plain_attention_agree(kind, model_folders):
    """Packed and plain scores differ by float32 rounding."""
    assert require_agreement(Policy.load(model_folders[kind])) < 1e-5


def test_the_attention_is_as_before_afterwards(tiny_folder):
    """The comparison puts the packed attention back."""
    policy = Policy.load(tiny_folder)
    assert require_agreement(policy) == require_agreement(policy)


def test_scaled_logits_are_found_out(tmp_path):
    """Granite divides its logits after the head, where packed scoring does not look."""
    GraniteForCausalLM(GraniteConfig(**_SIZES, logits_scaling=8.0)).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="differ from the model's own"):
        open_policy(ModelSettings(base=tmp_path))


def test_capped_scores_are_found_out(tmp_path):
    """Gemma 2 caps its attention scores, and its attention says so."""
    config = Gemma2Config(**_SIZES, head_dim=8, query_pre_attn_scalar=8)
    Gemma2ForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="soft-capped"):
        open_policy(ModelSettings(base=tmp_path))


def test_threads_are_set_when_the_settings_say_so(tiny_folder):
    """Zero leaves torch's own choice."""
    before = torch.get_num_threads()
    try:
        open_policy(ModelSettings(base=tiny_folder, threads=1))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_an_adapter_loaded_by_peft_scores_as_ours(tiny_folder, tmp_path):
    """What peft and transformers load from the folder gives the scores that we give."""
    adapter = save_random_adapter(tmp_path / "a", tiny_folder, seed=3)
    sequences = [sequence for trace in forked_traces(num=2) for sequence in trace]
    policy = Policy.load(tiny_folder)
    policy.use(adapter)
    assert largest_reload_difference(policy, adapter, sequences) < 2e-5


def test_a_folder_with_another_adapter_is_far_from_what_is_in_memory(tiny_folder, tmp_path):
    """Our scores are those of the policy that was trained, not of the folder that is checked."""
    trained, exported = (save_random_adapter(tmp_path / str(seed), tiny_folder, seed=seed) for seed in (3, 4))
    sequences = [sequence for trace in forked_traces(num=2) for sequence in trace]
    policy = Policy.load(tiny_folder)
    policy.use(trained)
    assert largest_reload_difference(policy, exported, sequences) > 1e-3
