"""What a run tells the lake: a row of `replays` for each sequence of an update, a row of `updates` for the update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from schemas.replay import REPLAYS
from schemas.update import UPDATES
from train.learner import Learned
from train.registry import PolicyRow, policy
from train.sequences import LoggedSequence
from train.watching import update_row

if TYPE_CHECKING:
    from warehouse.lake import Lake

_SCHEMAS = {table.name: pa.schema([column.field for column in table.columns]) for table in (REPLAYS, UPDATES)}
_NOT_YET = {"replays": "train/not_yet_replayed", "updates": "train/not_yet_updated"}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecords:
    """The rows of one run."""

    lake: Lake
    run_id: str
    method: str
    parent: PolicyRow
    known: Mapping[str, PolicyRow]
    """Every version by name."""
    now: datetime

    def replayed(self, number: int, learned: Learned, *, num_steps: int) -> list[dict[str, Any]]:
        """The rows of `replays` of update `number`, `num_steps` optimizer steps after the parent."""
        sequences = [sequence for trace in learned.traces for sequence in trace]
        return [
            {
                **asdict(told),
                "run_id": self.run_id,
                "step": number,
                "trace_revision": sequence.trace_revision,
                "method": learned.update.method,
                "policy_lag": self.parent.optimizer_step + num_steps - self._optimizer_step(sequence),
                "replayed_at": self.now,
            }
            for sequence, told in zip(sequences, learned.update.per_sequence(), strict=True)
        ]

    def updated(self, history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The rows of `updates` of every update so far."""
        return [
            update_row(number, figures, run_id=self.run_id, method=self.method, replayed_at=self.now)
            for number, figures in enumerate(history)
        ]

    def window(self, num_updates: int) -> list[dict[str, Any]]:
        """Who wrote the traces of the first so many updates, as train/data_window has it."""
        rows: list[dict[str, Any]] = self.lake.query(
            "train/data_window", run_id=self.run_id, num_updates=num_updates
        ).to_pylist()
        return rows

    def commit(self, table: Literal["replays", "updates"], rows: pa.Table) -> None:
        """Add rows that the lake does not hold yet."""
        with self.lake.transaction() as transaction:
            transaction.append(table, transaction.query(_NOT_YET[table], {"incoming": rows}))

    def _optimizer_step(self, sequence: LoggedSequence) -> int:
        """Where the policy that wrote the sequence stands."""
        version = sequence.behavior_version or "unknown"
        return (self.known.get(version) or policy(self.lake, version)).optimizer_step


def as_table(table: Literal["replays", "updates"], rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as the lake and checkpoints hold them."""
    return pa.Table.from_pylist(rows, schema=_SCHEMAS[table])
