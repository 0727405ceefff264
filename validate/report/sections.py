"""The sections of the page: their order, their titles, and how each stands."""

from __future__ import annotations

from dataclasses import dataclass

from validate.report.data import Decision, Report
from validate.report.evidence import Status

STATUSES: tuple[Status, ...] = ("stop", "hold", "warn", "not_measured", "ok", "info")
"""From the gravest to the quietest."""

_HOMES = {
    "admission": "waterfall",
    "structure": "masks",
    "logprobs": "logprobs",
    "canary": "logprobs",
    "staleness": "staleness",
    "rewards": "rewards",
    "judge": "judge",
    "duplicates": "concentration",
    "regime": "updates",
}
"""In which section of the page a finding of each section of the catalog is at home."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How a status or a decision is shown: by a sign and a word, so that colour is never alone."""

    sign: str
    word: str
    meaning: str


STATUS_MARKS: dict[Status, Mark] = {
    "ok": Mark("\u2713", "ok", "within its bound"),
    "info": Mark("\u00b7", "info", "nothing is held to it"),
    "warn": Mark("\u25b2", "warn", "worth a look; stops nothing"),
    "hold": Mark("\u2016", "hold", "training goes on, promotion does not"),
    "stop": Mark("\u2715", "stop", "nothing is trained"),
    "not_measured": Mark("\u25cb", "not measured", "unknown, which is never good news"),
}
"""The sign and the word of each status."""

DECISION_MARKS: dict[Decision, Mark] = {
    "go": Mark("\u2713", "GO", "Train, and promote if the evaluation agrees."),
    "hold": Mark("\u2016", "HOLD", "Train, but do not promote."),
    "no_go": Mark("\u2715", "NO-GO", "Do not train."),
    "skipped": Mark("\u2013", "SKIPPED", "Nothing was trained: there was too little to train on, or nothing new."),
    "undecided": Mark("\u25cb", "UNDECIDED", "The run has not come to a decision yet."),
}
"""The sign and the word of each decision."""


@dataclass(frozen=True, slots=True)
class SectionEntry:
    """One entry of the table of contents."""

    anchor: str
    title: str
    status: Status


_TITLES = (
    ("waterfall", "Waterfall"),
    ("gate", "Gate"),
    ("logprobs", "Log-probabilities"),
    ("masks", "Masks and length"),
    ("staleness", "Staleness"),
    ("rewards", "Rewards"),
    ("judge", "Judge"),
    ("concentration", "Duplicates and users"),
    ("updates", "Updates"),
    ("quarantine", "Quarantine"),
    ("lineage", "Lineage"),
)


def sections_of(report: Report) -> dict[str, SectionEntry]:
    """Every section by its anchor, with the gravest status among its findings."""
    found: dict[str, Status] = {}
    for check in report.checks:
        for anchor in {_HOMES.get(check.section, "gate"), "gate"}:
            found[anchor] = gravest(found.get(anchor, "info"), check.status)
    if not report.judge.is_measured:
        found["judge"] = gravest(found.get("judge", "info"), "not_measured")
    return {anchor: SectionEntry(anchor, title, found.get(anchor, "info")) for anchor, title in _TITLES}


def gravest(one: Status, other: Status) -> Status:
    """Whichever of the two is the graver."""
    return min(one, other, key=STATUSES.index)


def marks_of(report: Report) -> dict[str, Mark]:
    """How each status is shown, and the report's decision."""
    return {str(status): mark for status, mark in STATUS_MARKS.items()} | {
        "decision": DECISION_MARKS[report.verdict.decision]
    }
