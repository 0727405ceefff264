"""The traces of a run, out of the lake: those that it trains on, and those that it may only look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from schemas.errors import UsageError
from train.packing import Trace
from train.plan import Admitted
from train.sequences import HEAD_COLUMNS, SEQUENCE_COLUMNS, by_trace, sequences_from_table
from train.trace_batch import Facts

if TYPE_CHECKING:
    from warehouse.lake import Lake

HEADS_AT_ONCE = 512
"""Traces that are read at once to find those with logged heads. Convention, untested."""

NUM_HELD_OUT = 64
"""Held-out traces on which a critic is looked at. Convention, untested."""


@dataclass(frozen=True, slots=True)
class RunTraces:
    """What the run of that name reads of the lake."""

    lake: Lake
    run_id: str
    reads_heads: bool
    """Whether its method reads the logged heads."""

    def admitted(self) -> list[Admitted]:
        """The admitted traces; refused when there is none."""
        found = [Admitted(**row) for row in self.lake.query("train/admitted", run_id=self.run_id).to_pylist()]
        if not found:
            raise UsageError(
                f"run {self.run_id}: no admitted trace; expected verdicts of this run with some; validate first, or "
                "look at its report for why none passed"
            )
        return found

    def usable(self, admitted: Sequence[Admitted]) -> list[Admitted]:
        """Those with a logged head at each action token where the method reads them; refused when none has."""
        if not self.reads_heads:
            return list(admitted)
        kept: list[Admitted] = []
        for start in range(0, len(admitted), HEADS_AT_ONCE):
            part = admitted[start : start + HEADS_AT_ONCE]
            heads = {trace[0].trace_id: all(each.num_top for each in trace) for trace in self.read(part)}
            kept += [trace for trace in part if heads[trace.trace_id]]
        if not kept:
            raise UsageError(
                f"run {self.run_id}: none of {len(admitted)} admitted traces has a top-K list at each action token; "
                "expected some, with token ids; make the server log them, or ask the weights that wrote the traces: "
                'train.heads = "weights"'
            )
        return kept

    def read(self, batch: Sequence[Admitted]) -> list[Trace]:
        """The traces of a batch at the revisions that were judged; refused when the lake lost one since."""
        traces, _ = self.read_with(batch, ())
        return traces

    def read_with(self, batch: Sequence[Admitted], columns: Sequence[str]) -> tuple[list[Trace], pa.Table]:
        """The same, and the rows of `traces` that they are made of with these columns besides."""
        wanted = {trace.trace_id: trace.trace_revision for trace in batch}
        heads = HEAD_COLUMNS if self.reads_heads else ()
        every = list(dict.fromkeys((*SEQUENCE_COLUMNS, *heads, *columns)))
        table = self.lake.read("traces", columns=every, where={"trace_id": list(wanted)})
        # Other revisions are filtered first: they may be such as no policy can score.
        pairs = zip(table["trace_id"].to_pylist(), table["trace_revision"].to_pylist(), strict=True)
        judged = table.filter(pa.array([wanted.get(name) == revision for name, revision in pairs], pa.bool_()))
        found = [sequence for sequence in sequences_from_table(judged) if sequence.num_action_tokens]
        missing = sorted(wanted.keys() - {sequence.trace_id for sequence in found})
        if missing:
            raise UsageError(
                f"run {self.run_id}: {len(missing)} admitted traces, such as {missing[0]}, are no longer in the lake; "
                "expected those that were judged; they were erased since, so begin another run"
            )
        return by_trace(found), judged

    def held_out(self) -> list[Admitted]:
        """Some held-out traces with a reward, always the same ones, which nothing is ever trained on."""
        rows = self.lake.query("train/heldout", run_id=self.run_id, num_rows=NUM_HELD_OUT)
        return [Admitted(**row) for row in rows.to_pylist()]


def facts_of(batch: Sequence[Admitted]) -> dict[str, Facts]:
    """What a learner is told of these traces."""
    return {trace.trace_id: Facts(trace.reward, trace.ask_id) for trace in batch}
