"""Adapters: read only from safetensors, only what fits, only what packed scoring covers."""

import json

import pytest
import torch

from schemas.errors import CheckpointError
from tests.train.logged import save_random_adapter
from train import adapters
from train.policy import Policy


@pytest.fixture
def policy(tiny_folder):
    """The tiny llama without an adapter."""
    return Policy.load(tiny_folder)


def _stated(folder, **changes):
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_folder_without_safetensors_is_refused(policy, tiny_folder, tmp_path):
    """Pickled adapter weights are never opened, even where peft would."""
    folder = save_random_adapter(tmp_path / "a", tiny_folder, seed=0)
    (folder / adapters.ADAPTER_WEIGHTS).unlink()
    torch.save({}, folder / "adapter_model.bin")
    with pytest.raises(CheckpointError, match=r"no adapter_model\.safetensors"):
        policy.use(folder)


@pytest.mark.parametrize("rank", [3, 8])
def test_weights_that_do_not_fit_the_config_are_refused(rank, policy, tiny_folder, tmp_path):
    """An adapter whose config states another rank than its weights have is of no use."""
    folder = save_random_adapter(tmp_path / "a", tiny_folder, seed=0)
    _stated(folder, r=rank)
    with pytest.raises(CheckpointError, match="does not fit"):
        policy.use(folder)


def test_missing_pairs_are_refused(policy, tiny_folder, tmp_path):
    """A target module without weights would silently stay as the base has it."""
    folder = save_random_adapter(tmp_path / "a", tiny_folder, seed=0)
    _stated(folder, target_modules=["q_proj", "v_proj", "o_proj"])
    with pytest.raises(CheckpointError, match="4 LoRA weights are missing"):
        policy.use(folder)


def test_pairs_that_no_module_takes_are_refused(policy, tiny_folder, tmp_path):
    """Weights that would be dropped in silence belong to another base."""
    folder = save_random_adapter(tmp_path / "a", tiny_folder, seed=0)
    _stated(folder, target_modules=["q_proj"])
    with pytest.raises(CheckpointError, match="4 unknown"):
        policy.use(folder)


@pytest.mark.parametrize(
    "changes",
    [{"target_modules": ["lm_head"]}, {"target_modules": ["embed_tokens"]}, {"modules_to_save": ["lm_head"]}],
)
def test_an_adapter_of_the_head_or_the_embedding_is_refused(changes, policy, tiny_folder, tmp_path):
    """The head is read from the base, so an adapter on it would be ignored in silence."""
    folder = save_random_adapter(tmp_path / "a", tiny_folder, seed=0)
    _stated(folder, **changes)
    with pytest.raises(CheckpointError, match="merge the adapter"):
        policy.use(folder)


def test_another_kind_of_adapter_is_refused(policy, tiny_folder, tmp_path):
    """Prefix tuning and the like put tokens where the log has none."""
    folder = save_random_adapter(tmp_path / "a", tiny_folder, seed=0)
    _stated(folder, peft_type="PREFIX_TUNING")
    with pytest.raises(CheckpointError, match="PREFIX_TUNING"):
        policy.use(folder)


def test_a_damaged_file_is_refused(policy, tiny_folder, tmp_path):
    """Half a safetensors file is reported as such."""
    folder = save_random_adapter(tmp_path / "a", tiny_folder, seed=0)
    whole = (folder / adapters.ADAPTER_WEIGHTS).read_bytes()
    (folder / adapters.ADAPTER_WEIGHTS).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="does not fit"):
        policy.use(folder)


def test_a_refused_adapter_leaves_the_base_in_use(policy, tiny_folder, tmp_path):
    """After a refusal the model is the base again, without layers of the adapter."""
    folder = save_random_adapter(tmp_path / "a", tiny_folder, seed=0)
    _stated(folder, r=3)
    names = {name for name, _ in policy.model.named_parameters()}
    with pytest.raises(CheckpointError):
        policy.use(folder)
    assert {name for name, _ in policy.model.named_parameters()} == names


def test_a_saved_adapter_is_read_back_bit_for_bit(policy, tiny_folder, tmp_path):
    """Reading, writing and reading changes no weight."""
    policy.use(save_random_adapter(tmp_path / "a", tiny_folder, seed=0))
    adapters.save_adapter(policy.wrapped, tmp_path / "b", base=tiny_folder)
    before = dict(adapters.trainable(policy.wrapped))
    policy.use(tmp_path / "b")
    after = dict(adapters.trainable(policy.wrapped))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert json.loads((tmp_path / "b" / "adapter_config.json").read_text())["base_model_name_or_path"] == str(
        tiny_folder
    )


def test_a_new_adapter_changes_nothing_and_comes_from_its_seed(policy):
    """One factor is zero, the other random by the seed and by nothing else."""
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(drawn))
        policy.use_new(rank=2, alpha=4.0, targets=("q_proj",), seed=seed)
        drawn.append({name: weight.detach().clone() for name, weight in adapters.trainable(policy.wrapped)})
    assert all(not weight.any() for name, weight in drawn[0].items() if "lora_B" in name)
    assert all(torch.equal(drawn[0][name], drawn[1][name]) for name in drawn[0])
    assert any(not torch.equal(drawn[0][name], drawn[2][name]) for name in drawn[0])


def test_only_the_adapter_is_trainable(policy):
    """The base, its head and its embedding stay frozen; all-linear leaves the head out."""
    policy.use_new(rank=2, alpha=4.0, targets=("all-linear",), seed=0)
    names = [name for name, _ in adapters.trainable(policy.wrapped)]
    # Seven linear layers in each of two blocks, two factors each.
    assert len(names) == 28
    assert not any("lm_head" in name or "embed" in name for name in names)
    assert [
        name for name, weight in policy.wrapped.named_parameters() if weight.requires_grad and "lora_" not in name
    ] == []


def test_a_target_that_no_module_is_named_after_is_refused(policy):
    """A new adapter on nothing is a setting gone wrong."""
    with pytest.raises(CheckpointError, match=r"train\.lora\.targets"):
        policy.use_new(rank=2, alpha=4.0, targets=("c_attn",), seed=0)
