"""Where each value of a JSON array, or of a file of pretty-printed documents, begins and ends."""

from __future__ import annotations

import re

import msgspec

from ingest.line import Line, UnfinishedLine

HELD_BYTES = 4 * 2**20
"""Bytes of one value that are held to find its end at the speed of the parser (450 MB/s, against 15 to 150 MB/s bracket
by bracket; measured 2026-11-30). Convention, untested."""

MAX_DEPTH = 2**14
"""Brackets within each other that are followed; a value with more is broken. Convention, untested."""

MOST_AGAIN = 64
"""Times that the end of a file is framed once more for a value that is open there. Convention, untested."""

_STRING_REST = rb'[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+'


def _balanced(depth: int) -> bytes:
    """A pattern of what stands between brackets, inner brackets included down to that depth."""
    parts = [rb'[^"{}\[\]]++', rb'"' + _STRING_REST + rb'"']
    if depth:
        inner = _balanced(depth - 1)
        parts += [rb"\{" + inner + rb"\}", rb"\[" + inner + rb"\]"]
    return rb"(?:" + rb"|".join(parts) + rb")*+"


_BALANCED = re.compile(_balanced(4))
_STRING = re.compile(_STRING_REST)
_BETWEEN = re.compile(rb"[ \t\r\n,]*+")
_SCALAR_IN_ARRAY, _SCALAR = re.compile(rb"[^,\]\n]*+"), re.compile(rb"[^\n]*+")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_CLOSING = {ord("{"): ord("}"), ord("["): ord("]")}
_QUOTE, _BACKSLASH, _NEWLINE, _OPEN, _CLOSE = b'"\\\n[]'
_LONGEST_ESCAPE = len(rb"\ud83d\ude00")
_MARGIN_BYTES = 256
_SAME_LINE = b"-"
_RAW = msgspec.json.Decoder(msgspec.Raw)
WAIT, UNKNOWN = -1, -2


