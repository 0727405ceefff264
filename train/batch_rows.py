"""A batch as plain rows again: what `Batch.from_rows` reads, to look at, to keep as JSON, or to hand on."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from train.batch import Batch
from train.rows import PER_TOKEN


def rows_of_batch(batch: Batch) -> list[dict[str, Any]]:
    """One row a sequence, in packing order; `Batch.from_rows` of them in the same dtype is the same batch.

    Only what the batch has. What lies off the action mask is None. Groups come out as numbers, whatever named them. The
    statistics of a larger batch, which a part carries, are not in its rows, nor are `records.sampled_logprobs`.
    """
    ends = batch.sequence_lengths.cumsum(0).tolist()
    starts = [0, *ends[:-1]]
    traces, index = batch.sequence_traces.tolist(), batch.sequence_index.tolist()
    return [
        {"trace_id": batch.trace_ids[trace], "sequence_index": index[at], **_of_trace(batch, trace)}
        | _of_tokens(batch, slice(starts[at], ends[at]))
        for at, trace in enumerate(traces)
    ]


def _of_trace(batch: Batch, trace: int) -> dict[str, Any]:
    row: dict[str, Any] = {"reward": float(batch.rewards[trace])}
    if batch.failures is not None:
        row["failure"] = bool(batch.failures[trace])
    if batch.groups is not None:
        row["group"] = int(batch.groups[trace])
    if batch.keys is not None:
        row["key"] = batch.keys[trace]
    return row


def _of_tokens(batch: Batch, tokens: slice) -> dict[str, Any]:
    mask = batch.action_mask[tokens].tolist()

    def listed(numbers: Tensor) -> list[Any]:
        return [value if acted else None for value, acted in zip(numbers[tokens].tolist(), mask, strict=True)]

    stated = {name: getattr(batch, name) for name in PER_TOKEN}
    row: dict[str, Any] = {"action_mask": mask}
    row |= {name: listed(numbers) for name, numbers in stated.items() if numbers is not None}
    if batch.policy_lags is not None:
        row["policy_lag"] = batch.policy_lags[tokens].tolist()
    records = batch.records
    if records is not None:
        parts = {name: getattr(records, name) for name in ("behavior_logprobs", "logprobs", "token_ids", "sampled_ids")}
        lists = {name: listed(part) for name, part in parts.items() if part is not None}
        row["records"] = {"kind": records.kind, **lists}
    return row
