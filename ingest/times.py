"""Times in logs and outcomes, read strictly."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from schemas.errors import LineError

_EPOCH_TEXT = re.compile(r"\d{9,19}(\.\d+)?", re.ASCII)

_OLDEST, _NEWEST = 946_684_800, 4_102_444_800
"""2000-01-01 and 2100-01-01 in epoch seconds. Between them seconds, milli-, micro- and nanoseconds cannot be
mistaken for each other: the ranges do not overlap."""

_UNITS = (1, 1_000, 1_000_000, 1_000_000_000)


def parse_time(value: str | float, field: str) -> datetime:
    """The UTC time that an ISO 8601 text with an offset or an epoch number says.

    Epoch numbers may be seconds, milli-, micro- or nanoseconds. A time without an offset is refused as `bad_time`:
    nobody knows whose local time it is.
    """
    if isinstance(value, str):
        text = value.strip()
        if not _EPOCH_TEXT.fullmatch(text):
            return _from_iso(text, field)
        value = float(text) if "." in text else int(text)
    return _from_epoch(value, field)


def time_or_none(value: object, field: str) -> datetime | None:
    """The time that a value of any type says; None where there is none: null, an empty text, 0, which exporters write.

    Raises LineError (`bad_time`) for a value that is neither a text nor a number, and as `parse_time` does.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        raise LineError(
            "bad_time", f"{field} is a {type(value).__name__}; expected ISO 8601 with an offset or epoch seconds"
        )
    return None if value in (None, "", 0, "0") else parse_time(value, field)


def _from_iso(text: str, field: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise LineError(
            "bad_time", f"{field} is {text[:60]!r}; expected ISO 8601 with an offset or epoch seconds: mend the writer"
        ) from error
    if moment.tzinfo is None:
        raise LineError(
            "bad_time",
            f"{field} is {text[:60]!r}, which has no time zone; expected an offset such as Z: mend the writer",
        )
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise LineError(
            "bad_time", f"{field} is {text[:60]!r}, outside the years 1 to 9999: mend the writer"
        ) from error


def _from_epoch(value: float, field: str) -> datetime:
    for unit in _UNITS:
        if _OLDEST * unit <= value < _NEWEST * unit:
            if isinstance(value, int):
                whole, rest = divmod(value, unit)
                return datetime.fromtimestamp(whole, UTC).replace(microsecond=rest * 1_000_000 // unit)
            return datetime.fromtimestamp(value / unit, UTC)
    raise LineError(
        "bad_time", f"{field} is {value!r}; expected an epoch number of the years 2000 to 2099: mend the writer"
    )
