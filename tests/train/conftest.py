"""Tiny random models on disk, as transformers folders, and empty lakes."""

import shutil

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from tests.train import night
from tests.train.logged import forked_traces, plain_model, save_random_adapter, served_by
from warehouse.lake import Lake

KINDS = ("llama", "qwen2")

_SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    # Large enough that attention, and with it a wrong mask, shows in the logits.
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory):
    """A folder for each kind: llama with the head tied to the embedding, qwen2 with a head of its own."""
    models = {
        "llama": LlamaForCausalLM(LlamaConfig(**_SIZES, tie_word_embeddings=True)),
        "qwen2": Qwen2ForCausalLM(Qwen2Config(**_SIZES, tie_word_embeddings=False)),
    }
    root = tmp_path_factory.mktemp("models")
    for kind, model in models.items():
        torch.manual_seed(7)
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(root / kind)
    return {kind: root / kind for kind in models}


@pytest.fixture(scope="session")
def tiny_folder(model_folders):
    """The tiny llama."""
    return model_folders["llama"]


@pytest.fixture(scope="session")
def empty_root(tmp_path_factory):
    """An empty lake to be copied, which is faster than making one for each test."""
    root = tmp_path_factory.mktemp("empty") / "lake"
    Lake.create(root).close()
    return root


@pytest.fixture
def lake(tmp_path, empty_root):
    """An empty lake."""
    shutil.copytree(empty_root, tmp_path / "lake")
    with Lake.open(tmp_path / "lake") as opened:
        yield opened


@pytest.fixture(scope="module")
def adapter(tiny_folder, tmp_path_factory):
    """The adapter that is trained on."""
    return save_random_adapter(tmp_path_factory.mktemp("adapters") / "a", tiny_folder, seed=1)


@pytest.fixture(scope="module")
def traces(tiny_folder):
    """Six forked traces that the base wrote."""
    return served_by(plain_model(tiny_folder), forked_traces(), version="v0")


@pytest.fixture(scope="session")
def prepared(tmp_path_factory, empty_root, tiny_folder):
    """A night that is ready to be trained, to be copied: a lake and the adapter that is current."""
    root = tmp_path_factory.mktemp("night") / "root"
    shutil.copytree(empty_root, root / "lake")
    save_random_adapter(root / "v1", tiny_folder, seed=1)
    with Lake.open(root / "lake") as opened:
        night.fill(opened, root, tiny_folder)
    return root


@pytest.fixture
def root(tmp_path, prepared):
    """A copy of it to train."""
    shutil.copytree(prepared, tmp_path / "root")
    return tmp_path / "root"
