"""The slow path: what exactly is wrong with a line that strict decoding refused, and what of it can be kept."""

from __future__ import annotations

import json
import re
from typing import Any

from schemas.errors import LineError

_SURROGATE = re.compile("[\ud800-\udfff]")


def repair(line: bytes) -> tuple[bytes, tuple[str, ...]]:
    """The line as strict JSON, and notes on what was changed, as reason codes.

    NaN, infinities and numbers beyond a double are read as missing (`nonfinite_number`), halves of surrogate pairs
    as U+FFFD (`lone_surrogate`). A line that is not UTF-8, not JSON, or names a key twice is refused (`LineError`)
    with the place.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineError(
            "bad_unicode",
            f"byte {error.start} is {line[error.start : error.start + 1]!r}; expected UTF-8: mend the writer",
        ) from error
    notes: set[str] = set()
    try:
        document = json.loads(
            text,
            parse_constant=lambda _: notes.add("nonfinite_number"),
            parse_float=lambda digits: _finite(digits, notes),
            object_pairs_hook=_without_duplicates,
        )
        document = _without_surrogates(document, notes)
        return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(), tuple(
            sorted(notes)
        )
    except json.JSONDecodeError as error:
        raise LineError("bad_json", f"{error.msg} at character {error.pos}; expected one JSON object a line") from error
    except LineError:
        raise
    except RecursionError as error:
        raise LineError("bad_json", "nested too deeply to be read; expected a few levels: mend the writer") from error
    except ValueError as error:  # an integer of more digits than Python converts
        raise LineError("bad_json", f"{error}; expected numbers of a normal size: mend the writer") from error


def _finite(digits: str, notes: set[str]) -> float | None:
    value = float(digits)
    if abs(value) == float("inf"):
        notes.add("nonfinite_number")
        return None
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _duplicate(name)
            seen.add(name)
    return found


def _duplicate(name: str) -> LineError:
    return LineError(
        "duplicate_key", f"the key {name[:60]!r} stands twice in one object; expected it once: mend the writer"
    )


def _without_surrogates(value: Any, notes: set[str]) -> Any:
    if isinstance(value, str):
        if _SURROGATE.search(value):
            notes.add("lone_surrogate")
            return _SURROGATE.sub("\ufffd", value)
        return value
    if isinstance(value, list):
        return [_without_surrogates(part, notes) for part in value]
    if isinstance(value, dict):
        pairs = [(_without_surrogates(key, notes), _without_surrogates(part, notes)) for key, part in value.items()]
        return _without_duplicates(pairs)  # two keys may be one without their surrogates
    return value