class ValueFraming:
    """Cuts an array into its elements, or documents that follow one another into documents.

    Exact for valid JSON, whatever stands in its strings and however it comes in pieces. What is not valid is still
    cut: commas are not demanded, and a value that is broken (a newline in a string, a bracket of the wrong kind) ends
    where a line begins as the line did on which it began, so that a damaged value does not take those after it along.
    One that is still open at the end of the file, or longer than the limit, is framed `again` by the same rule.
    """

    def __init__(self, limit: int, offset: int, *, enters_arrays: bool, is_in_array: bool = False) -> None:
        self.start = offset
        self._limit = limit
        self._enters_arrays = enters_arrays
        self.is_in_array = is_in_array
        """Whether an array has begun and not ended."""
        self._position = offset
        self._held = b""
        self._margin = b""
        """What stands before the value on its line, its end at least."""
        self._scan: _Scan | None = None
        self._unfinished = UnfinishedLine(limit)
        self._again = b""
        self._is_wary = False
        """Whether a value in this piece was open for too long: others may be."""
        self._num_again = 0

    def feed(self, chunk: bytes) -> tuple[list[Line], int]:
        """The values that end in this piece; settled is what reaches to the end of the last of them."""
        text = self._held + chunk if self._held else chunk
        base = self._position - len(self._held)
        at, settled, lines = 0, self._position, list[Line]()
        self._position += len(chunk)
        self._held = b""
        while at < len(text):
            if self._scan is None:
                at = self._between(text, at)
                if at == len(text):
                    break
                self.start = base + at
                end = self._end(text, at)
                if end == WAIT:
                    self._held = text[at:]
                    break
                if end == UNKNOWN:
                    self._scan = _Scan(text[at], self._margin, is_in_array=self.is_in_array)
            if self._scan is not None and not self._scan.is_cut:
                was_broken = self._scan.is_broken or self._scan.is_over
                end = self._scan.feed(text, at)
                if self._scan.is_broken and not was_broken and self._holds_others(text, at):
                    break
                if end < 0:
                    self._extend(text[at:])
                    break
            lines.append(self._line(text[at:end]))
            at, settled = end, base + end
        self._is_wary = False
        return lines, max(settled - self._position + len(chunk), 0)

    def again(self, *, is_end: bool = False) -> bytes:
        """What must be fed once more, from `start` on: a value that is too long, or open at the end, and holds others.

        Call it until it gives nothing, after each piece and at the end.
        """
        text, self._again = self._again, b""
        if is_end and not text and self._num_again < MOST_AGAIN and (self._scan is None or not self._scan.is_broken):
            self._num_again += 1
            text = self._unfinished.text + self._held
            text = text if _next_like(self._margin, text, 0) else b""
        if text:
            self._position, self._held, self._scan = self.start, b"", None
            self._unfinished = UnfinishedLine(self._limit)
            self._is_wary = True
        return text

    def _holds_others(self, text: bytes, at: int) -> bool:
        """Whether a value was found to be broken only behind others that it swallowed; they are framed again."""
        whole = self._unfinished.text + text[at:]
        cut = _next_like(self._margin, whole, 0)
        if not 0 < cut < self._unfinished.num_bytes + self._scan.broken_at - at:  # type: ignore[union-attr]
            return False
        self._again = whole
        return True

    def _extend(self, piece: bytes) -> None:
        """Add to the value that goes on; when it comes to be too long, it is told whether it holds others."""
        if self._scan is None or self._scan.is_over or self._unfinished.num_bytes + len(piece) <= self._limit:
            self._unfinished.extend(piece)
            return
        text = self._unfinished.text + piece
        if not self._scan.is_broken and _next_like(self._margin, text, 0):
            self._again = text
            return
        self._scan.go_over(text)
        self._unfinished.extend(piece)

    def _end(self, text: bytes, at: int) -> int:
        """Where the value ends that begins there, as `end_of_valid`; none goes past its like where one did before."""
        cut = _next_like(self._margin, text, at) if self._is_wary else 0
        if not cut:
            self._is_wary = self._is_wary and self._margin.startswith(_SAME_LINE)
            return end_of_valid(text, at)
        part = text[at:cut]
        if (end := end_of_valid(part, 0)) < 0:
            scan = _Scan(part[0], self._margin, is_in_array=self.is_in_array)
            if (end := scan.feed(part, 0)) < 0:
                scan.is_broken = scan.is_cut = True
                self._scan, end = scan, len(part)
        return at + end

    def finish(self) -> UnfinishedLine | None:
        """The value that has not ended, if there is one."""
        self._unfinished.extend(self._held)
        return self._unfinished if self._unfinished.num_bytes else None

    def _line(self, text: bytes) -> Line:
        self._unfinished.extend(text)
        line = self._unfinished.finish(self.start)
        if self._scan is None or not self._scan.is_broken:
            self._margin = _SAME_LINE  # what follows on this line does not begin it
        self._scan, self._unfinished = None, UnfinishedLine(self._limit)
        return line

    def _between(self, text: bytes, at: int) -> int:
        """Where the next value begins: behind commas, white space, and the brackets of the array itself."""
        while at < len(text):
            end = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing too
            self._margin = (self._margin + text[max(at, end - _MARGIN_BYTES) : end]).rpartition(b"\n")[2][
                -_MARGIN_BYTES:
            ]
            at = end
            if at == len(text):
                break
            if self.is_in_array and text[at] == _CLOSE:
                self.is_in_array = False
            elif self._enters_arrays and not self.is_in_array and text[at] == _OPEN:
                self.is_in_array = True
            else:
                break
            self._margin += text[at : at + 1]
            at += 1
        return at


def end_of_valid(text: bytes, at: int) -> int:
    """Where the object or array that begins there ends; `WAIT` for more of it, `UNKNOWN` if it is not strict JSON."""
    if text[at] not in _CLOSING:
        return UNKNOWN
    try:
        _RAW.decode(memoryview(text)[at:])
    except msgspec.DecodeError as error:
        if num_bytes := _bytes_before_trailing(error):
            return at + len(text[at : at + num_bytes].rstrip(b" \t\r\n"))
        # Half a surrogate pair just before the end of the text waits for its other half, be the value whole or not.
        is_cut = "truncated" in str(error) and b"\\u" not in text[-2 * _LONGEST_ESCAPE :]
        return WAIT if is_cut and len(text) - at < HELD_BYTES else UNKNOWN
    except RecursionError:
        return UNKNOWN
    return at + len(text[at:].rstrip(b" \t\r\n"))


def _bytes_before_trailing(error: msgspec.DecodeError) -> int:
    """How much of a text was a value, if all that is wrong is that something follows it; else 0."""
    found = _TRAILING.search(str(error))
    return int(found[1]) - _TRAILING_SHIFT if found else 0


def _trailing_shift() -> int:
    """What the parser's message adds to the place of the first byte behind a value."""
    try:
        _RAW.decode(b"[]x")
    except msgspec.DecodeError as error:
        found = _TRAILING.search(str(error))
        return int(found[1]) - 2 if found else 0
    raise AssertionError("the parser read what is not JSON")


