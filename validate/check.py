"""What a check and a scan hand over, and how a measurement becomes a finding.

A check judges a trace: it returns one boolean per trace for each reason that it knows. A scan judges the night: it
returns readings, which are measurements without an opinion. A reading becomes a finding when it is compared with the
bounds of its measure, which stand in `validate.catalog` and may be replaced under `[gate.bounds]` in the settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from schemas.settings import Settings

Section = Literal[
    "admission", "structure", "logprobs", "canary", "staleness", "rewards", "judge", "duplicates", "regime"
]
Severity = Literal["stop", "hold", "warn", "info"]
Status = Literal["ok", "warn", "hold", "stop", "not_measured"]
Comparison = Literal["below", "above"]

SECTIONS: tuple[str, ...] = get_args(Section)
"""The sections, in the order in which the report shows them."""
_STATUS: Mapping[Severity, Status] = {"stop": "stop", "hold": "hold", "warn": "warn", "info": "ok"}
ALL = "all"
"""The subject of a reading that is about the whole night."""


class Bounds(Settings):
    """The values of a measure from which on it warns, holds promotion or stops training."""

    stop: float | None = None
    """Crossing it means NO-GO: nothing is trained. In the unit of the measure; the catalog names each source."""
    hold: float | None = None
    """Crossing it means HOLD: trained, not promoted. In the unit of the measure; the catalog names each source."""
    warn: float | None = None
    """Crossing it is said in the report. In the unit of the measure; the catalog names each source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One thing that can be found out about a night: what it is, when it is bad, and what to do then."""

    name: str
    """The finding's name, unique."""
    section: Section
    """The section of the report that shows it."""
    title: str
    """Its name for people."""
    unit: str
    """Unit of the value; empty for a plain ratio."""
    meaning: str
    """What the value is and over what it is taken."""
    subjects: str
    """Of what it is measured: all, version:NAME, source:KIND/NAME, hours:N, label:0, ..."""
    fix: str
    """What to do when it is not ok."""
    comparison: Comparison | None = None
    """The bad side of its bounds; None when it is for information only."""
    compared: Literal["value", "lower", "magnitude"] = "value"
    """What is compared: the value, the lower end of its interval, or the value without its sign."""
    significant: bool = False
    """Whether it is bad only when its interval also leaves out zero."""
    bounded: Literal["all", "each"] = "all"
    """Whether only the subject `all` is compared with the bounds, or each subject by itself."""
    bounds: Bounds = Bounds()  # noqa: RUF009 - it is frozen, so one object may serve all
    """Default bounds."""
    source: str = ""
    """Where the default bounds come from."""
    unmeasured: Severity = "info"
    """What it means that it could not be measured."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95% interval and the count behind it; no number when it could not be measured."""

    value: float | None
    lower: float | None = None
    upper: float | None = None
    num_observations: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One measurement of a scan, before anybody compares it with a bound."""

    name: str
    """Name of its measure in the catalog."""
    estimate: Estimate
    """What was measured; a value of None means that it could not be."""
    sentence: str
    """The figures in one sentence; for a missing value, why it is missing."""
    subject: str = ALL
    """Of what: all, or a version, source or class with its prefix."""
    advisory: bool = False
    """Whether crossing any bound is a warning at most, because training does not rest on it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One row of `findings`, without the run's own columns."""

    section: str
    name: str
    subject: str
    value: float | None
    lower: float | None
    upper: float | None
    num_observations: int
    threshold: float | None
    comparison: str | None
    severity: str
    status: str
    unit: str
    sentence: str
    fix: str


def subject_order(subject: str) -> tuple[object, ...]:
    """Sorts subjects as a reader expects them: all first, numbers inside names by their size."""
    parts = re.split(r"(\d+)", subject)
    return (subject != ALL, [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts])


def unmeasured(
    name: str, why: str, *, subject: str = ALL, num_observations: int = 0, advisory: bool = False
) -> Reading:
    """A reading that says why there is no number: NOT MEASURED, never green."""
    return Reading(
        name=name,
        estimate=Estimate(None, num_observations=num_observations),
        sentence=why,
        subject=subject,
        advisory=advisory,
    )


def compare(reading: Reading, measure: Measure, bounds: Bounds) -> Finding:
    """The finding that the reading is under these bounds.

    Threshold and severity are those of the gravest bound that was crossed, and of the mildest one there is when none
    was: the bound that would be crossed first.
    """
    if reading.estimate.value is None:
        severity = _capped(measure.unmeasured, reading.advisory)
        return _finding(reading, measure, None, severity, "not_measured")
    ladder = _ladder(measure, bounds, reading.subject)
    crossed = [(severity, threshold) for severity, threshold in ladder if _is_crossed(reading, measure, threshold)]
    if crossed:
        severity, threshold = crossed[0]
        severity = _capped(severity, reading.advisory)
        return _finding(reading, measure, threshold, severity, _STATUS[severity])
    if ladder:
        severity, threshold = ladder[-1]
        return _finding(reading, measure, threshold, _capped(severity, reading.advisory), "ok")
    return _finding(reading, measure, None, "info", "ok")


def compare_all(
    readings: list[Reading], measures: Mapping[str, Measure], overrides: Mapping[str, Bounds]
) -> tuple[Finding, ...]:
    """The findings of all readings, in their order; a measure's own bounds hold where none override them."""
    found = []
    for reading in readings:
        measure = measures[reading.name]
        found.append(compare(reading, measure, overrides.get(reading.name, measure.bounds)))
    return tuple(found)


def _ladder(measure: Measure, bounds: Bounds, subject: str) -> list[tuple[Severity, float]]:
    if measure.comparison is None or (measure.bounded == "all" and subject != ALL):
        return []
    steps: list[tuple[Severity, float | None]] = [("stop", bounds.stop), ("hold", bounds.hold), ("warn", bounds.warn)]
    return [(severity, threshold) for severity, threshold in steps if threshold is not None]


def _is_crossed(reading: Reading, measure: Measure, threshold: float) -> bool:
    estimate = reading.estimate
    number = estimate.lower if measure.compared == "lower" else estimate.value
    if number is None:
        return False
    if measure.compared == "magnitude":
        number = abs(number)
    if measure.significant and _covers_zero(estimate):
        return False
    return number < threshold if measure.comparison == "below" else number > threshold


def _covers_zero(estimate: Estimate) -> bool:
    return estimate.lower is None or estimate.upper is None or estimate.lower <= 0.0 <= estimate.upper


def _capped(severity: Severity, advisory: bool) -> Severity:
    return "warn" if advisory and severity in {"stop", "hold"} else severity


def _finding(
    reading: Reading, measure: Measure, threshold: float | None, severity: Severity, status: Status
) -> Finding:
    estimate = reading.estimate
    return Finding(
        section=measure.section,
        name=measure.name,
        subject=reading.subject,
        value=estimate.value,
        lower=estimate.lower,
        upper=estimate.upper,
        num_observations=estimate.num_observations,
        threshold=threshold,
        comparison=measure.comparison if threshold is not None else None,
        severity=severity,
        status=status,
        unit=measure.unit,
        sentence=reading.sentence,
        fix=measure.fix,
    )
