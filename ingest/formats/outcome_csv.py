"""Outcomes in CSV files: a header that names the columns, then one event a line."""

from __future__ import annotations

import csv
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ingest.csv_settings import FIELDS, CsvSettings
from ingest.outcome import JOIN_KEYS, REQUIRED, Outcome, outcome_from
from ingest.words import USUAL, WordSettings
from schemas.errors import LineError

if TYPE_CHECKING:
    from ingest.line import Line

NAME = "outcome_csv"
DELIMITERS = (",", ";", "\t")

LEAST_NAMES = 2
"""Known names that make a line a header: a word of a proxy's error page may be one by chance. Convention, untested."""

_TIMES = ("event_time", "observed_time")
_IDS = (*JOIN_KEYS, "event_id")
_ROUNDED = re.compile(r"\d(\.\d+)?[eE]\+?\d+", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?", re.ASCII)


class CsvReader:
    """Reads the lines of one CSV file after the other; `is_header` says which file is one."""

    def __init__(self, settings: CsvSettings | None = None, words: WordSettings = USUAL) -> None:
        self._settings = settings or CsvSettings()
        self._words = words
        self._names = {name: name for name in FIELDS} | self._settings.columns
        self._delimiter = DELIMITERS[0]
        self._fields: list[str] | None = None
        """The field of each column, "" for one that is not read; None before the header."""

    @property
    def has_header(self) -> bool:
        """Whether the header of the file was seen, so that the lines that follow are rows."""
        return self._fields is not None

    def is_header(self, line: bytes) -> bool:
        """Whether a line names two fields at least, and so begins a CSV file."""
        return self._header_of(line) is not None

    def begin(self, head: bytes) -> None:
        """A file begins; `head` is how its part that was read before begins, empty at a first reading."""
        self._fields = None
        first = next((line for line in head.split(b"\n") if line.strip()), None)
        if first is not None:
            self._learn(first)

    def read(self, line: Line) -> tuple[Outcome, ...] | None:
        """The outcome of one line; None for the header."""
        if not line.is_terminated:
            raise LineError("truncated_tail", "a CSV file ends in a newline, or its last number may have lost digits")
        if self._fields is None:
            if not self._learn(line.text):
                raise LineError("schema_unknown", f"no header with names such as {', '.join(REQUIRED)}; expected one")
            return None
        row = self._row(line.text, self._fields)
        return (outcome_from({name: self._meant(name, cell) for name, cell in row.items()}, self._words),)

    def _learn(self, line: bytes) -> bool:
        found = self._header_of(line)
        if found is not None:
            self._delimiter, self._fields = found
        return found is not None

    def _header_of(self, line: bytes) -> tuple[str, list[str]] | None:
        """The delimiter under which most names are known, and the field of each column; None for no header."""
        best, most = None, LEAST_NAMES - 1
        for delimiter in DELIMITERS:
            try:
                cells = [cell.strip() for cell in _cells(line, delimiter)]
            except LineError:
                continue
            fields = [self._names.get(cell, "") for cell in cells]
            known = len(fields) - fields.count("")
            if known > most:
                best, most = (delimiter, fields), known
        return best

    def _row(self, text: bytes, fields: list[str]) -> dict[str, str]:
        """The cells of a row by field, constants among them."""
        constants = {name: value for name, value in self._settings.constants.items() if name not in fields}
        known = [name for name in fields if name]
        stated = {*known, *constants}
        missing = [name for name in REQUIRED if name not in stated and not (name == "value" and "label" in stated)]
        if missing or len(set(known)) < len(known):
            raise LineError(
                "schema_unknown",
                f"the header lacks {', '.join(missing) or 'nothing but names a column twice'}; expected "
                f"{', '.join(REQUIRED)} and one of {', '.join(JOIN_KEYS)}, each once: state under [logs.csv] which "
                "column stands for which, and what is the same for all rows",
            )
        cells = _cells(text, self._delimiter)
        if len(cells) != len(fields):
            raise LineError(
                "bad_field",
                f"{len(cells)} cells for {len(fields)} columns; expected one each: quote cells that hold a "
                f"{self._delimiter!r}",
            )
        return constants | {name: cell for name, cell in zip(fields, cells, strict=True) if name}

    def _meant(self, name: str, cell: str) -> str | datetime:
        """What a cell means by the settings; raises LineError for one that a spreadsheet has spoilt."""
        text = cell.strip()
        if name == "value" and self._settings.decimal == ",":
            return _with_point(text)
        if name in _TIMES and text:
            return self._time(name, text)
        if name in _IDS and _ROUNDED.fullmatch(text):
            raise LineError(
                "bad_field",
                f"{name} is {text[:40]!r}, a number that a spreadsheet has rounded; expected the id as text",
            )
        return cell

    def _time(self, name: str, text: str) -> str | datetime:
        """A time as the settings write it; without a format as ISO 8601 or epoch seconds."""
        zone = self._settings.zone
        moment = self._moment(name, text)
        if moment is None:
            return text  # what was expected is said where times are read
        if moment.tzinfo is not None:
            return _in_utc(name, moment)
        if zone is None:
            raise LineError(
                "bad_time", f"{name} is {text[:60]!r}, which has no time zone; expected one: state logs.csv.timezone"
            )
        earlier, later = moment.replace(tzinfo=zone, fold=0), moment.replace(tzinfo=zone, fold=1)
        if earlier.utcoffset() != later.utcoffset():
            # The clock is put back or forward here: the time was twice, or never.
            raise LineError(
                "bad_time", f"{name} is {text[:60]!r}, which {self._settings.timezone} has twice or never; expected UTC"
            )
        return _in_utc(name, earlier)

    def _moment(self, name: str, text: str) -> datetime | None:
        """The time that a text writes, with its zone if it states one; None for epoch seconds and for no time."""
        form = self._settings.date_format
        try:
            if form is not None:
                return datetime.strptime(text, form)  # noqa: DTZ007 - the zone is stated apart from the format
            # Digits alone are epoch seconds, and Python would read some of them as a date.
            return None if text.replace(".", "", 1).isdecimal() else datetime.fromisoformat(text)
        except ValueError as error:
            if form is None:
                return None
            raise LineError(
                "bad_time", f"{name} is {text[:60]!r}; expected {form!r} as logs.csv.date_format says"
            ) from error


def _in_utc(name: str, moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise LineError("bad_time", f"{name} is {moment}, outside the years 1 to 9999: mend the writer") from error


def _with_point(text: str) -> str:
    """A number with a decimal comma, with a point; one with a point is refused, for it may be a thousand."""
    if _DECIMAL_COMMA.fullmatch(text):
        return text.replace(",", ".")
    if "." in text and text.strip("+-.,0123456789eE") == "":
        raise LineError("bad_value", f"value is {text[:40]!r}; expected a decimal comma, as logs.csv.decimal says")
    return text


def _cells(text: bytes, delimiter: str) -> list[str]:
    """The cells of one line; a cell with a line break in it is refused: each line is one event."""
    try:
        decoded = text.rstrip(b"\r").decode("utf-8")
        return next(csv.reader([decoded], strict=True, delimiter=delimiter), [])
    except UnicodeDecodeError as error:
        raise LineError("bad_unicode", f"byte {error.start} is no UTF-8; expected UTF-8: mend the writer") from error
    except csv.Error as error:
        raise LineError("bad_field", f"{error}; expected one event a line, quotes doubled within quotes") from error
