"""Counts that must add up: the waterfall of lines, calls and traces, and the refusal when it does not."""

from __future__ import annotations

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from schemas.errors import LakeError

CLOSED = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)
"""How every record of the report is checked: its own fields only, plain finite numbers, docstrings published."""


def balance(what: str, whole: int, *parts: int) -> None:
    """Refuse counts that do not add up; a report that lost a row must not be read."""
    if whole != sum(parts):
        shown = " + ".join(f"{part:,}" for part in parts)
        raise LakeError(
            f"the report's {what} do not add up: {whole:,} went in and {shown} = {sum(parts):,} are accounted for; "
            "expected the same number. Rows were lost or counted twice: run `tracemill doctor`, and ingest the files "
            "that it names again"
        )


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class LineCounts:
    """What became of the lines of one file, or of many."""

    num_lines: int
    """Lines read."""
    num_landed: int
    """Lines that became calls or outcomes."""
    num_duplicates: int
    """Lines whose content had landed before."""
    num_rejects: int
    """Lines that could not be read; each has a row in `rejects`."""
    num_blank: int
    """Lines of white space only."""

    def __post_init__(self) -> None:
        """Refuse a line that ended in no state or in two."""
        balance("lines", self.num_lines, self.num_landed, self.num_duplicates, self.num_rejects, self.num_blank)


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class SourceFile:
    """One input file, all its readings together."""

    uri: str
    """Where it was read."""
    content_kind: str
    """`calls` or `outcomes`."""
    content_sha256: str
    """SHA-256 of the decompressed bytes that were read."""
    num_bytes: int
    """Decompressed bytes read."""
    counts: LineCounts
    """What became of its lines."""
    notes: tuple[str, ...] = ()
    """What was odd about the file, as reason codes."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Stage:
    """One stage of the gate: how many traces ended there."""

    name: str
    """Code of the stage."""
    title: str
    """What the stage asks of a trace."""
    num_quarantined: int
    """Traces kept out here, for a fault."""
    num_pending: int
    """Traces that wait here and are judged again."""
    num_left: int
    """Traces that go on to the next stage."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Waterfall:
    """Every line and every trace, each in exactly one place; it refuses counts that do not add up."""

    files: tuple[SourceFile, ...]
    """The input files, or the largest of them."""
    num_files_not_listed: int
    """Files beyond those listed; the totals include their lines."""
    call_lines: LineCounts
    """All lines of call logs."""
    outcome_lines: LineCounts
    """All lines of outcome files."""
    num_lines_erased: int
    """Landed call lines whose calls were erased since, at a user's request."""
    num_lines_with_calls: int
    """Landed call lines whose calls are in the lake."""
    num_calls: int
    """Calls in the lake; a line with several choices holds several."""
    num_traces: int
    """Traces that these calls belong to."""
    num_not_assembled: int
    """Traces whose calls are in the lake but which are not put together yet."""
    num_not_judged: int
    """Traces that are put together but that this run's gate did not judge."""
    num_judged: int
    """Traces that this run's gate judged."""
    stages: tuple[Stage, ...]
    """What became of the judged traces, in the order of the gate."""
    num_admitted: int
    """Traces that passed every stage."""
    num_trained: int | None
    """Admitted traces that an update of this run read; null when no update ran."""

    def __post_init__(self) -> None:
        """Refuse a line, a call or a trace that is in no place or in two."""
        balance("landed lines", self.call_lines.num_landed, self.num_lines_with_calls, self.num_lines_erased)
        balance("traces", self.num_traces, self.num_not_assembled, self.num_not_judged, self.num_judged)
        entered = self.num_judged
        for stage in self.stages:
            balance(f"traces at {stage.name!r}", entered, stage.num_quarantined, stage.num_pending, stage.num_left)
            entered = stage.num_left
        balance("traces after the last stage", entered, self.num_admitted)
        if self.num_trained is not None:
            balance("admitted traces", self.num_admitted, self.num_trained, self.num_not_trained)

    @property
    def num_not_trained(self) -> int:
        """Admitted traces that no update of this run read."""
        return max(0, self.num_admitted - (self.num_trained or 0))