_TRAILING_SHIFT = _trailing_shift()


def _like(margin: bytes) -> re.Pattern[bytes] | None:
    """The beginning of a line on which another value begins as one did behind this margin.

    None if that one did not begin its line. Behind the bracket of the array itself, its like stands under it, or
    begins its line.
    """
    if margin.startswith(_SAME_LINE):
        return None
    begins = re.escape(margin)
    if margin.strip(b" \t"):
        begins = rb"(?:,[ \t]*|" + b" " * len(margin) + rb")?"
    return re.compile(rb"\n" + begins + rb"[{\[]")


def _next_like(margin: bytes, text: bytes, at: int) -> int:
    """Where the next value begins that stands as the one at `at` does; 0 if none does.

    In a document whose members are not indented, nothing tells a value from its own parts: none is looked for.
    """
    like = _like(margin)
    if like is None or re.compile(rb"[{\[][ \t\r]*\n" + re.escape(margin) + rb"[^ \t]").match(text, at):
        return 0
    found = like.search(text, at)
    return found.end() - 1 if found else 0


class _Scan:
    """Follows one value bracket by bracket, over any number of pieces; in a broken one it looks for the next value."""

    def __init__(self, first: int, margin: bytes, *, is_in_array: bool) -> None:
        self._scalar = None if first in (*_CLOSING, _QUOTE) else _SCALAR_IN_ARRAY if is_in_array else _SCALAR
        self._stack = bytearray()
        self._is_in_string = self._is_escaped = False
        self.is_broken = False
        self.is_cut = False
        """Whether its end has been set already."""
        self.is_over = False
        """Whether the value is too long: it ends by its brackets or before its like, whichever comes first."""
        self._like = _like(margin)
        begins = rb"(?:[}\]][ \t]*)?,?[ \t]*" if margin.strip(b" \t") else re.escape(margin)
        self._next_value = re.compile(rb"\n" + begins + rb"[{\[]")
        self._passed = b""
        self.broken_at = 0

    def feed(self, text: bytes, at: int) -> int:
        """Where the value ends in the text from `at` on; -1 if it goes on."""
        if self._scalar is not None:
            end = self._scalar.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing too
            return end if end < len(text) else -1
        if not self.is_over:
            end = self._follow(text, at)
            return self._resume(text, self.broken_at) if end < 0 and self.is_broken else end
        cut = self._resume(text, at)
        end = -1 if self.is_broken else self._follow(text if cut < 0 else text[:cut], at)
        if end < 0 <= cut:
            self.is_broken = True
        return end if end >= 0 else cut

    def go_over(self, text: bytes) -> None:
        """From here on the value is too long; its text so far holds nothing like it."""
        self.is_over = True
        if not self.is_broken and self._like is not None:
            self._next_value = self._like
            self._passed = text[-_MARGIN_BYTES - 2 :]

    def _follow(self, text: bytes, at: int) -> int:
        while at < len(text) and not self.is_broken:
            at = self._pass_string(text, at) if self._is_in_string else self._pass_bracket(text, at)
            if not (self._stack or self._is_in_string or self.is_broken):
                return at
        self.broken_at = at
        return -1

    def _pass_string(self, text: bytes, at: int) -> int:
        if self._is_escaped and text[at] != _NEWLINE:
            at += 1
        self._is_escaped = False
        if all(text.find(end, at) < 0 for end in (b'"', b"\\", b"\n")):  # a string longer than the piece
            return len(text)
        at = _STRING.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing too
        if at == len(text):
            return at
        if text[at] == _QUOTE:
            self._is_in_string = False
        elif text[at] == _BACKSLASH and at + 1 == len(text):
            self._is_escaped = True
        else:
            self.is_broken = True
        return at + (not self.is_broken)

    def _pass_bracket(self, text: bytes, at: int) -> int:
        if self._stack:
            at = _BALANCED.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing too
            if at == len(text):
                return at
        if text[at] == _QUOTE:
            self._is_in_string = True
        elif text[at] in _CLOSING and len(self._stack) < MAX_DEPTH:
            self._stack.append(_CLOSING[text[at]])
        elif not self._stack or self._stack.pop() != text[at]:
            self.is_broken = True
        return at + 1

    def _resume(self, text: bytes, at: int) -> int:
        """Where the line of the next value has its bracket; the line's beginning may stand in an earlier piece."""
        rest = self._passed + text[at:]
        if found := self._next_value.search(rest):
            return at + found.end() - 1 - len(self._passed)
        self._passed = rest[-_MARGIN_BYTES - 2 :]
        return -1
