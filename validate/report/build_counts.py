"""The waterfall and the gate table from the tables of one run."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from schemas.errors import LakeError
from validate.catalog import MEASURES
from validate.decision import ADMITTED_TRACES
from validate.report.counts import LineCounts, SourceFile, Stage, Waterfall
from validate.report.data import Check, Decision, TrendPoint, Verdict
from validate.report.evidence import Status
from validate.report.inputs import Inputs, Row, estimate_of, label, rounded, sentence, status_of, title_of
from validate.report.sections import STATUSES
from validate.report.words import clipped
from validate.waterfall import STAGES

MAX_FILES = 24
"""Input files that are listed, those with most lines first; convention, untested."""
MAX_CHECKS = 50
"""Lines of the gate table, the gravest first; convention, untested."""

MAX_VERDICT_LENGTH = 1000
"""Bytes of the run's sentence that are kept; convention, untested."""


def waterfall_of(inputs: Inputs) -> Waterfall:
    """Where every line and every trace went."""
    files = _files(inputs)
    calls = inputs.calls
    call_lines = _total([file for file in files if file.content_kind == "calls"])
    stages, num_admitted = _stages(inputs)
    return Waterfall(
        files=tuple(files[:MAX_FILES]),
        num_files_not_listed=max(0, len(files) - MAX_FILES),
        call_lines=call_lines,
        outcome_lines=_total([file for file in files if file.content_kind != "calls"]),
        num_lines_erased=_erased(call_lines.num_landed - calls["num_lines"], calls["num_erasures"]),
        num_lines_with_calls=calls["num_lines"],
        num_calls=calls["num_calls"],
        num_traces=calls["num_traces"],
        num_not_assembled=calls["num_not_assembled"],
        num_not_judged=calls["num_not_judged"],
        num_judged=calls["num_judged"],
        stages=stages,
        num_admitted=num_admitted,
        num_trained=_trained(inputs),
    )


def _files(inputs: Inputs) -> list[SourceFile]:
    files = inputs.lake.read("current_source_files", snapshot=inputs.snapshot)
    return [
        SourceFile(
            uri=sentence(row["uri"]),
            content_kind=row["content_kind"],
            content_sha256=row["content_sha256"],
            num_bytes=row["bytes_read"],
            counts=LineCounts(
                num_lines=row["num_lines"],
                num_landed=row["num_landed"],
                num_duplicates=row["num_duplicates"],
                num_rejects=row["num_rejects"],
                num_blank=row["num_blank"],
            ),
            notes=tuple(row["notes"] or ()),
        )
        for row in inputs.rows("files", {"files": files}, snapshot=inputs.snapshot)
    ]


def _total(files: list[SourceFile]) -> LineCounts:
    counts = [file.counts for file in files]
    return LineCounts(
        num_lines=sum(c.num_lines for c in counts),
        num_landed=sum(c.num_landed for c in counts),
        num_duplicates=sum(c.num_duplicates for c in counts),
        num_rejects=sum(c.num_rejects for c in counts),
        num_blank=sum(c.num_blank for c in counts),
    )


def _erased(num_missing: int, num_erasures: int) -> int:
    """Landed lines without calls, if an erasure explains them; else none, and the waterfall refuses the gap."""
    return num_missing if num_erasures and num_missing > 0 else 0


