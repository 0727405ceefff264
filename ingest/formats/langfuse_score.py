"""Langfuse scores: one object a line, as its API and its exports give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.formats.format import Format, Keys
from ingest.formats.otel_attributes import SPAN_ID_BYTES, TRACE_ID_BYTES, spelled_id
from ingest.formats.score_line import fields_of
from ingest.outcome import Outcome, outcome_from
from ingest.words import USUAL, WordSettings
from schemas.errors import LineError
from schemas.outcome import SourceKind

NAME = "langfuse_score"

KINDS: dict[str, SourceKind] = {"ANNOTATION": "human", "API": "program", "EVAL": "judge"}
"""Who scores, by the score's `source`."""

_TYPES = ("NUMERIC", "BOOLEAN", "CATEGORICAL")
_NO_REWARD = ("CORRECTION", "TEXT")
"""Types that say nothing in numbers: a correction's value is always 0."""


def claims(keys: Keys) -> bool:
    """Whether the keys are those of a score."""
    return {"dataType", "name"} <= keys.keys() and ("value" in keys or "stringValue" in keys)


def score_outcome(score: Mapping[str, Any], words: WordSettings = USUAL) -> Outcome | None:
    """The outcome that a Langfuse score states; None for a correction or a text, which is no reward.

    A categorical score is worth what `words` says of its label: its own value is 0, or a number of the category's
    that no one need have meant as a reward. A score that is updated in place is a later event, at `updatedAt`.
    """
    kind = score.get("dataType")
    if kind in _NO_REWARD:
        return None
    if kind not in _TYPES:
        raise LineError(
            "bad_field", f"dataType is {str(kind)[:40]!r}; expected one of {', '.join((*_TYPES, *_NO_REWARD))}"
        )
    value, label = score.get("value"), score.get("stringValue")
    if kind == "CATEGORICAL":
        if not label:
            raise LineError("bad_value", "a categorical score without stringValue; expected its category")
        value = None
    elif isinstance(value, bool) or not isinstance(value, int | float) or (kind == "BOOLEAN" and value not in (0, 1)):
        expected = "0 or 1" if kind == "BOOLEAN" else "a number"
        raise LineError("bad_value", f"value is {str(value)[:40]!r} in a {kind} score; expected {expected}")
    fields = {
        "event_id": score.get("id"),
        "trace_id": spelled_id(score.get("traceId"), TRACE_ID_BYTES),
        "call_id": spelled_id(score.get("observationId"), SPAN_ID_BYTES),
        "session_id": score.get("sessionId"),
        "name": score.get("name"),
        "value": value,
        "label": label,
        "source_kind": words.kind_of("langfuse", score.get("source"), KINDS),
        "source": "langfuse",
        "event_time": score.get("updatedAt") or score.get("timestamp"),
    }
    return outcome_from(fields, words)


def format_of(words: WordSettings) -> Format:
    """The format, with what labels are worth."""

    def read(line: bytes) -> tuple[Outcome, ...]:
        outcome = score_outcome(fields_of(line), words)
        return () if outcome is None else (outcome,)

    return Format(NAME, claims, read, tells_apart=False)
