"""FLOP of an update: against published tables, hand arithmetic, and torch's own counter."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, MixtralConfig

from tests.train.logged import logged
from train.packing import make_pack
from train.speed import Shape, known_peak, mfu, shape_of, update_flops

# hidden 1536, 28 layers, 12 heads of 128, 2 key-value heads, intermediate 8960, 151,936 words.
QWEN_1_5B = Shape(
    num_trunk=28 * (2 * 1536 * 1536 + 2 * 1536 * 256 + 3 * 1536 * 8960),
    num_head=151936 * 1536,
    num_adapter=0,
    num_layers=28,
    attention_width=12 * 128,
)
# hidden 1024, 28 layers, 16 heads of 128, 8 key-value heads, intermediate 3072.
QWEN_0_6B = Shape(
    num_trunk=28 * (2 * 1024 * 2048 + 2 * 1024 * 1024 + 3 * 1024 * 3072),
    num_head=151936 * 1024,
    num_adapter=0,
    num_layers=28,
    attention_width=16 * 128,
)
TINY = Shape(num_trunk=100, num_head=50, num_adapter=10, num_layers=2, attention_width=8)


def one_sequence(length):
    """A pack of one sequence all of whose tokens count as actions, without its tokens."""
    layout = SimpleNamespace(lengths=(length,), num_before=(0,))
    return SimpleNamespace(num_slots=length, sequences=[SimpleNamespace(num_action_tokens=length)], layout=layout)


@pytest.mark.parametrize(
    ("length", "whole", "adapter"), [(4096, 10.3, 7.2), (16384, 13.5, 10.4), (32768, 17.7, 14.6), (1024, 9.5, 6.4)]
)
def test_a_token_of_a_known_model_costs_what_is_published(length, whole, adapter):
    """GFLOP a token of Qwen2.5-1.5B, all weights trained and an adapter of no size, to the printed digit."""
    of_whole = update_flops(QWEN_1_5B, [one_sequence(length)], is_whole=True) / length / 1e9
    of_adapter = update_flops(QWEN_1_5B, [one_sequence(length)]) / length / 1e9
    assert (round(of_whole, 1), round(of_adapter, 1)) == (whole, adapter)


@pytest.mark.parametrize(("length", "speed", "printed"), [(16384, 11896, 11.08), (65536, 10147, 26.80)])
def test_published_speeds_give_the_published_share_of_the_peak(length, speed, printed):
    """prime-rl's baselines of 2026-01, Qwen3-0.6B with all weights on one H100."""
    flops = update_flops(QWEN_0_6B, [one_sequence(length)], is_whole=True)
    share = mfu(flops, length / speed, known_peak("NVIDIA H100 80GB HBM3", dtype="bfloat16"))
    assert round(100 * share, 2) == printed


def test_a_beginning_that_is_shared_is_counted_once():
    """Ten shared tokens and two ends of five with two actions each, by hand."""
    random = np.random.default_rng(0)
    head = random.integers(3, 64, 10).tolist()
    ends = [[number, *random.integers(3, 64, 4).tolist()] for number in (3, 4)]
    pack = make_pack([logged(head + end, (12, 14), trace=str(n)) for n, end in enumerate(ends)])
    assert pack.num_slots == 20
    pairs = 10 * 10 / 2 + 2 * (5 * 10 + 5 * 5 / 2)
    trunk, top, own, seen = 2 * 100 * 20, 2 * 50 * 4, 2 * 10 * 20, 4 * 2 * 8 * pairs
    assert update_flops(TINY, [pack], with_backward=False) == trunk + top + own + seen
    assert update_flops(TINY, [pack]) == 2 * (trunk + top) + 3 * (own + seen)
    assert update_flops(TINY, [pack, pack], is_whole=True) == 2 * 3 * (trunk + top + own + seen)


def counted(model, length, actions):
    """FLOP of a forward and a backward pass by torch's counter, by plain transformers, the head at `actions` only."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    embeds = inner.get_input_embeddings()(torch.arange(3, 3 + length)[None]).detach().requires_grad_()
    with FlopCounterMode(display=False) as counter:
        hidden = inner.base_model(inputs_embeds=embeds, use_cache=False)[0]
        inner.get_output_embeddings()(hidden[0, actions]).sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@pytest.mark.parametrize("is_whole", [True, False])
def test_torch_counts_the_same(kind, is_whole, model_folders):
    """But for what eager attention computes above the diagonal, as much again, and the angles of the positions."""
    length, actions = 12, [3, 5, 6, 9]
    model = AutoModelForCausalLM.from_pretrained(model_folders[kind], attn_implementation="eager")
    if not is_whole:
        model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj", "up_proj"]))
    inner = model if is_whole else model.get_base_model()
    pack = make_pack([logged(list(range(3, 3 + length)), [at + 1 for at in actions])])
    ours = update_flops(shape_of(inner), [pack], is_whole=is_whole)
    above_the_diagonal = 3 * 2 * 2 * 32 * length**2  # passes, FLOP a pair and product, layers, width
    angles = 8 * length  # an outer product of half a head's frequencies and the positions
    assert counted(model, length, actions) == ours + above_the_diagonal + angles


def test_a_tied_head_is_a_matrix_and_an_embedding_is_none(model_folders):
    """The tiny llama by hand: 4 heads of 8 over 32, 2 key-value heads, intermediate 48, 64 words, 2 layers."""
    model = AutoModelForCausalLM.from_pretrained(model_folders["llama"])
    expected = 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48)
    assert shape_of(model) == Shape(
        num_trunk=expected, num_head=64 * 32, num_adapter=0, num_layers=2, attention_width=32
    )


def test_a_mixture_of_experts_is_not_guessed():
    """A token uses a part of the weights that this count does not know."""
    config = MixtralConfig(num_local_experts=8)
    assert shape_of(SimpleNamespace(config=config)) is None
    assert mfu(None, 1.0, 989e12) is None


@pytest.mark.parametrize(
    ("name", "dtype", "stated", "peak"),
    [
        ("NVIDIA H200", "bfloat16", None, 989e12),
        ("NVIDIA H100 PCIe", "bfloat16", None, 756e12),
        ("NVIDIA A100-SXM4-80GB", "bfloat16", None, 312e12),
        ("NVIDIA A100-SXM4-80GB", "float32", None, None),
        ("AMD EPYC", "bfloat16", None, None),
        ("AMD EPYC", "float32", 1e12, 1e12),
    ],
)
def test_a_peak_that_is_not_known_is_not_guessed(name, dtype, stated, peak):
    """What the settings state goes first; a float32 run has another peak than the one that is listed."""
    assert known_peak(name, dtype=dtype, stated=stated) == peak


def test_use_of_the_device_by_hand():
    """2e12 FLOP in 4 s on two devices of 1e12 a second: a quarter; nothing where the peak is unknown."""
    assert mfu(2e12, 4.0, 1e12, num_devices=2) == 0.25
    assert mfu(2e12, 4.0, None) is None