def _stages(inputs: Inputs) -> tuple[tuple[Stage, ...], int]:
    """The stages in the gate's order, stages that this code does not know last; and the number admitted."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in inputs.rows("stages", {"judged": inputs.judged.select(["stage", "verdict"])}):
        if row["verdict"] not in {"admitted", "quarantined", "pending"}:
            raise LakeError(
                f"run {inputs.run_id}: {row['num_traces']:,} verdicts are {row['verdict']!r}; expected admitted, "
                "quarantined or pending. Another version of the program wrote them: validate the night again"
            )
        place = "admitted" if row["verdict"] == "admitted" else row["stage"]
        found[place][row["verdict"]] = found[place].get(row["verdict"], 0) + row["num_traces"]
    num_admitted = found.pop("admitted", {}).get("admitted", 0)
    titles = {stage.name: stage.title for stage in STAGES}
    names = [*titles, *sorted(found.keys() - titles.keys())]
    num_left = num_admitted + sum(sum(ends.values()) for ends in found.values())
    stages = []
    for name in names:
        ends = found.get(name, {})
        num_left -= sum(ends.values())
        stages.append(
            Stage(
                name=label(name),
                title=titles.get(name, ""),
                num_quarantined=ends.get("quarantined", 0),
                num_pending=ends.get("pending", 0),
                num_left=num_left,
            )
        )
    return tuple(stages), num_admitted


def _trained(inputs: Inputs) -> int | None:
    judged = {"judged": inputs.judged.select(["trace_id", "is_admitted"])}
    row = inputs.rows("trained", judged, run_id=inputs.run_id)[0]
    if row["num_replayed"] != row["num_trained"]:
        raise LakeError(
            f"run {inputs.run_id}: its updates read {row['num_replayed']:,} traces, of which it had admitted "
            f"{row['num_trained']:,}; expected only admitted ones. Do not promote what it trained, and report this"
        )
    return row["num_trained"] or None


def checks_of(inputs: Inputs) -> tuple[tuple[Check, ...], int]:
    """The gate table, the gravest first, and how many lines are beyond its limit."""
    held = sorted((row for row in inputs.findings if _is_held(row)), key=_gravity)
    trends = _trends(inputs)
    listed = tuple(_check(row, trends) for row in held[:MAX_CHECKS])
    return listed, len(held) - len(listed)


def _is_held(row: Row) -> bool:
    """Whether something is held to the finding; others belong to their section alone."""
    if row["threshold"] is not None:
        return True
    measure = MEASURES.get(row["name"])
    return row["status"] != "ok" and (measure is None or measure.comparison is not None)


def _gravity(row: Row) -> tuple[int, int, str, str]:
    status = status_of(row)
    felt: Status = row["severity"] if status == "not_measured" and row["severity"] != "info" else status
    names = list(MEASURES)
    position = names.index(row["name"]) if row["name"] in MEASURES else len(names)
    return STATUSES.index(felt), position, row["name"], row["subject"]


def _trends(inputs: Inputs) -> dict[tuple[str, str], list[TrendPoint]]:
    points: dict[tuple[str, str], list[TrendPoint]] = defaultdict(list)
    for row in inputs.rows("trend", {"nights": inputs.nights}, run_id=inputs.run_id):
        point = TrendPoint(night=label(row["night"]), value=rounded(row["value"]), status=row["status"])
        points[row["name"], row["subject"]].append(point)
    return points


def _check(row: Row, trends: dict[tuple[str, str], list[TrendPoint]]) -> Check:
    measure = MEASURES.get(row["name"])
    return Check(
        section=label(row["section"]),
        name=label(row["name"]),
        subject=label(row["subject"]),
        title=title_of(row["name"]),
        meaning="" if measure is None else measure.meaning,
        unit=label(row["unit"]),
        estimate=estimate_of(row),
        threshold=rounded(row["threshold"]),
        comparison=row["comparison"],
        severity=row["severity"],
        status=status_of(row),
        sentence=sentence(row["sentence"]),
        fix=sentence(row["fix"]),
        trend=tuple(trends[row["name"], row["subject"]]),
    )


_SENTENCES: dict[Decision, str] = {
    "go": "Nothing crossed a bound that stops training or promotion.",
    "hold": "Something asks to train without promoting.",
    "no_go": "Something forbids training.",
    "skipped": "There was too little to train on, or nothing new.",
    "undecided": "The run has not come to a decision yet.",
}
_PREFIX = re.compile(r"(?:GO|HOLD|NO-GO|SKIPPED): ", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would change something, and what it is about."""

    about: str
    fix: str

    def __str__(self) -> str:
        return f"{self.about}: {self.fix}" if self.about else self.fix


def verdict_of(inputs: Inputs, checks: tuple[Check, ...], *, lever: Remedy | None) -> Verdict:
    """The decision, why, and the one action that would change it; `lever` is what would admit most traces.

    The gate's sentence names the decision and the action too; here each stands in its own place.
    """
    recorded = inputs.run["decision"]
    decision: Decision = recorded if recorded in _SENTENCES else "undecided"
    remedy = _remedy(decision, checks, lever)
    said = clipped(inputs.run["sentence"] or "", MAX_VERDICT_LENGTH)
    why = _PREFIX.sub("", said, count=1).removesuffix(remedy.fix).strip()
    return Verdict(decision=decision, sentence=why or _SENTENCES[decision], action=str(remedy))


def _remedy(decision: Decision, checks: tuple[Check, ...], lever: Remedy | None) -> Remedy:
    if decision in {"hold", "no_go"}:
        wanted = "stop" if decision == "no_go" else "hold"
        for check in checks:
            if _decides(check, wanted):
                return Remedy(check.title, check.fix)
    if decision == "undecided":
        return Remedy("", "Let the run come to its end, or start it again: it goes on where it stopped.")
    return lever or Remedy("", "Nothing: every judged trace was admitted.")


def _decides(check: Check, wanted: str) -> bool:
    """Whether the check made the decision: it crossed the bound, or could not be measured although it had to be."""
    if check.name == ADMITTED_TRACES or not check.fix:
        return False
    is_missing = check.status == "not_measured" and check.severity in {"hold", "stop"}
    return check.status == wanted or (wanted == "hold" and is_missing)
