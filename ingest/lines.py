"""Bytes to lines: plain, gzip and zstd files, in bounded memory, with offsets and hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import zstandard
from isal import isal_zlib

CHUNK_BYTES = 2**20
"""Most bytes that are read, or decompressed, at once. Convention, untested."""

ZSTD_BYTES = 2**10
"""Bytes of a zstd file that are decompressed at once. A block takes 4 bytes at least and gives 128 KiB at most, so this
bounds what comes out to 32 MiB; as fast as larger pieces, measured 2026-11-30."""

HEAD_BYTES = 200
"""Bytes that are kept of a line that is too long: what a reject shows."""

_BOM = b"\xef\xbb\xbf"
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its newline, and where it lies in the decompressed file.

    `text` is the whole line, or its first `HEAD_BYTES` when `is_too_long`. `is_terminated` is false for a last line
    without a newline: it may have been cut.
    """

    byte_offset: int
    num_bytes: int
    text: bytes
    sha256: str
    is_terminated: bool = True
    is_too_long: bool = False


class _Unfinished:
    """A line whose end has not been seen: its pieces, or only its head and hash once it is too long."""

    __slots__ = ("_hash", "_limit", "_pieces", "num_bytes")

    def __init__(self, limit: int) -> None:
        self.num_bytes = 0
        self._limit = limit
        self._pieces: list[bytes] = []
        self._hash: hashlib._Hash | None = None

    def extend(self, piece: bytes) -> None:
        """Add a piece; beyond the limit only the hash and the head are kept."""
        self.num_bytes += len(piece)
        if self._hash is not None:
            self._hash.update(piece)
            return
        self._pieces.append(piece)
        if self.num_bytes > self._limit:
            text = b"".join(self._pieces)
            self._hash = hashlib.sha256(text)
            self._pieces = [text[:HEAD_BYTES]]

    def finish(self, end: bytes, offset: int, *, is_terminated: bool = True) -> Line:
        """The line that ends with `end`."""
        if self._hash is None and not self._pieces and len(end) <= self._limit:
            return Line(offset, len(end), end, hashlib.sha256(end).hexdigest(), is_terminated)
        self.extend(end)
        text = b"".join(self._pieces)
        if self._hash is not None:
            return Line(offset, self.num_bytes, text, self._hash.hexdigest(), is_terminated, is_too_long=True)
        return Line(offset, self.num_bytes, text, hashlib.sha256(text).hexdigest(), is_terminated)


