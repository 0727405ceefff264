"""One outcome a line, its fields named as the columns of `outcomes`."""

from __future__ import annotations

from ingest.formats.format import Format, Keys
from ingest.formats.score_line import fields_of
from ingest.outcome import Outcome, outcome_from
from ingest.words import WordSettings

NAME = "outcome"


def claims(keys: Keys) -> bool:
    """Whether the keys are those of an outcome."""
    return "source_kind" in keys or {"name", "event_time"} <= keys.keys()


def format_of(words: WordSettings) -> Format:
    """The format, with what labels are worth."""

    def read(line: bytes) -> tuple[Outcome, ...]:
        return (outcome_from(fields_of(line), words),)

    return Format(NAME, claims, read, tells_apart=False)
