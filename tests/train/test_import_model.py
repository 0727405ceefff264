"""A GGUF file becomes a plain transformers folder, once, with the right special tokens."""

import json
import sys

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from schemas.errors import CheckpointError, UsageError
from train.import_model import find_gguf, import_gguf

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LETTERS = [*(chr(code) for code in range(ord("a"), ord("z") + 1)), "ab", "cd"]
PAD = {"pad_token": "<|endoftext|>"}
SIZES = {"width": 32, "inner": 64, "key": 16}


def _shapes():
    width, inner, key = SIZES["width"], SIZES["inner"], SIZES["key"]
    yield "token_embd.weight", (len(SPECIAL) + len(LETTERS), width)
    yield "output_norm.weight", (width,)
    for name, shape in {
        "attn_norm": (width,),
        "attn_q": (width, width),
        "attn_k": (key, width),
        "attn_v": (key, width),
        "attn_output": (width, width),
        "ffn_norm": (width,),
        "ffn_gate": (inner, width),
        "ffn_up": (inner, width),
        "ffn_down": (width, inner),
    }.items():
        yield f"blk.0.{name}.weight", shape


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A llama of one layer, whose file names eos 2 and pad 2, as SmolLM2's does."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("general.license", "apache-2.0")
    writer.add_name("Tiny")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(SIZES["width"])
    writer.add_feed_forward_length(SIZES["inner"])
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(SPECIAL) + len(LETTERS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*SPECIAL, *LETTERS])
    writer.add_token_types([3] * len(SPECIAL) + [1] * len(LETTERS))
    writer.add_token_merges(["a b", "c d"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    random = np.random.default_rng(0)
    for name, shape in _shapes():
        writer.add_tensor(name, random.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def folder(source, tmp_path_factory):
    """The folder that it becomes, with a padding token of its own."""
    made = tmp_path_factory.mktemp("models") / "tiny"
    import_gguf(str(source), made, **PAD)
    return made


def test_the_folder_loads_with_plain_transformers(folder):
    """Weights are bfloat16 on disk and every number in float32 is a bfloat16 one."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"
    for parameter in model.parameters():
        assert torch.equal(parameter, parameter.to(torch.bfloat16).float())


def test_the_embedding_is_the_files(folder, source):
    """The first tensor of the file, rounded to bfloat16."""
    written = torch.tensor(next(t for t in gguf.GGUFReader(source).tensors if t.name == "token_embd.weight").data)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert torch.equal(model.get_input_embeddings().weight, written.to(torch.bfloat16).float())


def test_eos_and_pad_are_the_same_in_all_three_places(folder):
    """Config, generation config and tokenizer agree, whatever transformers read from the file."""
    config = json.loads((folder / "config.json").read_text())
    generation, tokenizer = GenerationConfig.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    for place in (config["eos_token_id"], generation.eos_token_id, tokenizer.eos_token_id):
        assert place == 2
    for place in (config["pad_token_id"], generation.pad_token_id, tokenizer.pad_token_id):
        assert place == 0


def test_the_chat_template_is_kept(folder):
    """What the file says of chats is what the tokenizer renders."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], tokenize=False) == "ab"


def test_the_note_names_origin_and_license(folder, source):
    """Whoever finds the folder learns what it is and that it is no bit-equal copy."""
    note = (folder / "MODEL_NOTE.md").read_text()
    assert "apache-2.0" in note
    assert source.name in note
    assert "not bit-equal" in note


def test_a_second_import_finds_the_first(folder, source):
    """Nothing is written again."""
    before = (folder / "model.safetensors").stat().st_mtime_ns
    report = import_gguf(str(source), folder, **PAD)
    assert not report.is_new
    assert "already there" in str(report)
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_a_folder_of_another_origin_is_left_alone(folder, source, tmp_path):
    """Neither another import nor somebody's own folder is overwritten."""
    with pytest.raises(CheckpointError, match="pad_asked differ"):
        import_gguf(str(source), folder)
    (tmp_path / "mine").mkdir()
    with pytest.raises(CheckpointError, match="was not made by this import"):
        import_gguf(str(source), tmp_path / "mine")


@pytest.mark.parametrize("option", ["eos_token", "pad_token"])
def test_an_import_that_fails_leaves_nothing(option, source, tmp_path):
    """A token that is not in the vocabulary is refused, and no half folder stands where the model should."""
    with pytest.raises(UsageError, match="not in the model's vocabulary"):
        import_gguf(str(source), tmp_path / "tiny", **{option: "<|nope|>"})
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_gguf_is_refused(tmp_path):
    """The message says what was expected."""
    (tmp_path / "not.gguf").write_bytes(b"GGML" * 10)
    with pytest.raises(CheckpointError, match="cannot read it"):
        import_gguf(str(tmp_path / "not.gguf"), tmp_path / "out")


def test_without_the_package_that_reads_them_the_message_says_how_to_get_it(source, tmp_path, monkeypatch):
    """It comes with the extra of the example."""
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(UsageError, match=r"gguf is not installed; .*\[example\], or run `make env`"):
        import_gguf(str(source), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_package_is_found_without_being_imported(tmp_path, monkeypatch):
    """A package whose import would fail still gives its file."""
    (tmp_path / "weights_package").mkdir()
    (tmp_path / "weights_package" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "weights_package" / "model.gguf").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert find_gguf("package:weights_package") == tmp_path / "weights_package" / "model.gguf"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("package:no_such_package", "is not installed"),
        ("package:schemas", "holds 0 .gguf files"),
        ("package:../x", "is not installed"),
        ("nowhere.gguf", "no such file"),
    ],
)
def test_what_is_not_there_is_refused(source, said):
    """Each with the place that was looked at."""
    with pytest.raises(CheckpointError, match=said):
        find_gguf(source)
