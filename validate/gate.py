"""The gate: which traces may be trained on tonight, and whether the night may train and promote at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Self

import pyarrow as pa
from pydantic import Field, model_validator

from schemas.errors import SettingsError
from schemas.progress import Progress, silent
from schemas.settings import Settings
from validate.catalog import CATALOG, MEASURES, check_bounds
from validate.check import Bounds, Finding, compare_all, subject_order
from validate.decision import ADMITTED_TRACES, Decision, decide_night
from validate.examination import Examination, examine
from validate.judge import JudgeSettings
from validate.night import Night, read_night
from validate.rewards import RewardSettings
from validate.waterfall import StageCount, Waterfall, waterfall_from

if TYPE_CHECKING:
    from warehouse.lake import Lake

_POSITION = {measure.name: position for position, measure in enumerate(CATALOG)}


class GateSettings(Settings):
    """What must be true of a trace and of a night before training."""

    max_drift: float = 0.003
    """Highest drift a trace may show, in nats per action token: the trust. Hu et al. 2026 (FlashREINFORCE), Sec. 3.2,
    Table 13."""
    max_lag: int | None = 8
    """Most optimizer updates between writing and training; not set admits any. Hu et al. 2026 (FlashREINFORCE): the
    lag that it was measured at."""
    max_age_hours: float | None = 336.0
    """Highest age of a trace in hours; not set admits any. Scans look at the same window. Two weeks: convention,
    untested."""
    min_admitted: int = 200
    """Fewest admitted traces for which a night trains; with fewer it is skipped. whileai lesson 10: hundreds at the
    least."""
    constant_run: int = 8
    """Action tokens from which on equal log-probabilities count as filled in. Convention, untested."""
    required_calls: dict[str, int] = Field(default_factory=dict)
    """Calls that a complete trace has, by workload; other workloads are not asked. Convention, untested."""
    bounds: dict[str, Bounds] = Field(default_factory=dict)
    """Bounds of a measure in place of its own, by its name; all three steps are replaced together. The measures, their
    bounds and the source of each stand in validate/catalog.py."""

    @model_validator(mode="after")
    def _refuse_impossible(self) -> Self:
        limits = {
            "max_drift": self.max_drift,
            "max_lag": self.max_lag,
            "max_age_hours": self.max_age_hours,
            "min_admitted": self.min_admitted,
        }
        for name, limit in limits.items():
            if limit is not None and limit < 0:
                raise SettingsError(f"{name} = {limit}: expected 0 or more; leave it out for the default")
        if self.constant_run < 2:
            raise SettingsError(f"constant_run = {self.constant_run}: expected 2 or more; one number is no run")
        check_bounds(self.bounds)
        if ADMITTED_TRACES in self.bounds and self.bounds[ADMITTED_TRACES].stop is not None:
            raise SettingsError("bounds.admitted_traces.stop: the fewest admitted traces are min_admitted; set that")
        return self

    def bounds_of(self) -> dict[str, Bounds]:
        """The bounds that differ from those of the catalog; too few admitted traces are `min_admitted`."""
        admitted = self.bounds.get(ADMITTED_TRACES, MEASURES[ADMITTED_TRACES].bounds)
        return {**self.bounds, ADMITTED_TRACES: admitted.model_copy(update={"stop": float(self.min_admitted)})}


class ValidateSettings(Settings):
    """All that a verdict depends on."""

    gate: GateSettings = GateSettings()
    """What must be true of a trace and of a night. Convention, untested."""
    reward: RewardSettings
    """Which outcome is the reward."""
    judge: JudgeSettings = JudgeSettings()
    """Which outcomes are a judge's. Convention, untested."""

    def sha256(self) -> str:
        """SHA-256 of the settings as canonical JSON; it names the gate in each verdict."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class GateResult:
    """What the gate decided about a night."""

    run_id: str
    """The run."""
    decision: Decision
    """go, hold, no_go or skipped."""
    sentence: str
    """Why, and the one action that would change it."""
    num_traces: int
    """Traces that were judged."""
    num_admitted: int
    """Traces that may be trained on."""
    num_pending: int
    """Traces that are judged again another night."""
    stages: tuple[StageCount, ...]
    """What became of the traces, stage by stage."""
    findings: tuple[Finding, ...]
    """Everything measured, in the order of the catalog."""


def validate(  # noqa: PLR0913 - one argument a fact of the night
    lake: Lake,
    *,
    settings: ValidateSettings,
    run_id: str,
    night: str,
    as_of: datetime,
    snapshot: int | None = None,
    progress: Progress = silent,
) -> GateResult:
    """Judge every trace of the lake and the night, and write verdicts and findings in one transaction.

    What is read is the lake at `snapshot`, by default the latest: what lands meanwhile is judged another night.

    A run that has been judged is not judged again: its verdicts and findings are read back.
    """
    earlier = _read_back(lake, run_id, settings)
    if earlier is not None:
        return earlier
    seen = read_night(lake, as_of=as_of, snapshot=snapshot)
    found = examine(seen, settings, as_of=as_of, progress=progress)
    findings = _in_order(compare_all(found.readings, MEASURES, settings.gate.bounds_of()))
    constants = {"run_id": run_id, "night": night, "measured_at": as_of}
    with lake.transaction() as transaction:
        earlier = _read_back(lake, run_id, settings)  # another process may have judged the run meanwhile
        if earlier is None:
            transaction.append("verdicts", _verdict_rows(seen, found, settings, run_id=run_id, as_of=as_of))
            transaction.append("findings", [{**asdict(finding), **constants} for finding in findings])
    return earlier or _result(run_id, found.waterfall, findings, settings)


def _read_back(lake: Lake, run_id: str, settings: ValidateSettings) -> GateResult | None:
    names = [field.name for field in fields(Finding)]
    rows = lake.read("findings", columns=names, where={"run_id": run_id}).to_pylist()
    if not rows:  # a judged night has findings even when it has no traces
        return None
    reasons = lake.read("verdicts", columns=["reasons"], where={"run_id": run_id}, order_by=["trace_id"])["reasons"]
    return _result(run_id, waterfall_from(reasons), _in_order([Finding(**row) for row in rows]), settings)


def _in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda found: (_POSITION[found.name], subject_order(found.subject))))


def _result(run_id: str, waterfall: Waterfall, findings: tuple[Finding, ...], settings: ValidateSettings) -> GateResult:
    stages, num_admitted = waterfall.counts(), int(waterfall.is_admitted.sum())
    decision, sentence = decide_night(
        findings, stages, num_admitted=num_admitted, min_admitted=settings.gate.min_admitted
    )
    return GateResult(
        run_id=run_id,
        decision=decision,
        sentence=sentence,
        num_traces=waterfall.leading.size,
        num_admitted=num_admitted,
        num_pending=int(waterfall.is_pending.sum()),
        stages=stages,
        findings=findings,
    )


def _verdict_rows(
    seen: Night, found: Examination, settings: ValidateSettings, *, run_id: str, as_of: datetime
) -> pa.Table:
    traces, waterfall, staleness = seen.traces, found.waterfall, found.staleness
    constants: Mapping[str, pa.Scalar] = {
        "run_id": pa.scalar(run_id),
        "gate_sha256": pa.scalar(settings.sha256()),
        "decided_at": pa.scalar(as_of, pa.timestamp("us", tz="UTC")),
    }
    return pa.table(
        {
            "trace_id": traces.trace_ids,
            "trace_revision": traces.of_trace("trace_revision"),
            "verdict": waterfall.verdicts(),
            "reasons": waterfall.reasons,
            "stage": waterfall.stages(),
            "reward": pa.array(found.rewards.value, from_pandas=True),
            "drift": pa.array(staleness.drift, from_pandas=True),
            "policy_lag": pa.array(staleness.lag, from_pandas=True).cast(pa.int64()),
            "age_hours": pa.array(staleness.age_hours),
            **{name: pa.repeat(value, traces.num_traces) for name, value in constants.items()},
        }
    )
