"""The traces of a night as arrays: sequences in any order, traces in the order of their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from validate.segments import Booleans, Floats, Integers

TRACE_COLUMNS: tuple[str, ...] = (
    "trace_id",
    "trace_revision",
    "sequence_index",
    "num_sequences",
    "num_calls",
    "user_hash",
    "workload",
    "token_ids",
    "token_logprobs",
    "action_mask",
    "spans",
    "version_spans",
    "num_action_tokens",
    "truncated",
    "faults",
    "started_at",
    "ended_at",
    "split",
)
"""What the checks and scans read of a trace; no text is among it."""

Texts = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class Traces:
    """S sequences of N traces. Arrays per trace are in the order of `trace_ids`, which is sorted."""

    sequences: pa.Table
    """[S] rows with at least `TRACE_COLUMNS`, in any order."""
    trace_ids: pa.Array
    """[N] ids, sorted, each once."""
    owners: Integers
    """[S] the trace of each sequence, as a position in `trace_ids`."""
    leads: Integers
    """[N] a row of each trace, for what all of its sequences say alike."""

    @property
    def num_traces(self) -> int:
        """How many traces there are."""
        return len(self.trace_ids)

    def of_trace(self, name: str) -> pa.Array:
        """[N] a column that says the same in all sequences of a trace."""
        return _joined(self.sequences[name]).take(pa.array(self.leads))

    def texts(self, name: str) -> Texts:
        """[N] a text column of the trace; None where it is null."""
        return np.asarray(self.of_trace(name).to_numpy(zero_copy_only=False), dtype=object)

    def any_of(self, flags: Booleans) -> Booleans:
        """[N] whether any sequence of the trace has the flag; `flags` is [S]."""
        return np.bincount(self.owners[flags], minlength=self.num_traces) > 0

    def sum_of(self, numbers: npt.NDArray[Any]) -> Floats:
        """[N] sum over the sequences of each trace; `numbers` is [S]."""
        return np.bincount(self.owners, weights=numbers, minlength=self.num_traces).astype(np.float64)

    def flat(self, name: str) -> tuple[pa.Array, Integers]:
        """The entries of a list column of all sequences [E], and the trace of each [E]."""
        lists = _joined(self.sequences[name])
        return pc.list_flatten(lists), self.owners[pc.list_parent_indices(lists).to_numpy()]

    def has_fault(self, code: str) -> Booleans:
        """[N] whether assembly found this fault in the trace."""
        faults, owners = self.flat("faults")
        found = pc.fill_null(pc.equal(faults, code), False).to_numpy(zero_copy_only=False)
        return np.bincount(owners[found], minlength=self.num_traces) > 0

    def has_any_fault(self) -> Booleans:
        """[N] whether assembly found any fault in the trace."""
        _, owners = self.flat("faults")
        return np.bincount(owners, minlength=self.num_traces) > 0

    def ended_us(self) -> Integers:
        """[N] the last known time of the trace, in microseconds since 1970."""
        ended = np.full(self.num_traces, np.iinfo(np.int64).min)
        np.maximum.at(ended, self.owners, self.sequences["ended_at"].cast(pa.int64()).to_numpy())
        return ended

    def started_us(self) -> Integers:
        """[N] the start of the trace's first call, in microseconds since 1970."""
        started = np.full(self.num_traces, np.iinfo(np.int64).max)
        np.minimum.at(started, self.owners, self.sequences["started_at"].cast(pa.int64()).to_numpy())
        return started

    def age_hours(self, as_of_us: int) -> Floats:
        """[N] hours between the end of the trace and the run's clock, given in microseconds since 1970."""
        return (as_of_us - self.ended_us()) / 3.6e9


def traces_of(sequences: pa.Table) -> Traces:
    """The traces that these rows are the sequences of; one revision of each."""
    names = _joined(sequences["trace_id"])
    trace_ids = pc.unique(names).sort()
    owners = pc.index_in(names, value_set=trace_ids).to_numpy(zero_copy_only=False).astype(np.int64)
    _, leads = np.unique(owners, return_index=True)
    return Traces(sequences, trace_ids, owners, leads.astype(np.int64))


def _joined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 0:
        return pa.array([], column.type)
    return pa.concat_arrays(column.chunks)
