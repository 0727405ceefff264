"""One file, read as lines: plain or packed text, JSON lines, JSON arrays and documents, in bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from ingest.compressed import DamagedError, unpacked
from ingest.json_values import ValueFraming
from ingest.kinds import BOM, Kind, kind_of
from ingest.line import HEAD_BYTES, Framing, Line, NewlineFraming, UnfinishedLine, WholeFraming
from ingest.stored import Stored
from schemas.errors import LineError

__all__ = ["CHUNK_BYTES", "HEAD_BYTES", "Line", "LineReader", "Reader"]

CHUNK_BYTES = 2**20
"""Most bytes that are read, or unpacked, at once. Convention, untested."""

_FEWEST_BYTES = 8
_UNREADABLE = {
    "utf16": LineError("bad_unicode", "the file is UTF-16; expected UTF-8: convert it, for example with iconv"),
    "parquet": LineError("schema_unknown", "a Parquet file in an archive; expected it bare: unpack it first"),
}


class Reader(Protocol):
    """Reads one file once, from front to back, whatever kind of file it is.

    `notes` collects what is odd about the file, as reason codes; they are complete when the blocks are.
    """

    head: bytes
    """The first bytes of what was skipped, one chunk at most, as they would begin a file of lines."""
    notes: list[str]
    size_on_disk: int
    """Bytes of the file as stored; 0 where its keeper does not say."""
    bytes_read: int
    """How far the file is settled: unpacked bytes, or rows."""

    @property
    def content_sha256(self) -> str:
        """The hash that tells later whether the settled part has changed."""

    @property
    def bytes_taken(self) -> int:
        """Bytes of the file as stored that have been read: progress against `size_on_disk`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def skip(self, num_bytes: int, sha256: str) -> bool:
        """Pass over what was settled, and tell whether nothing of it has changed."""

    def blocks(self) -> Iterator[list[Line]]:
        """The lines that follow, in order, a chunk's worth at a time; all but an unfinished last one are settled."""

    def settle_tail(self) -> None:
        """Count the last line, whose end was not seen, as read: it is whole."""


