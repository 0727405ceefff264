"""From findings to one decision with one sentence: why, and the one action that would change it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from schemas.reasons import REASONS
from validate.catalog import measure
from validate.check import Finding
from validate.waterfall import StageCount

Decision = Literal["go", "hold", "no_go", "skipped"]
ADMITTED_TRACES = "admitted_traces"
"""The finding whose lowest bound makes a night skipped, not stopped: too little is no fault."""


def decide_night(
    findings: Sequence[Finding], stages: Sequence[StageCount], *, num_admitted: int, min_admitted: int
) -> tuple[Decision, str]:
    """The decision and its sentence.

    NO-GO when any finding stops; else skipped when too few traces were admitted; else HOLD when any finding holds or
    could not be measured although promotion rests on it; else GO.
    """
    stops = [finding for finding in findings if finding.status == "stop" and finding.name != ADMITTED_TRACES]
    if stops:
        return "no_go", _because(stops)
    if num_admitted < min_admitted:
        return "skipped", _too_few(stages, num_admitted, min_admitted)
    holds = [finding for finding in findings if _holds(finding)]
    if holds:
        return "hold", _because(holds)
    num_traces = stages[0].num_entered
    num_warnings = sum(finding.status == "warn" for finding in findings)
    warned = {0: "nothing warns", 1: "one check warns"}.get(num_warnings, f"{num_warnings} checks warn")
    return "go", f"{num_admitted:,} of {num_traces:,} traces are admitted; nothing stops or holds, {warned}."


def _holds(finding: Finding) -> bool:
    return finding.status == "hold" or (finding.status == "not_measured" and finding.severity in {"hold", "stop"})


def _because(findings: Sequence[Finding]) -> str:
    first, others = findings[0], len(findings) - 1
    more = "" if not others else f" (and {others} more)"
    subject = "" if first.subject == "all" else f" of {first.subject.split(':', 1)[-1]}"
    state = "is not measured" if first.status == "not_measured" else f"is {first.value:.4g}, {_bound(first)}"
    return f"{measure(first.name).title}{subject} {state}: {first.sentence}{more}. {first.fix}"


def _bound(finding: Finding) -> str:
    side = "below" if finding.comparison == "below" else "above"
    return f"{side} {finding.threshold:g}"


def _too_few(stages: Sequence[StageCount], num_admitted: int, min_admitted: int) -> str:
    said = f"{num_admitted:,} traces are admitted, {min_admitted:,} are needed"
    kept = [(number, code, stage) for stage in stages for code, number in stage.reasons.items()]
    if not kept:
        return f"{said}; no trace was kept out, so there is no more data. Ingest more logs."
    number, code, stage = max(kept, key=lambda item: item[0])
    return f"{said}; most, {number:,}, left at {stage.name}: {REASONS[code].sentence} {REASONS[code].fix}"
