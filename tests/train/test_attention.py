"""Attention over packed segments: each token sees what its own sequence has before it, and nothing else."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import CheckpointError
from tests.train.logged import logged
from train.attention import PackLayout, Segment, varlen_attention
from train.packing import make_pack


class _Layer(torch.nn.Module):
    is_causal = True


def _tensors(num_slots, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((1, 4, num_slots, 8), (1, 2, num_slots, 8), (1, 2, num_slots, 8))
    return [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]


def _visible(pack):
    """[N, N] which slot sees which, from the sequences alone."""
    visible = torch.zeros(pack.num_slots, pack.num_slots, dtype=torch.bool)
    for slots in pack.sequence_slots:
        for at in range(len(slots)):
            visible[slots[at], slots[: at + 1]] = True
    return visible


def _dense(query, key, value, visible):
    """Softmax attention with a square mask, two query heads to a key head."""
    key, value = key.repeat_interleave(2, dim=1), value.repeat_interleave(2, dim=1)
    scores = (query @ key.transpose(2, 3) / 8**0.5).masked_fill(~visible, -torch.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=25), min_size=1, max_size=8))
def test_any_pack_attends_as_a_square_mask_says(lists):
    """Output and gradients equal those of the mask that the sequences define."""
    pack = make_pack([logged(tokens, [], trace=str(number)) for number, tokens in enumerate(lists)])
    results = []
    for attend in (
        lambda q, k, v: varlen_attention(_Layer(), q, k, v, None, pack_layout=pack.layout)[0],
        lambda q, k, v: _dense(q, k, v, _visible(pack)),
    ):
        tensors = _tensors(pack.num_slots)
        out = attend(*tensors)
        (out * torch.linspace(-1, 1, out.numel()).reshape(out.shape)).sum().backward()
        results.append([out, *(tensor.grad for tensor in tensors)])
    for ours, dense in zip(*results, strict=True):
        # float32: two orders of summing up to 200 products of size 1.
        torch.testing.assert_close(ours, dense, atol=2e-5, rtol=1e-4)


def test_keys_of_a_segment_are_those_before_it_and_its_own():
    """Slots 0-2 begin both, 3-4 and 5 follow: the second sees 0-4, the third 0-2 and 5."""
    layout = PackLayout((Segment(0, 3), Segment(3, 2, (0,)), Segment(5, 1, (0,))))
    assert layout.key_slots.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 5]
    assert layout.num_before == (0, 3, 3)
    assert layout.longest == 5


def test_the_mask_of_a_segment_is_causal_from_its_lower_right():
    """Two tokens behind one: the first sees two, the second all three."""
    layout = PackLayout((Segment(0, 1), Segment(1, 2, (0,))))
    assert layout.mask(2, 1, torch.device("cpu")).tolist() == [[True, True, False], [True, True, True]]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"dropout": 0.1}, "dropout"),
        ({"sliding_window": 4}, "window of 4 over sequences of 5"),
        ({"softcap": 30.0}, "soft-capped"),
        ({"s_aux": torch.zeros(4)}, "sinks"),
        ({"position_bias": torch.zeros(1)}, "bias"),
        ({"is_causal": False}, "not causal"),
    ],
)
def test_another_attention_is_refused_by_name(option, said):
    """Whatever would change what a token sees, or how much, is refused."""
    layout = PackLayout((Segment(0, 5),))
    with pytest.raises(CheckpointError, match=said):
        varlen_attention(_Layer(), *_tensors(5), None, pack_layout=layout, **option)


def test_a_mask_is_refused():
    """A mask means that somebody thinks the pack is one sequence."""
    with pytest.raises(CheckpointError, match="mask"):
        varlen_attention(_Layer(), *_tensors(2), torch.ones(2, 2), pack_layout=PackLayout((Segment(0, 2),)))


def test_a_model_that_drops_the_layout_is_refused():
    """Without the layout every trace would see its neighbours, so nothing is computed."""
    with pytest.raises(CheckpointError, match="pack_layout"):
        varlen_attention(_Layer(), *_tensors(2), None)


def test_a_window_as_long_as_the_sequences_changes_nothing():
    """A sliding window that no sequence outgrows is plain attention."""
    layout, tensors = PackLayout((Segment(0, 5),)), _tensors(5)
    plain, windowed = (
        varlen_attention(_Layer(), *tensors, None, pack_layout=layout, **option)[0]
        for option in ({}, {"sliding_window": 5})
    )
    assert torch.equal(plain, windowed)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_flash_kernel_attends_as_the_segments_do():
    """In bfloat16 on CUDA, one kernel call gives what one call a segment gives on CPU, forward and backward."""
    pack = make_pack([logged([*range(20), *[30 + number] * 9], [], trace=str(number)) for number in range(4)])
    results = []
    for device in ("cpu", "cuda"):
        tensors = [tensor.detach().to(device, torch.bfloat16).requires_grad_() for tensor in _tensors(pack.num_slots)]
        out = varlen_attention(_Layer(), *tensors, None, pack_layout=pack.layout)[0]
        out.float().square().sum().backward()
        results.append([tensor.float().cpu() for tensor in (out, *(tensor.grad for tensor in tensors))])
    for cpu, cuda in zip(*results, strict=True):
        assert np.allclose(cpu.detach(), cuda.detach(), atol=5e-2)
