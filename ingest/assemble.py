"""Calls to traces, across files and nights: only traces with new calls or other settings are read and written again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from ingest.columns import packed_rows
from ingest.meaning import Deployment, Interpreter
from ingest.meant import CallRow
from ingest.settings import LogSettings
from ingest.trace_rows import Trace, TraceBuilder, rows_to_table
from schemas.progress import Progress, silent
from warehouse.lake import Lake
from warehouse.transaction import Transaction

_PACKED = ("prompt_token_ids", "token_ids", "token_logprobs")
_NAMED = ("logged_deployment", "landed_as", "model")
_CALL_TOKENS = 64
"""What a call weighs beside its tokens when traces are grouped, in tokens. Convention, untested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AssembleReport:
    """What was put together in this run; traces without new calls are not among it."""

    num_traces: int = 0
    num_sequences: int = 0
    num_new: int = 0
    num_revised: int = 0
    num_forked: int = 0
    """Traces with a prompt that is no exact continuation, though all prompts were logged: several sequences each."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """Traces by fault; a trace may have several."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """Calls by what was odd about how they fit together."""


def assemble(
    lake: Lake,
    *,
    deployments: Mapping[str, Deployment] = MappingProxyType({}),
    settings: LogSettings,
    now: datetime,
    progress: Progress = silent,
) -> AssembleReport:
    """Put the calls of every trace together whose current revision does not know all of them, or not their settings.

    The calls are read as they were logged, under the settings of now. A trace that was put together before gets a
    higher revision, where a call came late or where the settings of its own deployment give other meaning now; the
    revision before stays as it was. A trace of a lake that did not record the settings is put together once more.
    """
    builder = TraceBuilder(deployments, settings, now)
    stale = _stale(lake, builder.interpreter)
    totals: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for group in _groups(stale, settings.assemble_tokens):
        with lake.transaction() as transaction:
            built = _build(transaction, builder, group)
            rows = [row for trace in built for row in trace.rows]
            if rows:
                rows.sort(key=lambda row: (row["policy_version_min"] or "", row["started_at"], row["trace_id"]))
                transaction.append("traces", rows_to_table(rows))
        totals.update(_counts(built))
        for trace in built:
            faults.update(trace.faults)
            notes.update(trace.notes)
        totals["done"] += len(group)
        progress("assemble traces", totals["done"], len(stale), "traces")
    return AssembleReport(
        num_traces=totals["traces"],
        num_sequences=totals["sequences"],
        num_new=totals["new"],
        num_revised=totals["traces"] - totals["new"],
        num_forked=totals["forked"],
        faults=dict(faults.most_common()),
        notes=dict(notes.most_common()),
    )


def _stale(lake: Lake, interpreter: Interpreter) -> list[dict[str, Any]]:
    """The traces that are to be put together; no token is read to find them."""
    named = lake.query("ingest/deployments_of_calls").to_pylist()
    meanings = pa.table(
        {
            **{name: pa.array([row[name] for row in named], pa.string()) for name in _NAMED},
            "settings_sha256": pa.array(
                [interpreter.settings_sha256(*(row[name] for name in _NAMED)) for row in named], pa.string()
            ),
        }
    )
    stale: list[dict[str, Any]] = lake.query("ingest/stale_traces", {"meanings": meanings}).to_pylist()
    return stale


def _groups(stale: Sequence[Mapping[str, Any]], most_tokens: int) -> Iterator[list[Mapping[str, Any]]]:
    """Traces in order of time, in groups of at most so many tokens or one trace."""
    group: list[Mapping[str, Any]] = []
    num_tokens = 0
    for trace in stale:
        weight = trace["num_tokens"] + _CALL_TOKENS * trace["num_calls"]
        if group and num_tokens + weight > most_tokens:
            yield group
            group, num_tokens = [], 0
        group.append(trace)
        num_tokens += weight
    if group:
        yield group


def _build(transaction: Transaction, builder: TraceBuilder, group: Sequence[Mapping[str, Any]]) -> list[Trace]:
    """The traces of a group that are still to be put together now that the lake is locked."""
    wanted = pa.table({"trace_id": [trace["trace_id"] for trace in group]})
    known = {
        row["trace_id"]: row for row in transaction.query("ingest/trace_revisions", {"wanted": wanted}).to_pylist()
    }
    calls = _calls(
        transaction.query(
            "ingest/calls_of_traces",
            {"wanted": wanted},
            since=min(trace["since"] for trace in group),
            until=max(trace["until"] for trace in group),
        )
    )
    built = []
    for trace in group:
        trace_id = trace["trace_id"]
        before = known.get(trace_id)
        if before is not None and _is_current(before, builder, calls[trace_id]):
            continue
        if before is None:
            built.append(builder.build(trace_id, 0, calls[trace_id]))
        else:
            built.append(builder.build(trace_id, before["trace_revision"] + 1, calls[trace_id], before["split"]))
    return built


def _is_current(before: Mapping[str, Any], builder: TraceBuilder, calls: Sequence[CallRow]) -> bool:
    return bool(before["num_calls"] == len(calls) and before["meaning_sha256"] == builder.meaning_sha256(calls))


def _calls(rows: pa.Table) -> dict[str, list[CallRow]]:
    """Rows of `calls` by trace, lists packed."""
    packed = [packed_rows(rows[name]) for name in _PACKED]
    by_trace: dict[str, list[CallRow]] = defaultdict(list)
    for values, *lists in zip(rows.drop_columns(list(_PACKED)).to_pylist(), *packed, strict=True):
        by_trace[values["trace_id"]].append(CallRow(values, *lists))
    return by_trace


def _counts(built: Sequence[Trace]) -> Counter[str]:
    whole = [trace for trace in built if "no_prompt_ids" not in trace.faults]
    used = [sum(row["branch_kind"] != "abandoned" for row in trace.rows) for trace in whole]
    return Counter(
        traces=len(built),
        sequences=sum(len(trace.rows) for trace in built),
        new=sum(trace.rows[0]["trace_revision"] == 0 for trace in built),
        forked=sum(number > 1 for number in used),
    )
