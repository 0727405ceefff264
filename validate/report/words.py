"""Numbers and foreign text as the page shows them: one way to write each, everywhere."""

from __future__ import annotations

import math
import unicodedata

from markupsafe import escape

NOT_MEASURED = "NOT MEASURED"
"""What stands where a number could not be computed."""

_MINUS = "\u2212"
_MOST_BYTES = 10  # a spelled out character beyond the first 65,536
_BARE_UNITS = {"", "share", "reward"}
"""Units that are not written: the number says all."""


def count(number: int | None) -> str:
    """A whole number with thousands separators."""
    return NOT_MEASURED if number is None else f"{number:,}".replace("-", _MINUS)


def share(value: float | None) -> str:
    """A share as a percentage; 0% and 100% are written only when nothing or everything is meant."""
    if value is None:
        return NOT_MEASURED
    percent = 100.0 * value
    if value in {0.0, 1.0}:
        return f"{percent:.0f}%"
    if 0.0 < abs(percent) < 0.01:
        return f"{_MINUS if value < 0 else ''}<0.01%"
    digits = 2 if abs(percent) < 1.0 or 99.0 < percent < 100.0 else 1
    text = f"{percent:.{digits}f}"
    if 0.0 < value < 1.0 and float(text) >= 100.0:
        return ">99.99%"
    return text.replace("-", _MINUS) + "%"


def ratio_of(part: int, whole: int) -> str:
    """`part` of `whole` as a percentage, a dash when there is no whole."""
    return share(part / whole) if whole else "\u2013"


def measure(value: float | None, unit: str = "") -> str:
    """A measurement with three significant digits and its unit."""
    if value is None:
        return NOT_MEASURED
    if unit == "share":
        return share(value)
    if unit not in _BARE_UNITS and unit != "nats" and value == round(value):
        text = count(round(value))
    else:
        text = _significant(value)
    return text if unit in _BARE_UNITS else f"{text}\u00a0{unit}"


def amount(value: float | None) -> str:
    """A number of things that may be an average: whole when it is whole."""
    if value is None:
        return NOT_MEASURED
    return count(round(value)) if value == round(value) else _significant(value)


def bound(value: float, unit: str = "") -> str:
    """A bound as somebody set it: as short as it can be written."""
    if unit == "share":
        return f"{100 * value:g}%".replace("-", _MINUS)
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
    return text.replace("-", _MINUS) if unit in _BARE_UNITS else f"{text.replace('-', _MINUS)}\u00a0{unit}"


def interval(lower: float | None, upper: float | None, unit: str = "") -> str:
    """An interval in brackets, in the unit's way of writing; nothing when there is none."""
    if lower is None or upper is None:
        return ""
    if unit == "share":
        return f"[{share(lower)}, {share(upper)}]"
    return f"[{_significant(lower)}, {_significant(upper)}]"


def hours(value: float | None) -> str:
    """A span of time in hours, or in days from four days on."""
    if value is None:
        return NOT_MEASURED
    return f"{value / 24:.1f}\u00a0d" if abs(value) >= 96 else f"{value:.1f}\u00a0h"


def size(num_bytes: int) -> str:
    """A number of bytes in the largest unit that leaves at least one."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000.0:
            return f"{value:.0f}\u00a0{unit}" if unit == "B" else f"{value:.3g}\u00a0{unit}"
        value /= 1000.0
    return f"{value:,.3g}\u00a0TB"


def file_name(uri: str) -> str:
    """The last part of a path or URL."""
    return uri.rstrip("/").rsplit("/", 1)[-1] or uri


def short_hash(text: str | None) -> str:
    """The first twelve characters of a hash."""
    return text[:12] if text else "\u2013"


def visible(text: str) -> str:
    r"""Foreign text with every character that a reader could not see, or that reorders the line, spelled out.

    Control, format (bidirectional marks, zero-width characters), surrogate, private and unassigned characters become
    `\u202e` and the like; line breaks become spaces.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(character) for character in text)


def _spelled(character: str) -> str:
    if character in "\n\r\t":
        return " "
    category = unicodedata.category(character)
    if category.startswith("C") or category in {"Zl", "Zp"}:
        code = ord(character)
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character


def clipped(text: str, limit: int) -> str:
    """The text, or its beginning and an ellipsis when the page would need more than `limit` bytes to write it.

    A character that must be escaped or spelled out counts with all the bytes that this takes.
    """
    if len(text) * _MOST_BYTES <= limit:
        return text
    spent = 0
    for position, character in enumerate(text):
        spent += len(escape(visible(character)).encode("utf-8", "replace"))
        if spent > limit:
            return text[:position] + "\u2026"
    return text


def _significant(value: float) -> str:
    if value == 0.0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -4 or magnitude >= 9:
        digits, exponent = f"{value:.1e}".split("e")
        return f"{digits.replace('-', _MINUS)}e{int(exponent)}"
    if magnitude >= 3:
        return f"{value:,.0f}".replace("-", _MINUS)
    text = f"{value:.{max(0, 2 - magnitude)}f}"
    return text.replace("-", _MINUS)
