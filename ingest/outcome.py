"""One score event: what it states, and when it is refused."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any, get_args

from ingest.times import parse_time
from ingest.words import USUAL, WordSettings
from schemas.errors import LineError
from schemas.outcome import SourceKind

SOURCE_KINDS: tuple[str, ...] = get_args(SourceKind)
JOIN_KEYS = ("trace_id", "call_id", "response_id", "session_id", "business_key")

REQUIRED = ("name", "value", "source_kind", "source", "event_time")
OPTIONAL = ("event_id", *JOIN_KEYS, "label", "scorer_version", "observed_time")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WORDS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One score event.

    `value` is None when the event withdraws an earlier one. `event_time` is None when the event has no time of its
    own; landing it fills in the time of reading, and its identity stays the same.
    """

    event_id: str | None
    trace_id: str | None
    call_id: str | None
    response_id: str | None
    business_key: str | None
    name: str
    value: float | None
    source_kind: str
    source: str
    scorer_version: str | None
    event_time: datetime | None
    observed_time: datetime | None
    session_id: str | None = None
    label: str | None = None
    word: str | None = None
    """The label that `value` was looked up for; None where the event states the number itself. No column."""

    table = "outcomes"

    @property
    def item_id(self) -> str:
        """Hash of what the sender said; when it reached us does not enter, so a second delivery is the same event.

        A number that a label stands for does not enter, but the label: what it is worth may be stated otherwise later.
        What version 1 did not read follows behind a dot, so that an event that it landed is still known by the part
        before it (warehouse/sql/ingest/known_outcomes.sql). An event without a time ends in `.untimed`: no order is
        known among several, and those that differ are a conflict.
        """
        stated = None if self.word is not None else self.value
        said = [stated if name == "value" else getattr(self, name) for name in _SAID]
        later = [[name, getattr(self, name)] for name in _SAID_LATER if getattr(self, name) is not None]
        parts = [
            _hash(said),
            *([_hash(later)[:16]] if later else []),
            *(["untimed"] if self.event_time is None else []),
        ]
        return ".".join(parts)


_SAID = (
    "event_id",
    "trace_id",
    "call_id",
    "response_id",
    "business_key",
    "name",
    "value",
    "source_kind",
    "source",
    "scorer_version",
    "event_time",
)
"""What version 1 read, in its order: its identities are of just that."""
_SAID_LATER = ("session_id", "label", "word")


def _hash(said: list[Any]) -> str:
    return hashlib.sha256(json.dumps(said, default=datetime.isoformat).encode()).hexdigest()[:32]


def outcome_from(fields: Mapping[str, Any], words: WordSettings = USUAL, *, needs_time: bool = True) -> Outcome:
    """The score event that these fields state; raises LineError for one that cannot be used.

    A text that is no number, and a label without a value, is worth what `words` says of it, or refused. An event
    without a time is refused unless its format has none.
    """
    texts = {name: _text(fields, name) for name in (*OPTIONAL, "name", "source", "source_kind")}
    value, label, word = _value_and_label(fields, texts["name"], texts["label"], words)
    if all(texts[name] is None for name in JOIN_KEYS):
        raise LineError("no_join_key", f"none of {', '.join(JOIN_KEYS)} is there; expected one at least")
    if texts["source_kind"] not in SOURCE_KINDS:
        raise LineError(
            "bad_source_kind", f"source_kind is {texts['source_kind']!r}; expected one of {', '.join(SOURCE_KINDS)}"
        )
    event_time = _time(fields, "event_time")
    if event_time is None and needs_time:
        raise LineError("bad_time", "event_time is missing; expected ISO 8601 with an offset or epoch seconds")
    return Outcome(
        event_id=texts["event_id"],
        trace_id=texts["trace_id"],
        call_id=texts["call_id"],
        response_id=texts["response_id"],
        business_key=texts["business_key"],
        name=_needed(texts, "name"),
        value=value,
        source_kind=_needed(texts, "source_kind"),
        source=_needed(texts, "source"),
        scorer_version=texts["scorer_version"],
        event_time=event_time,
        observed_time=_time(fields, "observed_time") or event_time,
        session_id=texts["session_id"],
        label=label,
        word=word,
    )


def _value_and_label(
    fields: Mapping[str, Any], name: str | None, label: str | None, words: WordSettings
) -> tuple[float | None, str | None, str | None]:
    """The number, the label, and the label that the number was looked up for where no number is stated."""
    value = fields.get("value")
    if isinstance(value, str):
        value = value.strip() or None
    if value is None:
        if label is not None:
            return words.number_of(name, label), label, label
        if "value" not in fields:
            raise LineError(
                "bad_value", "value is missing; expected a number, true, false, or null to withdraw a score"
            )
        return None, None, None
    number = _number(value)
    if number is not None:
        return number, label, None
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return words.number_of(name, value), label or value, value
    raise LineError(
        "bad_value", f"value is {str(value)[:40]!r}; expected a number with a decimal point, true, false or nothing"
    )


def _number(value: object) -> float | None:
    """The finite number that a number, a truth or a text says; None where it says none."""
    if isinstance(value, str):
        text = value.lower()
        number = _WORDS.get(text, float(text) if _NUMBER.fullmatch(text) else None)
    elif isinstance(value, bool | int | float):
        number = float(value) if abs(value) <= sys.float_info.max else None
    else:
        return None
    return number if number is not None and isfinite(number) else None


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise LineError("bad_field", f"{name} is a {type(value).__name__}; expected a text")
    if isinstance(value, str) and "\x00" in value:
        raise LineError("bad_field", f"{name} holds a NUL character; expected a printable text: mend the writer")
    return str(value)


def _needed(texts: Mapping[str, str | None], name: str) -> str:
    value = texts[name]
    if value is None:
        raise LineError("bad_field", f"{name} is missing; expected a text")
    return value


def _time(fields: Mapping[str, Any], name: str) -> datetime | None:
    value = fields.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise LineError("bad_time", f"{name} is a {type(value).__name__}; expected ISO 8601 with an offset")
    return parse_time(value, name)