class LineReader:
    """Reads one file of text, packed or not.

    `bytes_read` and `content_sha256` tell how much is settled: whole lines only, or values of an array up to the end
    of the last one, so that an array that grows is read on where it ended. A last line without a newline is settled
    by `settle_tail`, when its reader finds it whole. Bytes that cannot be unpacked are one unfinished line with the
    fault `damaged_bytes`, together with the line that they cut. Memory is bounded by the longest line that is
    admitted and the chunk, whatever the file unpacks to.
    """

    def __init__(self, uri: str | Stored, max_line_bytes: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._stored = Stored(uri) if isinstance(uri, str) else uri
        self._max_line_bytes = max_line_bytes
        self._chunk_bytes = chunk_bytes
        self.size_on_disk = self._stored.size
        self.notes: list[str] = []
        self.head = b""
        self.bytes_read = 0
        self._consumed = hashlib.sha256()
        self._settled = self._consumed.copy()
        self._at_open = self._consumed.copy()
        self._last_byte = b"\n"
        self._num_consumed = 0
        self._chunks = unpacked(self._stored, chunk_bytes, self.notes)
        self._ahead = b""
        self._damage: DamagedError | None = None
        self._kind: Kind | None = None
        self._is_resumed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stored.close()

    @property
    def content_sha256(self) -> str:
        """SHA-256 of the settled unpacked bytes, from the start of the file."""
        return self._settled.hexdigest()

    @property
    def bytes_taken(self) -> int:
        """Bytes of the file as stored that have been read: progress against `size_on_disk`."""
        return self._stored.num_taken

    def skip(self, num_bytes: int, sha256: str) -> bool:
        """Pass over the first `num_bytes` and tell whether they have that hash, that is, whether nothing changed.

        False too where no line can begin, as in a last line that was whole and has become longer.
        """
        kind = self._look()
        self._is_resumed = num_bytes > 0 and sha256 != hashlib.sha256(BOM).hexdigest()
        try:
            while self.bytes_read < num_bytes:
                chunk = self._next()
                if not chunk:
                    return False
                left = num_bytes - self.bytes_read
                chunk, self._ahead = chunk[:left], chunk[left:]
                self.head += chunk[: self._chunk_bytes - len(self.head)]
                self._settle(chunk)
            self._ahead = self._next_unless_damaged()
        except DamagedError:
            return False
        self.head = self.head.removeprefix(BOM)
        if kind in ("array", "values"):
            self.head = self.head.lstrip(b"[ \t\r\n")
        return self.content_sha256 == sha256 and self.bytes_read == num_bytes and self._is_between(kind)

    def blocks(self) -> Iterator[list[Line]]:
        """The lines that follow, in order, a chunk's worth at a time; all but an unfinished last one are settled."""
        kind = self._look()
        self._pass_mark(kind)
        framing = self._framing(kind)
        for chunk in self._pieces(framing):
            lines, num_settled = framing.feed(chunk)
            view = memoryview(chunk)
            if lines or num_settled:
                self._settle(view[:num_settled])
            if lines:
                yield lines
            self._consume_open(view[num_settled:], framing.start)
        fault = None
        if self._damage is not None:
            self.notes.append("damaged_file")
            fault = LineError(
                "damaged_bytes",
                f"{self._damage}; nothing can be read from here on: copy the file again, and it is read on",
            )
        if self._stored.was_cut:
            self.notes.append("file_changed")
        if isinstance(framing, ValueFraming) and framing.is_in_array and fault is None:
            self.notes.append("truncated_array")
        line, start = framing.finish(), framing.start
        if line is None and fault is not None:
            line, start = UnfinishedLine(self._max_line_bytes), self.bytes_read
        if line is not None:
            is_whole = isinstance(framing, WholeFraming)
            if is_whole:
                self.settle_tail()
            yield [line.finish(start, is_terminated=is_whole, fault=fault)]

    def settle_tail(self) -> None:
        """Count the last line, which has no newline, as read: it is whole."""
        self._settled = self._consumed.copy()
        self.bytes_read = self._num_consumed

    def _look(self) -> Kind:
        """The kind of the file; its first bytes are held until they are read."""
        wanted = _FEWEST_BYTES
        pieces: list[bytes] = []
        while self._kind is None:
            chunk = b""
            try:
                chunk = next(self._chunks, b"")
            except DamagedError as error:
                self._damage = error
            pieces.append(chunk)
            if not chunk or sum(map(len, pieces)) >= wanted:
                self._ahead = b"".join(pieces)
                wanted, pieces = 2 * len(self._ahead), [self._ahead]
                self._kind = kind_of(self._ahead.removeprefix(BOM), is_all=not chunk)
        return self._kind

    def _next(self) -> bytes:
        """The next chunk, empty at the end; `DamagedError` when what follows cannot be unpacked."""
        chunk, self._ahead = self._ahead, b""
        if not chunk and self._damage is not None:
            raise self._damage
        return chunk or next(self._chunks, b"")

    def _pieces(self, framing: Framing) -> Iterator[bytes]:
        """The chunks that follow, and what must be framed again."""
        is_end = False
        while not is_end:
            chunk = self._next_unless_damaged()
            is_end = not chunk
            if chunk:
                yield chunk
            while chunk := framing.again(is_end=is_end):
                self._consumed, self._num_consumed = self._at_open.copy(), framing.start
                yield chunk

    def _framing(self, kind: Kind) -> Framing:
        if kind in _UNREADABLE:
            return WholeFraming(_UNREADABLE[kind], self.bytes_read)
        if kind == "lines":
            return NewlineFraming(self._max_line_bytes, self.bytes_read)
        return ValueFraming(
            self._max_line_bytes,
            self.bytes_read,
            enters_arrays=kind == "array",
            is_in_array=kind == "array" and self._is_resumed,
        )

    def _is_between(self, kind: Kind) -> bool:
        """Whether a line, or a value, may end where the settled part does."""
        if not self._is_resumed:
            return True
        if kind == "lines":
            return self._last_byte == b"\n" or not self._ahead.strip(b"\r\n") or self._ahead[:1] in b"\r\n"
        return self._last_byte not in b" \t\r\n,"

    def _pass_mark(self, kind: Kind) -> None:
        """Settle a byte-order mark, and the newline of a line that was settled without it."""
        self._ahead = first = self._ahead or self._next_unless_damaged()
        mark = b""
        if self.bytes_read == 0 and first.startswith(BOM):
            self.notes.append("utf8_bom")
            mark = BOM
        elif kind == "lines" and self._last_byte != b"\n" and first.startswith(b"\n"):
            mark = b"\n"
        self._settle(mark)
        self._ahead = first[len(mark) :]

    def _next_unless_damaged(self) -> bytes:
        try:
            return self._next()
        except DamagedError as error:
            self._damage = error
            return b""

    def _consume(self, content: bytes | memoryview) -> None:
        self._consumed.update(content)
        self._num_consumed += len(content)

    def _consume_open(self, content: memoryview, start: int) -> None:
        """Consume a line that goes on, and note the hash of what stands before it."""
        num_before = start - self._num_consumed
        if 0 <= num_before <= len(content):
            self._consume(content[:num_before])
            self._at_open = self._consumed.copy()
            content = content[num_before:]
        self._consume(content)

    def _settle(self, content: bytes | memoryview) -> None:
        """Settle this and all that was consumed before it."""
        self._consume(content)
        self._settled = self._consumed.copy()
        self._last_byte = bytes(content[-1:]) or self._last_byte
        self.bytes_read = self._num_consumed
