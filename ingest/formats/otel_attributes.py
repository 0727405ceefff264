"""OTLP/JSON attributes as plain values, and the ids of tracing systems in one spelling."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any

from schemas.errors import LineError

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8


def decode_attributes(attributes: object, field: str = "attributes") -> dict[str, Any]:
    """The attributes of an OTLP/JSON record by key: `{"key", "value": {"stringValue" | "intValue" | ...}}`.

    64-bit integers come as decimal text or as numbers and stay exact; `bytesValue` becomes bytes, an empty value
    None. A key that stands twice is refused: nothing says which one counts.
    """
    found: dict[str, Any] = {}
    for entry in _listed(attributes, field):
        key = entry.get("key") if isinstance(entry, Mapping) else None
        if not isinstance(key, str):
            raise LineError("bad_field", f"an entry of {field} has no key; expected key and value: mend the exporter")
        if key in found:
            raise LineError("duplicate_key", f"the key {key[:60]!r} stands twice in {field}; expected it once")
        found[key] = decode_value(entry.get("value"), key)
    return found


def decode_value(value: object, field: str) -> Any:
    """One OTLP/JSON value; raises LineError for one of another form."""
    if value is None or value == {}:
        return None
    if not isinstance(value, Mapping) or len(value) != 1:
        raise LineError("bad_field", f"{field[:60]} is no OTLP value; expected one of stringValue, intValue, ...")
    ((kind, inner),) = value.items()
    decode = _DECODERS.get(kind)
    if decode is None:
        raise LineError("bad_field", f"{field[:60]} is a {str(kind)[:40]!r}; expected a value of OTLP/JSON")
    return decode(inner, field)


def hex_id(value: object, num_bytes: int, field: str) -> str | None:
    """A trace id (16 bytes) or span id (8 bytes) as lower-case hex; None where it is missing, empty or all zero.

    Read are hex in any case, a UUID with dashes, `tr-` or `0x` before hex, and base64 of the bytes. They cannot be
    mistaken for each other, for their lengths differ. Anything else is refused.
    """
    if value is None or value == "":
        return None
    raw = _id_bytes(value, num_bytes) if isinstance(value, str) else None
    if raw is None:
        raise LineError(
            "bad_field",
            f"{field} is {str(value)[:60]!r}; expected {num_bytes} bytes as hex or base64: mend the exporter",
        )
    return raw.hex() if any(raw) else None


def spelled_id(value: object, num_bytes: int) -> object:
    """An id in the spelling of `hex_id` where it is one, else as it is: some systems allow names of any form."""
    raw = _id_bytes(value, num_bytes) if isinstance(value, str) else None
    return value if raw is None else raw.hex()


def _id_bytes(text: str, num_bytes: int) -> bytes | None:
    plain = text.removeprefix("tr-").removeprefix("0x")
    if num_bytes == TRACE_ID_BYTES and re.fullmatch(r"[^-]{8}(-[^-]{4}){3}-[^-]{12}", plain):
        plain = plain.replace("-", "")
    if re.fullmatch(rf"[0-9a-fA-F]{{{2 * num_bytes}}}", plain, re.ASCII):
        return bytes.fromhex(plain)
    if len(text) != 4 * -(-num_bytes // 3) or not text.endswith("="):
        return None
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == num_bytes else None


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise _unlike(value, field, "a text")
    return value


def _integer(value: object, field: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    raise _unlike(value, field, "a whole number")


def _double(value: object, field: str) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise _unlike(value, field, "a double") from error
    raise _unlike(value, field, "a number")


def _truth(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise _unlike(value, field, "true or false")
    return value


def _bytes(value: object, field: str) -> bytes:
    try:
        return base64.b64decode(_text(value, field), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _unlike(value, field, "base64") from error


def _array(value: object, field: str) -> list[Any]:
    return [decode_value(one, field) for one in _values(value, field)]


def _pairs(value: object, field: str) -> dict[str, Any]:
    return decode_attributes(_values(value, field), field)


def _values(value: object, field: str) -> Iterable[Any]:
    if not isinstance(value, Mapping):
        raise _unlike(value, field, "an object with values")
    return _listed(value.get("values"), field)


def _listed(value: object, field: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _unlike(value, field, "a list")
    return value


def _unlike(value: object, field: str, expected: str) -> LineError:
    return LineError("bad_field", f"{field[:60]} is {str(value)[:40]!r}; expected {expected}: mend the exporter")


_DECODERS = {
    "stringValue": _text,
    "intValue": _integer,
    "doubleValue": _double,
    "boolValue": _truth,
    "bytesValue": _bytes,
    "arrayValue": _array,
    "kvlistValue": _pairs,
}
