"""One line, and how content is framed into lines."""

from __future__ import annotations

import hashlib
from typing import Protocol

import msgspec

from schemas.errors import LineError

HEAD_BYTES = 200
"""Bytes that are kept of a line that is too long: what a reject shows."""


class Line(msgspec.Struct, frozen=True):
    """One line without its newline, or one value of a JSON file, and where it lies in the unpacked file.

    `text` is the whole line, or its first `HEAD_BYTES` when it is too long. `is_terminated` is false for a last line
    whose end has not been seen: it may have been cut. A line with a `fault` is a reject whatever stands in it.
    """

    byte_offset: int
    """In a Parquet file, the number of the row."""
    num_bytes: int
    text: bytes
    is_terminated: bool = True
    fault: LineError | None = None
    streamed_sha256: str | None = None
    """The hash of a line that was never held as a whole."""

    @property
    def sha256(self) -> str:
        """SHA-256 of the whole line, as hex; computed at each call, for not every line needs it."""
        return self.streamed_sha256 or hashlib.sha256(self.text).hexdigest()


class UnfinishedLine:
    """A line whose end has not been seen: its pieces, or only its head and hash once it is over the limit.

    The limit is `HEAD_BYTES` at least.
    """

    __slots__ = ("_fault", "_hash", "_limit", "_pieces", "num_bytes")

    def __init__(self, limit: int, fault: LineError | None = None) -> None:
        self.num_bytes = 0
        self._limit = limit
        self._fault = fault
        self._pieces: list[bytes] = []
        self._hash: hashlib._Hash | None = None

    @property
    def text(self) -> bytes:
        """What is kept of it."""
        return b"".join(self._pieces)

    def extend(self, piece: bytes) -> None:
        """Add a piece; beyond the limit only the hash and the head are kept."""
        self.num_bytes += len(piece)
        if self._hash is not None:
            self._hash.update(piece)
            return
        self._pieces.append(piece)
        if self.num_bytes > self._limit:
            text = self.text
            self._hash = hashlib.sha256(text)
            self._pieces = [text[:HEAD_BYTES]]

    def finish(self, offset: int, *, is_terminated: bool = True, fault: LineError | None = None) -> Line:
        """The line, which began at `offset`."""
        text = self.text
        fault = fault or self._fault
        if self._hash is None:
            return Line(offset, self.num_bytes, text, is_terminated, fault)
        fault = fault or LineError(
            "line_too_long", f"{self.num_bytes} bytes; expected {self._limit} at most: raise max_line_bytes"
        )
        return Line(offset, self.num_bytes, text, is_terminated, fault, self._hash.hexdigest())


class Framing(Protocol):
    """Cuts content that comes in pieces into lines."""

    def feed(self, chunk: bytes) -> tuple[list[Line], int]:
        """The lines that end in this piece, and how many bytes of it belong to them and what stands between them."""

    def again(self, *, is_end: bool = False) -> bytes:
        """What must be fed once more, from `start` on; asked until it is empty, after each piece and at the end."""

    def finish(self) -> UnfinishedLine | None:
        """The line that has not ended, if there is one."""

    @property
    def start(self) -> int:
        """Where the line begins that has not ended."""


class NewlineFraming:
    """Lines end with a newline and nothing else."""

    def __init__(self, limit: int, offset: int) -> None:
        self.start = offset
        self._limit = limit
        self._unfinished = UnfinishedLine(limit)

    def feed(self, chunk: bytes) -> tuple[list[Line], int]:
        """The lines whose newline stands in this piece, newline included in what is settled."""
        *ends, rest = chunk.split(b"\n")
        lines = []
        if ends:
            if self._unfinished.num_bytes:
                self._unfinished.extend(ends.pop(0))
                lines.append(self._unfinished.finish(self.start))
                self.start += lines[0].num_bytes + 1
                self._unfinished = UnfinishedLine(self._limit)
            for text in ends:
                size = len(text)
                lines.append(Line(self.start, size, text) if size <= self._limit else self._too_long(text))
                self.start += size + 1
        if rest:
            self._unfinished.extend(rest)
        return lines, len(chunk) - len(rest)

    def again(self, *, is_end: bool = False) -> bytes:  # noqa: ARG002 - the protocol's
        """Nothing: a newline ends every line."""
        return b""

    def finish(self) -> UnfinishedLine | None:
        """The last line, if it has no newline."""
        return self._unfinished if self._unfinished.num_bytes else None

    def _too_long(self, text: bytes) -> Line:
        line = UnfinishedLine(self._limit)
        line.extend(text)
        return line.finish(self.start)


class WholeFraming:
    """All that follows is one line, which is not read."""

    def __init__(self, fault: LineError, offset: int) -> None:
        self.start = offset
        self._unfinished = UnfinishedLine(HEAD_BYTES, fault)

    def feed(self, chunk: bytes) -> tuple[list[Line], int]:
        """No line ends before the file does."""
        self._unfinished.extend(chunk)
        return [], 0

    def again(self, *, is_end: bool = False) -> bytes:  # noqa: ARG002 - the protocol's
        """Nothing: it is not read."""
        return b""

    def finish(self) -> UnfinishedLine | None:
        """The one line."""
        return self._unfinished if self._unfinished.num_bytes else None