class LineReader:
    """Reads one file once, from front to back.

    `bytes_read` and `content_sha256` tell how much is settled: whole lines only. A last line without a newline is
    settled by `settle_tail`, when its reader finds it whole. `notes` collects what is odd about the file, as reason
    codes. Memory is bounded by the longest line that is admitted and the chunk, whatever the file decompresses to.
    """

    def __init__(self, path: str, max_line_bytes: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._chunk_bytes = chunk_bytes
        self._file: BinaryIO = Path(path).open("rb")  # noqa: SIM115 - closed by __exit__
        self.size_on_disk = Path(path).stat().st_size
        self.notes: list[str] = []
        self.head = b""
        """The first bytes of what was skipped, one chunk at most, without a byte-order mark."""
        self.bytes_read = 0
        self._consumed = hashlib.sha256()
        self._settled = self._consumed.copy()
        self._ends_in_newline = True
        self._tail_bytes = 0
        self._unread = b""
        self._chunks = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def content_sha256(self) -> str:
        """SHA-256 of the settled decompressed bytes, from the start of the file."""
        return self._settled.hexdigest()

    @property
    def bytes_taken(self) -> int:
        """Bytes of the file as stored that have been read: progress against `size_on_disk`."""
        return self._file.tell()

    def skip(self, num_bytes: int, sha256: str) -> bool:
        """Pass over the first `num_bytes` and tell whether they have that hash, that is, whether nothing changed."""
        while self.bytes_read < num_bytes:
            chunk = next(self._chunks, b"")
            if not chunk:
                return False
            left = num_bytes - self.bytes_read
            chunk, self._unread = chunk[:left], chunk[left:]
            self.head += chunk[: self._chunk_bytes - len(self.head)]
            self._settle(chunk)
        self.head = self.head.removeprefix(_BOM)
        return self.content_sha256 == sha256

    def blocks(self) -> Iterator[list[Line]]:
        """The lines that follow, in order, a chunk's worth at a time; all but an unfinished last one are settled."""
        line = _Unfinished(self._max_line_bytes)
        for chunk in self._remaining():
            *ends, rest = chunk.split(b"\n")
            if ends:
                lines = []
                offset = self.bytes_read
                for end in ends:
                    lines.append(line.finish(end, offset))
                    offset += lines[-1].num_bytes + 1
                    line = _Unfinished(self._max_line_bytes)
                self._settle(chunk[: len(chunk) - len(rest)], offset - self.bytes_read)
                yield lines
            if rest:
                self._consumed.update(rest)
                line.extend(rest)
        if line.num_bytes:
            self._tail_bytes = line.num_bytes
            yield [line.finish(b"", self.bytes_read, is_terminated=False)]

    def settle_tail(self) -> None:
        """Count the last line, which has no newline, as read: it is whole."""
        self._settle(b"", self._tail_bytes)
        self._ends_in_newline = False

    def _settle(self, content: bytes, num_bytes: int | None = None) -> None:
        self._consumed.update(content)
        self._settled = self._consumed.copy()
        self._ends_in_newline = content.endswith(b"\n")
        self.bytes_read += len(content) if num_bytes is None else num_bytes

    def _remaining(self) -> Iterator[bytes]:
        """The chunks that follow, without a byte-order mark and without the newline of a line settled before."""
        first = self._unread or next(self._chunks, b"")
        self._unread = b""
        if self.bytes_read == 0 and first.startswith(_BOM):
            self.notes.append("utf8_bom")
            self._settle(_BOM)
            first = first[len(_BOM) :]
        elif not self._ends_in_newline and first.startswith(b"\n"):
            self._settle(b"\n")
            first = first[1:]
        if first:
            yield first
        yield from self._chunks

    def _open(self) -> Iterator[bytes]:
        magic = self._file.read(4)
        self._file.seek(0)
        if magic.startswith(_GZIP):
            return self._gunzip()
        if magic == _ZSTD:
            return _resized(self._unzstd(), self._chunk_bytes)
        return iter(lambda: self._file.read(self._chunk_bytes), b"")

    def _gunzip(self) -> Iterator[bytes]:
        """Decompressed chunks of all members; what is whole of a file that was cut or damaged."""
        member = isal_zlib.decompressobj(wbits=31)
        has_begun = False
        while data := self._file.read(CHUNK_BYTES // 4):
            while data:
                try:
                    chunk = member.decompress(data, self._chunk_bytes)
                except isal_zlib.error:  # type: ignore[misc]  # its stub declares an instance
                    self.notes.append("damaged_file")
                    return
                has_begun = True
                if chunk:
                    yield chunk
                data = member.unconsumed_tail
                if member.eof:
                    # Padding with zeros after a member is legal; the next member starts after it.
                    data = member.unused_data.lstrip(b"\0")
                    member, has_begun = isal_zlib.decompressobj(wbits=31), False
        if has_begun:
            self.notes.append("truncated_gzip")

    def _unzstd(self) -> Iterator[bytes]:
        """Decompressed pieces of all frames; what is whole of a file that was cut or damaged."""
        decompressor = zstandard.ZstdDecompressor()
        frame, has_begun = decompressor.decompressobj(), False
        while data := self._file.read(ZSTD_BYTES):
            while data:
                try:
                    chunk = frame.decompress(data)
                except zstandard.ZstdError:
                    self.notes.append("damaged_file")
                    return
                yield chunk
                data, has_begun = frame.unused_data, True
                if frame.eof:
                    frame, has_begun = decompressor.decompressobj(), False
        if has_begun:
            self.notes.append("truncated_zstd")


def _resized(chunks: Iterator[bytes], num_bytes: int) -> Iterator[bytes]:
    """The same bytes in chunks of one size, but for the last."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= num_bytes:
            yield bytes(held[:num_bytes])
            del held[:num_bytes]
    if held:
        yield bytes(held)
