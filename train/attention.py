"""Causal attention over packed sequences that share their beginnings, registered in transformers as "varlen".

Each segment attends to those that come before it in its own sequences and to itself, never to its neighbours. No
square mask over the pack is built: on CPU, and in float32, it is one scaled-dot-product call a segment; in half
precision on CUDA it is `torch.nn.attention.varlen`, FlashAttention inside torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from schemas.errors import CheckpointError

VARLEN = "varlen"
"""The name that it is registered under."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring slots of a pack, read behind the segments that come before them in every sequence through them."""

    start: int
    """First slot."""
    length: int
    """Slots, at least one."""
    before: tuple[int, ...] = ()
    """Positions in the layout of the segments that it follows, outermost first."""

    @property
    def slots(self) -> npt.NDArray[np.int64]:
        """Its slots."""
        return np.arange(self.start, self.start + self.length)


@dataclass(frozen=True, eq=False)
class PackLayout:
    """The segments of a pack, in the order of their slots, which they cover without a gap."""

    segments: tuple[Segment, ...]
    _masks: dict[tuple[int, int, torch.device], Tensor] = field(default_factory=dict)

    @cached_property
    def num_before(self) -> tuple[int, ...]:
        """Slots that each segment sees besides its own."""
        return tuple(sum(self.segments[other].length for other in segment.before) for segment in self.segments)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Slots of each segment."""
        return tuple(segment.length for segment in self.segments)

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max(before + length for before, length in zip(self.num_before, self.lengths, strict=True))

    @cached_property
    def key_slots(self) -> Tensor:
        """Slots that each segment sees, segment after segment: those before it, then its own."""
        seen = (
            self.segments[number].slots
            for own, segment in enumerate(self.segments)
            for number in (*segment.before, own)
        )
        return torch.from_numpy(np.concatenate(list(seen)))

    def mask(self, length: int, before: int, device: torch.device) -> Tensor:
        """[length, before + length] True where a segment may look; made once for equal segments."""
        key = (length, before, device)
        if key not in self._masks:
            whole = torch.ones(length, before + length, dtype=torch.bool, device=device)
            self._masks[key] = whole.tril(before)
        return self._masks[key]


def varlen_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of one layer over one pack, as transformers calls it.

    `query` [1, H, N, D], `key` and `value` [1, H or fewer, N, D], `pack_layout` among the options; returns
    [1, N, H, D]. Refused: a mask, dropout, a window shorter than a sequence, soft-capped scores, sinks and biases,
    all of which would change what a token sees or how much.
    """
    layout = options.pop("pack_layout", None)
    if layout is None:
        raise CheckpointError(
            f"{type(module).__name__} got no pack_layout; expected the model to hand keyword arguments on to its "
            "attention, as the models of transformers' attention interface do; this model cannot be packed"
        )
    scale = options.pop("scaling", None)
    _refuse_other_attention(module, attention_mask, layout, options)
    if value.dtype in (torch.bfloat16, torch.float16):
        # Under autocast the rotation has made them float32 again, which no flash kernel takes.
        query, key = query.to(value.dtype), key.to(value.dtype)
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    if query.is_cuda and query.dtype in (torch.bfloat16, torch.float16):
        return _by_flash_attention(query, key, value, layout, scale), None
    return _by_segment(query, key, value, layout, scale), None


def register() -> None:
    """Make the attention known to transformers; doing it again changes nothing."""
    from transformers import AttentionInterface

    AttentionInterface.register(VARLEN, varlen_attention)


def _by_segment(query: Tensor, key: Tensor, value: Tensor, layout: PackLayout, scale: float | None) -> Tensor:
    """One call a segment. The tensors are split, not sliced: the gradient of a split is one concatenation.

    A segment that is longer than what it follows asks again for what it follows, so that plain causality says all and
    no mask of its size is made; a shorter one has a small mask.
    """
    queries, keys, values = (torch.split(tensor, list(layout.lengths), dim=2) for tensor in (query, key, value))
    attended = []
    for own, (segment, before) in enumerate(zip(layout.segments, layout.num_before, strict=True)):
        seen = (*segment.before, own)
        is_square = segment.length >= before
        asking = seen if is_square else (own,)
        out = functional.scaled_dot_product_attention(
            torch.cat([queries[number] for number in asking], dim=2),
            torch.cat([keys[number] for number in seen], dim=2),
            torch.cat([values[number] for number in seen], dim=2),
            attn_mask=None if is_square else layout.mask(segment.length, before, query.device),
            is_causal=is_square,
            scale=scale,
        )
        attended.append(out[:, :, -segment.length :])
    return torch.cat(attended, dim=2).transpose(1, 2)


def _by_flash_attention(query: Tensor, key: Tensor, value: Tensor, layout: PackLayout, scale: float | None) -> Tensor:
    """All segments in one kernel: keys gathered to what each segment sees, causal from the lower right corner."""
    from torch.nn.attention.varlen import varlen_attn

    seen = layout.key_slots.to(query.device)
    num_seen = tuple(before + length for before, length in zip(layout.num_before, layout.lengths, strict=True))
    attended = varlen_attn(
        query[0].transpose(0, 1),
        key[0].transpose(0, 1)[seen],
        value[0].transpose(0, 1)[seen],
        _ends(layout.lengths, query.device),
        _ends(num_seen, query.device),
        max(layout.lengths),
        max(num_seen),
        scale=scale,
        window_size=(-1, 0),
    )
    return cast("Tensor", attended)[None]  # a pair only where an auxiliary output is asked for


def _ends(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor((0, *lengths), dtype=torch.int32).cumsum(0, dtype=torch.int32).to(device)


def _refuse_other_attention(
    module: torch.nn.Module, attention_mask: Tensor | None, layout: PackLayout, options: dict[str, Any]
) -> None:
    """Refuse every option that would make the attention another one than plain and causal."""
    window = options.get("sliding_window")
    reasons = {
        "an attention mask": attention_mask is not None,
        "dropout": bool(options.get("dropout")),
        "attention that is not causal": not (
            options.get("is_causal") is not False and getattr(module, "is_causal", True)
        ),
        f"a sliding window of {window} over sequences of {layout.longest}": window is not None
        and layout.longest > window,
        "soft-capped scores": options.get("softcap") is not None,
        "attention sinks": options.get("s_aux") is not None,
        "a position bias": options.get("position_bias") is not None,
    }
    for reason, applies in reasons.items():
        if applies:
            raise CheckpointError(
                f"{type(module).__name__} asks for {reason}; expected plain causal attention; packed scoring of this "
                "model would be wrong, so it is not done"
            )
