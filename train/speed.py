"""The arithmetic that an update asks of the model, and how much of the device's peak it came to (MFU).

Counted are the multiplications of matrices and of attention in one forward and one backward pass over the slots of the
packs. What is computed twice is counted once: activations that are computed again, a first look at the batch, the
passes of behavior policies. So is a beginning that traces share, which the device is asked for only once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from train.packing import Pack

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""Names under which configurations say that a token passes through a part of the weights alone."""

PEAKS = (
    ("H200 NVL", 835e12),
    ("H200", 989e12),
    ("H100 NVL", 835e12),
    ("H100 PCIe", 756e12),
    ("H100", 989e12),
    ("A100", 312e12),
)
"""Peak of a device in bfloat16 without sparsity, FLOP/s, by a part of its name, the longer ones first. NVIDIA's data
sheets of the H200, H100 and A100, whose figures with sparsity are twice these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What the cost of a token depends on: weights in matrices, and the width of attention."""

    num_trunk: int
    """Weights of the trunk's matrices; embeddings are looked up, which costs nothing here."""
    num_head: int
    """Weights of the head, vocabulary times hidden size."""
    num_adapter: int
    """Weights of the adapter's matrices, 0 without one."""
    num_layers: int
    attention_width: int
    """Query heads times the size of one."""


def shape_of(model: PreTrainedModel) -> Shape | None:
    """The shape of a model, its adapter included; None for a mixture of experts, of which a token uses an unknown part.

    A layer that looks back less far than causal attention does is counted as if it did not. Call it before the weights
    are sharded.
    """
    config = model.config.get_text_config()
    if any((getattr(config, name, None) or 1) > 1 for name in _EXPERTS):
        return None
    looked_up = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    head = model.get_output_embeddings().weight
    matrices = {
        name: weight.numel()
        for name, weight in model.named_parameters()
        if weight.ndim == 2 and id(weight) not in looked_up and weight is not head
    }
    num_adapter = sum(size for name, size in matrices.items() if "lora_" in name)
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return Shape(
        num_trunk=sum(matrices.values()) - num_adapter,
        num_head=head.numel(),
        num_adapter=num_adapter,
        num_layers=config.num_hidden_layers,
        attention_width=config.num_attention_heads * head_size,
    )


def update_flops(shape: Shape, packs: Iterable[Pack], *, is_whole: bool = False, with_backward: bool = True) -> float:
    """FLOP of one update on these packs.

    Forward, for each slot 2 N of the trunk and the adapter, for each action token 2 N of the head, and in each layer
    4 times the attention's width for each pair of a slot and one that it sees, of its own segment half: without shared
    beginnings 2 N_t + 2 s N_h + 2 L n_h d S a token of a sequence of S. Backward twice that, once for the frozen
    matrices of a model that trains an adapter; with `is_whole` none is frozen. Not with `with_backward` False, as while
    a critic warms up.
    """
    num_slots = num_actions = 0
    num_pairs = 0.0
    for pack in packs:
        num_slots += pack.num_slots
        num_actions += sum(sequence.num_action_tokens for sequence in pack.sequences)
        layout = pack.layout
        num_pairs += sum(
            own * (before + own / 2) for own, before in zip(layout.lengths, layout.num_before, strict=True)
        )
    frozen = 2.0 * shape.num_trunk * num_slots + 2.0 * shape.num_head * num_actions
    trained = 2.0 * shape.num_adapter * num_slots + 4.0 * shape.num_layers * shape.attention_width * num_pairs
    if not with_backward:
        return frozen + trained
    return (3 if is_whole else 2) * frozen + 3 * trained


def known_peak(device_name: str, *, dtype: str, stated: float | None = None) -> float | None:
    """Peak FLOP/s of one device: what the settings state, else that of a known device in bfloat16, else None."""
    if stated is not None:
        return stated
    if dtype != "bfloat16":
        return None
    return next((peak for name, peak in PEAKS if name.lower() in device_name.lower()), None)


def mfu(num_flops: float | None, seconds: float, peak: float | None, *, num_devices: int = 1) -> float | None:
    """Share of the peak of all devices that `num_flops` in `seconds` came to; None where either is unknown."""
    if num_flops is None or peak is None or seconds <= 0:
        return None
    return num_flops / (seconds * peak * num_devices)
