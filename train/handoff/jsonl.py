"""JSON lines for a loop of one's own: the rows that `Batch.from_rows` reads, and the tokens beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from train.handoff.admitted import AdmittedTrace
from train.sequences import LoggedSequence


def write_batch(folder: Path, number: int, traces: Sequence[AdmittedTrace]) -> Path:
    """Write batch `number` as one file, a line a sequence."""
    path = folder / f"batch-{number:05d}.jsonl"
    with path.open("w", encoding="ascii") as file:
        for row in rows_of(traces):
            file.write(json.dumps(row, allow_nan=False) + "\n")
    return path


def rows_of(traces: Sequence[AdmittedTrace]) -> list[dict[str, Any]]:
    """One row a sequence; `group`, `key` and `policy_lag` where every trace of the batch has them.

    Numbers are written so that they are the same float32 when they are read. null is a number that was not logged, and
    stands wherever action_mask is False.
    """
    shared: dict[str, dict[str, Any]] = {
        "group": {trace.trace_id: trace.ask_id for trace in traces},
        "key": {trace.trace_id: trace.workload for trace in traces},
        "policy_lag": {trace.trace_id: trace.policy_lag for trace in traces},
    }
    whole = {name: values for name, values in shared.items() if None not in values.values()}
    return [_row(trace, sequence, whole) for trace in traces for sequence in trace.sequences]


def _row(trace: AdmittedTrace, sequence: LoggedSequence, whole: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    mask = sequence.action_mask.tolist()
    logged = sequence.behavior_logprobs.tolist()
    return {
        "trace_id": trace.trace_id,
        "sequence_index": sequence.sequence_index,
        "reward": trace.reward,
        **{name: values[trace.trace_id] for name, values in whole.items()},
        "action_mask": mask,
        "behavior_logprobs": [value if acted else None for value, acted in zip(logged, mask, strict=True)],
        "token_ids": sequence.token_ids.tolist(),
        "temperature": sequence.temperature,
        "trace_revision": trace.trace_revision,
        "ask_id": trace.ask_id,
        "policy_version": sequence.behavior_version,
    }
