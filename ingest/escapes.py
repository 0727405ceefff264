"""A text with its escapes decoded, and the way back from each place in it to the text as it was written.

Tool arguments are JSON inside a JSON string, links are percent-encoded: an address can be written in many ways.
What is found in the decoded text is replaced in the written one, so no escape and no structure is ever broken.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_UNIT = re.compile(
    r"""
    \\++(?:u(?P<u>[0-9a-fA-F]{4})|x(?P<x>[0-9a-fA-F]{2})|(?P<c>["/bfnrt]))?   # JSON and its like, at any depth
    |%(?P<p>[0-9a-fA-F]{2})                                                   # links
    |&\#(?P<d>[0-9]{2,3});|&\#[xX](?P<h>[0-9a-fA-F]{2});                      # HTML
    """,
    re.VERBOSE,
)
_HIDING = re.compile(r"\\(?:[ux][0-9a-fA-F]{2}|/)")
_HIDING_IN_LINKS = re.compile(r"%[2-7][0-9a-fA-F]")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def hides(text: str) -> bool:
    """Whether a letter, digit or sign may be written as an escape in it (a line break or a quote is no such)."""
    return (
        ("\\" in text and _HIDING.search(text) is not None)
        or ("%" in text and _HIDING_IN_LINKS.search(text) is not None)
        or "&#" in text
    )


def has_escapes(text: str) -> bool:
    """Whether `Decoded` may differ from the text."""
    return "\\" in text or "%" in text or "&#" in text


class Decoded:
    """The decoded `text` of a written one; `span` leads back.

    A run of backslashes with what it escapes is one character: how deep the nesting is does not matter for finding.
    """

    def __init__(self, written: str) -> None:
        pieces: list[str] = []
        self._views: list[int] = []  # where each escape stands in the decoded text
        self._starts: list[int] = []  # and in the written one
        self._ends: list[int] = []
        done = length = 0
        for match in _UNIT.finditer(written):
            character = _character(match)
            if character is None:
                continue
            start, end = match.span()
            pieces += (written[done:start], character)
            length += start - done
            self._views.append(length)
            self._starts.append(start)
            self._ends.append(end)
            length += 1
            done = end
        pieces.append(written[done:])
        self.text = "".join(pieces)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The written span of a decoded one; of an empty one, an empty one."""
        if start >= end:
            return start, start
        return self._place(start)[0], self._place(end - 1)[1]

    def whole(self, start: int, end: int) -> tuple[int, int]:
        """A written span that cuts no escape: it begins behind one that it would cut, and ends behind one."""
        before, after = self._cut(start), self._cut(end)
        return (start if before is None else before), (end if after is None else after)

    def _place(self, view: int) -> tuple[int, int]:
        """Where one decoded character is written."""
        index = bisect_right(self._views, view) - 1
        if index < 0:
            return view, view + 1
        if self._views[index] == view:
            return self._starts[index], self._ends[index]
        start = self._ends[index] + view - self._views[index] - 1
        return start, start + 1

    def _cut(self, place: int) -> int | None:
        """The end of the escape that a cut at this place would break."""
        index = bisect_right(self._starts, place) - 1
        return self._ends[index] if index >= 0 and self._starts[index] < place < self._ends[index] else None


def _character(match: re.Match[str]) -> str | None:
    """What an escape stands for; None for what is no escape after all."""
    kind = match.lastgroup
    if kind is None:
        return "\\"
    value = match.group(kind)
    if kind == "c":
        return _LETTERS.get(value, value)
    if kind in ("u", "x"):
        return chr(int(value, 16))
    code = int(value, 10 if kind == "d" else 16)
    return chr(code) if 0x21 <= code <= 0x7E else None
