"""prime-rl: the micro-batches that its trainer reads from disk, with `rollout_transport.type = "filesystem"`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from train.handoff.carried import Carried

ENVIRONMENT = "tracemill"
"""What prime-rl sorts its metrics by."""


class MicroBatch(msgspec.Struct, array_like=True, gc=False, omit_defaults=True):
    """A micro-batch as prime-rl 559b4477 declares it, in src/prime_rl/transports/rollouts/types.py: an array by place.

    All lists have one entry a token, but for the lengths. What a text model does not need is left at None.
    """

    input_ids: list[int]
    loss_mask: list[bool]
    advantages: list[float]
    inference_logprobs: list[float]
    position_ids: list[int]
    sequence_lengths: list[int]
    temperatures: list[float]
    env_names: list[str]
    seq_lens: list[int]
    ref_logprobs: list[float] | None = None
    routed_experts: Any = None
    mm_kwargs: Any = None
    mm_token_type_ids: list[int] | None = None
    rl_weights: list[float] | None = None
    ce_weights: list[float] | None = None
    ref_kl_weights: list[float] | None = None


def write_batch(folder: Path, number: int, rows: Sequence[Carried]) -> Path:
    """Write batch `number` as the step after it, for the one data-parallel rank; prime-rl counts steps from 1."""
    path = folder / "rollouts" / f"step_{number + 1}" / "rank_0.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(msgspec.msgpack.encode([micro_batch(row) for row in rows]))
    return path


def micro_batch(row: Carried) -> MicroBatch:
    """One sequence as a micro-batch of its own; prime-rl divides by the loss tokens of the whole step.

    Where the mask is False stand the 0.0 that prime-rl writes there itself: it multiplies by the mask.
    """
    sequence = row.sequence
    mask, length = sequence.action_mask, len(sequence.token_ids)
    return MicroBatch(
        input_ids=sequence.token_ids.tolist(),
        loss_mask=mask.tolist(),
        advantages=np.where(mask, row.advantage, 0.0).tolist(),
        inference_logprobs=np.where(mask, sequence.behavior_logprobs, 0.0).tolist(),
        position_ids=list(range(length)),
        sequence_lengths=[length],
        temperatures=[sequence.temperature] * length,
        env_names=[ENVIRONMENT] * length,
        seq_lens=[length],
    )
