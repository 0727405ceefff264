"""What has been written of a run: the files of its batches, and which sequence stands where in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from train.handoff import jsonl, prime_rl, trl, verl
from train.handoff.admitted import AdmittedTrace
from train.handoff.agreements import BatchShapes
from train.handoff.carried import Carried, carried, checked_batch
from train.methods.catalog import Method
from train.sequences import LoggedSequence

Format = Literal["prime-rl", "trl", "verl", "jsonl"]

_TRACE_SCHEMA = pa.schema(
    [
        ("batch", pa.int32()),
        ("row", pa.int32()),
        ("trace_id", pa.string()),
        ("trace_revision", pa.int32()),
        ("sequence_index", pa.int32()),
        ("ask_id", pa.string()),
        ("policy_version", pa.string()),
        ("policy_lag", pa.int64()),
        ("temperature", pa.float64()),
        ("num_action_tokens", pa.int32()),
        ("reward", pa.float64()),
        ("advantage", pa.float64()),
    ]
)

_WRITERS: Mapping[str, Callable[[Path, int, Sequence[Carried]], Path]] = MappingProxyType(
    {"prime-rl": prime_rl.write_batch, "trl": trl.write_batch, "verl": verl.write_batch}
)


class Written:
    """What has been written so far."""

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []
        self._rows: list[dict[str, Any]] = []
        self._num_positions = 0

    def add(
        self,
        folder: Path,
        number: int,
        traces: Sequence[AdmittedTrace],
        *,
        to: Format,
        method: Method,
        aggregation: str | None,
    ) -> None:
        """Write a batch and keep what the manifest says of it."""
        rows: list[tuple[AdmittedTrace, LoggedSequence, float | None]]
        if aggregation is None:
            checked_batch(traces)
            path = jsonl.write_batch(folder, number, traces)
            rows = [(trace, sequence, None) for trace in traces for sequence in trace.sequences]
        else:
            weighed = carried(traces, method, aggregation)
            path = _WRITERS[to](folder, number, weighed)
            rows = [(row.trace, row.sequence, row.advantage) for row in weighed]
        self._num_positions = max(self._num_positions, *(len(sequence.token_ids) for _, sequence, _ in rows))
        self._rows += [
            {
                "batch": number,
                "row": place,
                "trace_id": trace.trace_id,
                "trace_revision": trace.trace_revision,
                "sequence_index": sequence.sequence_index,
                "ask_id": trace.ask_id,
                "policy_version": sequence.behavior_version,
                "policy_lag": trace.policy_lag,
                "temperature": sequence.temperature,
                "num_action_tokens": sequence.num_action_tokens,
                "reward": trace.reward,
                "advantage": advantage,
            }
            for place, (trace, sequence, advantage) in enumerate(rows)
        ]
        self.batches.append(
            {
                "file": path.relative_to(folder).as_posix(),
                "num_traces": len(traces),
                "num_sequences": len(rows),
                "num_action_tokens": sum(sequence.num_action_tokens for _, sequence, _ in rows),
            }
        )

    @property
    def shapes(self) -> BatchShapes:
        """What a trainer's settings depend on."""
        return BatchShapes(
            num_sequences=tuple(batch["num_sequences"] for batch in self.batches),
            temperatures=tuple(sorted({row["temperature"] for row in self._rows})),
            num_positions=self._num_positions,
        )

    def save_traces(self, path: Path) -> None:
        """Write which sequence is where."""
        pq.write_table(pa.Table.from_pylist(self._rows, schema=_TRACE_SCHEMA), path)

    @property
    def counts(self) -> dict[str, int]:
        """How much was written in all."""
        summed = ("num_traces", "num_sequences", "num_action_tokens")
        return {"num_batches": len(self.batches)} | {
            name: sum(batch[name] for batch in self.batches) for name in summed
        }
