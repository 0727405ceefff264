"""The batches of a run as they are handed over: each trace whole, as the log has it and the gate let it through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import InputError, UsageError
from train.plan import Admitted, Plan, manifest_sha256
from train.run_traces import RunTraces
from train.sequences import LoggedSequence

if TYPE_CHECKING:
    from warehouse.lake import Lake

_FACTS = ("trace_id", "ask_id", "workload", "split")


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmittedTrace:
    """A trace that the gate let through: its sequences and what is known beside their tokens."""

    trace_id: str
    trace_revision: int
    reward: float
    ask_id: str | None
    workload: str | None
    policy_lag: int | None
    """Updates between writing and the run's current policy; None where it is unknown."""
    sequences: tuple[LoggedSequence, ...]
    """In time order, each with at least one action token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmittedRun:
    """What a run admitted, and in which batches it is or was to be trained on."""

    run_id: str
    gate_sha256: str
    num_admitted: int
    is_planned: bool
    """Whether the batches are those of the run's plan; else one batch has all, in the order of their ids."""
    batches: tuple[tuple[Admitted, ...], ...]
    lags: dict[str, int | None]


def admitted_run(lake: Lake, *, run_id: str, run_folder: Path, reads_heads: bool = False) -> AdmittedRun:
    """The batches of a run; refused when it admitted nothing, or its plan is of other traces.

    `reads_heads` says whether its method reads logged heads: its plan is then of the traces that have them.
    """
    columns = ["trace_id", "policy_lag", "gate_sha256"]
    verdicts = lake.read("verdicts", columns=columns, where={"run_id": run_id, "verdict": "admitted"}).to_pylist()
    traces = RunTraces(lake, run_id, reads_heads)
    admitted = traces.admitted()
    usable = sorted(traces.usable(admitted))
    path = run_folder / "plan.json"
    plan = Plan.load(path) if path.is_file() else None
    if plan is not None and plan.manifest_sha256 != manifest_sha256(usable):
        raise UsageError(
            f"{path}: this plan is of other traces than the {len(usable)} that run {run_id} has admitted now; "
            "expected the same; begin another run"
        )
    return AdmittedRun(
        run_id=run_id,
        gate_sha256=verdicts[0]["gate_sha256"],
        num_admitted=len(admitted),
        is_planned=plan is not None,
        batches=plan.batches if plan is not None else (tuple(usable),),
        lags={row["trace_id"]: row["policy_lag"] for row in verdicts},
    )


def read_batches(lake: Lake, run: AdmittedRun) -> Iterator[tuple[AdmittedTrace, ...]]:
    """The traces of each batch in its order, at the revisions that were judged, one batch in memory at a time."""
    traces = RunTraces(lake, run.run_id, reads_heads=False)
    for batch in run.batches:
        read, rows = traces.read_with(batch, _FACTS)
        facts = {row["trace_id"]: row for row in rows.select(list(_FACTS)).to_pylist()}
        found = {trace[0].trace_id: trace for trace in read}
        _require_not_held_out(facts)
        yield tuple(_trace(trace, facts[trace.trace_id], found[trace.trace_id], run) for trace in batch)


def _require_not_held_out(facts: dict[str, dict[str, Any]]) -> None:
    """Refuse a held-out trace: the gate lets none through, and a trainer that saw it cannot be judged on it."""
    held_out = sorted(trace_id for trace_id, row in facts.items() if row["split"] != "train")
    if held_out:
        raise InputError(
            f"trace {held_out[0]}: admitted, and held out; expected traces of the training split alone; validate again"
        )


def _trace(
    trace: Admitted, facts: dict[str, Any], sequences: tuple[LoggedSequence, ...], run: AdmittedRun
) -> AdmittedTrace:
    return AdmittedTrace(
        trace_id=trace.trace_id,
        trace_revision=trace.trace_revision,
        reward=trace.reward,
        ask_id=facts["ask_id"],
        workload=facts["workload"],
        policy_lag=run.lags[trace.trace_id],
        sequences=sequences,
    )
