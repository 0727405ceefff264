"""What one night's validation reads: every table at one snapshot of the lake, as small Arrow tables and arrays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from validate.segments import Booleans
from validate.staleness import DRIFT_COLUMNS
from validate.traces import TRACE_COLUMNS, Traces, traces_of
from validate.versions import Policies, policies_of

if TYPE_CHECKING:
    from warehouse.lake import Lake

_CALL_COLUMNS = ("call_id", "trace_id", "response_id", "started_at", "ingested_at")
_SCORED_COLUMNS = ("trace_id", "trace_revision", "sequence_index", "logprobs")


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """All that the checks and scans look at."""

    traces: Traces
    """Every trace of the lake at its current revision."""
    calls: pa.Table
    """Their calls: which trace each is of, and its response id."""
    outcomes: pa.Table
    """What each source had said by the run's clock; rows of `validate/outcomes_as_of`."""
    policies: Policies
    """The registered versions."""
    drifts: pa.Table
    """Rows of `trace_drift`."""
    scored: pa.Table
    """Log-probabilities of current revisions under the current policy."""
    is_trained: Booleans
    """[N] whether the trace has trained the current policy or one of its ancestors."""

    @property
    def is_timed(self) -> Booleans:
        """[N] whether the log had a time for each call of the trace; where it had none, that of reading stands."""
        untimed = self.calls.filter(pc.equal(self.calls["started_at"], self.calls["ingested_at"]))["trace_id"]
        is_untimed = pc.is_in(self.traces.trace_ids, value_set=pc.unique(untimed))
        return np.asarray(~is_untimed.to_numpy(zero_copy_only=False), np.bool_)


def read_night(lake: Lake, *, as_of: datetime, snapshot: int | None = None) -> Night:
    """The night as that snapshot of the lake has it, by default the latest; outcomes as they were known at `as_of`."""
    snapshot = lake.snapshot() if snapshot is None else snapshot
    traces = traces_of(lake.read("current_traces", columns=TRACE_COLUMNS, snapshot=snapshot))
    calls = lake.read("calls", columns=_CALL_COLUMNS, snapshot=snapshot)
    events = {
        "events": lake.read("joined_outcomes", snapshot=snapshot),
        "shared": lake.read("shared_keys", snapshot=snapshot),
    }
    outcomes = lake.query("validate/outcomes_as_of", events, as_of=as_of)
    policies = policies_of(lake.read("current_policies", snapshot=snapshot))
    scored = lake.read(
        "rescored", columns=_SCORED_COLUMNS, where={"policy_version": policies.current}, snapshot=snapshot
    )
    return Night(
        traces=traces,
        calls=calls,
        outcomes=outcomes,
        policies=policies,
        drifts=lake.read("trace_drift", columns=DRIFT_COLUMNS, snapshot=snapshot),
        scored=_of_current_revision(traces, scored),
        is_trained=_trained(lake, traces, policies, snapshot),
    )


def _of_current_revision(traces: Traces, scored: pa.Table) -> pa.Table:
    places = pc.index_in(scored["trace_id"], value_set=traces.trace_ids)
    known = pc.fill_null(places, 0).to_numpy().astype(np.int64)
    revisions = traces.of_trace("trace_revision").to_numpy()
    if revisions.size == 0:
        return scored.slice(0, 0)
    is_current = places.is_valid().to_numpy() & (revisions[known] == scored["trace_revision"].to_numpy())
    return scored.filter(pa.array(is_current))


def _trained(lake: Lake, traces: Traces, policies: Policies, snapshot: int) -> Booleans:
    runs = [run for version in policies.lineage() if (run := policies.runs[version]) is not None]
    if not runs:
        return np.zeros(traces.num_traces, np.bool_)
    replayed = lake.read("replays", columns=["trace_id"], where={"run_id": runs}, snapshot=snapshot)
    trained = pc.is_in(traces.trace_ids, value_set=replayed["trace_id"].combine_chunks())
    return np.asarray(trained.to_numpy(zero_copy_only=False), np.bool_)
