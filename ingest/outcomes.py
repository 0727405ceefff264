"""Late scores as rows of `outcomes`: CSV with a header, or JSON lines, told apart by the first line."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ingest.formats.strict import repair
from ingest.times import parse_time
from schemas.errors import LineError
from schemas.tables import table

if TYPE_CHECKING:
    from ingest.land import Placed
    from ingest.lines import Line

SOURCE_KINDS = ("human", "program", "judge", "user", "webhook")
JOIN_KEYS = ("trace_id", "call_id", "response_id", "business_key")

_SCHEMA = table("outcomes").schema
_REQUIRED = ("name", "value", "source_kind", "source", "event_time")
_OPTIONAL = ("event_id", *JOIN_KEYS, "scorer_version", "observed_time")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WORDS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One score event; `value` is None when the event withdraws an earlier one."""

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
    event_time: datetime
    observed_time: datetime

    @property
    def item_id(self) -> str:
        """Hash of what the sender said; when it reached us does not enter, so a second delivery is the same event."""
        said = [getattr(self, name) for name in self.__slots__ if name != "observed_time"]
        return hashlib.sha256(json.dumps(said, default=datetime.isoformat).encode()).hexdigest()[:32]


class OutcomeSource:
    """Reads lines of one score file after the other."""

    content_kind = "outcomes"
    known_query = "ingest/known_outcomes"

    def __init__(self) -> None:
        self._header: list[str] | None = None
        self._is_json: bool | None = None

    def begin(self, head: bytes) -> None:
        """Learn the form of the file from the part that was read before, if any."""
        self._header = self._is_json = None
        first = next((line for line in head.splitlines() if line.strip()), None)
        if first is not None:
            self._learn(first)

    def read(self, line: Line) -> tuple[Outcome, ...] | None:
        """The outcome of one line; None for the header of a CSV file."""
        if self._is_json is None and not self._learn(line.text) and line.is_terminated:
            return None
        if self._is_json:
            return (outcome_from(_json_fields(line.text)),)
        if not line.is_terminated:
            raise LineError("truncated_tail", "a CSV file ends in a newline, or its last number may have lost digits")
        return (outcome_from(self._csv_fields(line.text)),)

    def _learn(self, first: bytes) -> bool:
        """Take the first line for what it is; false when it is a header."""
        self._is_json = first.lstrip().startswith(b"{")
        if not self._is_json:
            self._header = [name.strip() for name in _cells(first)]
        return self._is_json

    def _csv_fields(self, text: bytes) -> Mapping[str, str]:
        header, cells = self._header or [], _cells(text)
        missing = [name for name in _REQUIRED if name not in header]
        if missing or len(set(header)) < len(header):
            raise LineError(
                "schema_unknown",
                f"the header lacks {', '.join(missing) or 'nothing but names a column twice'}; expected "
                f"{', '.join(_REQUIRED)} and one of {', '.join(JOIN_KEYS)}, each once, separated by commas",
            )
        if len(cells) != len(header):
            raise LineError(
                "bad_field", f"{len(cells)} cells for {len(header)} columns; expected one each: quote cells with commas"
            )
        return dict(zip(header, cells, strict=True))

    def rows(self, landed: Sequence[Placed], now: datetime) -> pa.Table:
        """The outcomes as columns of `outcomes`."""
        columns: dict[str, Any] = {name: [getattr(p.item, name) for p in landed] for name in Outcome.__slots__}
        columns["outcome_id"] = [placed.item.item_id for placed in landed]
        columns["uri"] = [placed.uri for placed in landed]
        columns["byte_offset"] = [placed.byte_offset for placed in landed]
        columns["line_sha256"] = [placed.line_sha256 for placed in landed]
        columns["ingested_at"] = [now] * len(landed)
        return pa.table({name: pa.array(values, _SCHEMA.field(name).type) for name, values in columns.items()})


def outcome_from(fields: Mapping[str, Any]) -> Outcome:
    """The score event that these fields state; raises LineError for one that cannot be used."""
    if "value" not in fields:
        raise LineError("bad_value", "value is missing; expected a number, true, false, or null to withdraw a score")
    texts = {name: _text(fields, name) for name in (*_OPTIONAL, "name", "source", "source_kind")}
    if all(texts[name] is None for name in JOIN_KEYS):
        raise LineError("no_join_key", f"none of {', '.join(JOIN_KEYS)} is there; expected one at least")
    if texts["source_kind"] not in SOURCE_KINDS:
        raise LineError(
            "bad_source_kind", f"source_kind is {texts['source_kind']!r}; expected one of {', '.join(SOURCE_KINDS)}"
        )
    event_time = _time(fields, "event_time")
    if event_time is None:
        raise LineError("bad_time", "event_time is missing; expected ISO 8601 with an offset or epoch seconds")
    return Outcome(
        event_id=texts["event_id"],
        trace_id=texts["trace_id"],
        call_id=texts["call_id"],
        response_id=texts["response_id"],
        business_key=texts["business_key"],
        name=_needed(texts, "name"),
        value=_value(fields["value"]),
        source_kind=_needed(texts, "source_kind"),
        source=_needed(texts, "source"),
        scorer_version=texts["scorer_version"],
        event_time=event_time,
        observed_time=_time(fields, "observed_time") or event_time,
    )


def _value(value: object) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    number: float | None = None
    if isinstance(value, str):
        text = value.strip().lower()
        number = _WORDS.get(text, float(text) if _NUMBER.fullmatch(text) else None)
    elif isinstance(value, bool | int | float):
        number = float(value) if abs(value) <= sys.float_info.max else None
    if number is None or not isfinite(number):
        raise LineError(
            "bad_value", f"value is {str(value)[:40]!r}; expected a number with a decimal point, true, false or nothing"
        )
    return number


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
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise LineError("bad_time", f"{name} is a {type(value).__name__}; expected ISO 8601 with an offset")
    return parse_time(value, name)


def _json_fields(text: bytes) -> Mapping[str, Any]:
    """The fields of one JSON object; NaN and the like are refused here, for a score is a number or it is not."""
    repaired, notes = repair(text)
    if "nonfinite_number" in notes:
        raise LineError("bad_value", "a number is NaN or infinite; expected a finite score, or null to withdraw one")
    fields = json.loads(repaired)
    if not isinstance(fields, dict):
        raise LineError(
            "schema_unknown", f"a JSON {type(fields).__name__}; expected an object with the fields of an outcome"
        )
    return fields


def _cells(text: bytes) -> list[str]:
    """The cells of one CSV line; a cell with a line break in it is refused: each line is one event."""
    try:
        return next(csv.reader([text.rstrip(b"\r").decode("utf-8")], strict=True), [])
    except UnicodeDecodeError as error:
        raise LineError("bad_unicode", f"byte {error.start} is no UTF-8; expected UTF-8: mend the writer") from error
    except csv.Error as error:
        raise LineError("bad_field", f"{error}; expected one event a line, quotes doubled within quotes") from error
