"""Stored bytes to content: gzip and zstd are unpacked, everything else is handed on as it is."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator

import zstandard
from isal import isal_zlib

from ingest.stored import Stored

PIECE_BYTES = 2**18
"""Compressed bytes that are read at once. Convention, untested."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = tuple(bytes([0x50 + kind, 0x2A, 0x4D, 0x18]) for kind in range(16))
_LONGEST_ZSTD_HEADER = 18


class DamagedError(Exception):
    """The bytes that follow cannot be unpacked."""


def unpacked(stored: Stored, chunk_bytes: int, notes: list[str]) -> Iterator[bytes]:
    """The content in pieces of `chunk_bytes` at most, told by its first bytes, never by the name of the file.

    Several gzip members, padding with zeros between them, and several zstd frames are one content. A file that ends
    too early gives what it has and a note (`truncated_gzip`, `truncated_zstd`). One that is damaged gives every byte
    before the damage, then raises `DamagedError`. Memory does not depend on what a few bytes unpack to.
    """
    magic = stored.peek(4)
    if magic.startswith(_GZIP):
        return _gunzip(stored, chunk_bytes, notes)
    if magic == _ZSTD or magic in _ZSTD_SKIPPABLE:
        return _resized(_unzstd(stored, notes), chunk_bytes)
    return iter(lambda: stored.read(chunk_bytes), b"")


def _gunzip(stored: Stored, chunk_bytes: int, notes: list[str]) -> Iterator[bytes]:
    member, member_start, num_unpacked, is_inside = isal_zlib.decompressobj(wbits=31), 0, 0, False
    while data := stored.read(PIECE_BYTES):
        while data := data if is_inside else data.lstrip(b"\0"):  # padding after a member is legal
            if not is_inside:
                if not data.startswith(_GZIP[: len(data)]):
                    raise DamagedError("gzip: what follows a member is neither another one nor zeros")
                member = isal_zlib.decompressobj(wbits=31)
                member_start, num_unpacked, is_inside = stored.num_taken - len(data), 0, True
            try:
                chunk = member.decompress(data, chunk_bytes)
            except isal_zlib.error as error:  # type: ignore[misc]  # its stub declares an instance
                yield from _last_bytes(stored, member_start, num_unpacked, chunk_bytes)
                raise DamagedError(f"gzip: {error}") from error
            if chunk:
                num_unpacked += len(chunk)
                yield chunk
            data = member.unconsumed_tail
            if member.eof:
                data, is_inside = member.unused_data, False
    if is_inside:
        while chunk := member.decompress(b"", chunk_bytes):
            yield chunk
        notes.append("truncated_gzip")


def _last_bytes(stored: Stored, member_start: int, num_known: int, chunk_bytes: int) -> Iterator[bytes]:
    """What a damaged gzip member holds beyond its first `num_known` bytes.

    The fast decompressor drops what it had unpacked of the piece in which it fails, so the member is read a second
    time, in ever smaller parts where it fails.
    """
    with stored.again() as file:
        while (left := member_start - file.num_taken) and file.read(min(left, PIECE_BYTES)):
            pass
        for chunk in _until_error(file, stored.num_taken, chunk_bytes):
            num_old = min(num_known, len(chunk))
            num_known -= num_old
            if num_old < len(chunk):
                yield chunk[num_old:]


def _until_error(file: Stored, end: int, chunk_bytes: int) -> Iterator[bytes]:
    """What can be unpacked: of data that fail, of ever smaller parts of them, of the last one byte by byte."""
    member = zlib.decompressobj(wbits=31)
    while not member.eof and (data := file.read(min(PIECE_BYTES, end - file.num_taken))):
        parts = [data]
        while parts:
            part, before = parts.pop(), member.copy()
            try:
                chunk = member.decompress(part, chunk_bytes)
            except zlib.error:
                if len(part) < 2 and chunk_bytes == 1:
                    return
                half = len(part) // 2
                member, chunk_bytes = before, chunk_bytes if half else 1
                parts += [part[half:], part[:half]] if half else [part]
                continue
            yield chunk
            # What it holds back for want of room comes before further data, which may fail.
            if len(chunk) == chunk_bytes:
                parts += [member.unconsumed_tail, b""]


def _resized(blocks: Iterator[bytes], num_bytes: int) -> Iterator[bytes]:
    """The same bytes in pieces of one size, but for the last, whatever ends them."""
    held = bytearray()
    damage = None
    try:
        for block in blocks:
            held += block
            while len(held) >= num_bytes:
                yield bytes(held[:num_bytes])
                del held[:num_bytes]
    except DamagedError as error:
        damage = error
    if held:
        yield bytes(held)
    if damage is not None:
        raise damage


def _unzstd(stored: Stored, notes: list[str]) -> Iterator[bytes]:
    """Block by block, so that a damaged one costs none before it, and 128 KiB at most come out at once."""
    while magic := stored.peek(4):
        if magic in _ZSTD_SKIPPABLE:
            is_whole = _skip_frame(stored)
        elif magic == _ZSTD[: len(magic)]:
            is_whole = yield from _frame(stored)
        else:
            raise DamagedError("zstd: what follows a frame is no frame")
        if not is_whole:
            notes.append("truncated_zstd")
            return


def _skip_frame(stored: Stored) -> bool:
    header = _exactly(stored, 8)
    left = int.from_bytes(header[4:], "little")
    while left and (piece := stored.read(min(left, PIECE_BYTES))):
        left -= len(piece)
    return len(header) == 8 and not left


def _frame(stored: Stored) -> Generator[bytes, None, bool]:
    """The blocks of one zstd frame; returns whether it was whole. RFC 8878, section 3.1.1."""
    ahead = stored.peek(_LONGEST_ZSTD_HEADER)
    try:
        has_checksum = zstandard.get_frame_parameters(ahead).has_checksum
        header = _exactly(stored, zstandard.frame_header_size(ahead))
    except zstandard.ZstdError as error:
        if len(ahead) < _LONGEST_ZSTD_HEADER:
            return False
        raise DamagedError(f"zstd: {error}") from error
    frame, is_last = zstandard.ZstdDecompressor().decompressobj(), False
    try:
        frame.decompress(header)
        while not is_last:
            is_last, block = _block(stored)
            if not block:
                return False
            yield frame.decompress(block)
        if has_checksum and (checksum := _exactly(stored, 4)):
            frame.decompress(checksum)
    except zstandard.ZstdError as error:
        raise DamagedError(f"zstd: {error}") from error
    return frame.eof


def _block(stored: Stored) -> tuple[bool, bytes]:
    """Whether it is the last of its frame, and the whole block, empty where it was cut."""
    header = _exactly(stored, 3)
    if len(header) < 3:
        return False, b""
    is_repeated, size = header[0] >> 1 & 3 == 1, int.from_bytes(header, "little") >> 3
    body = _exactly(stored, 1 if is_repeated else size)
    return header[0] & 1 == 1, header + body if len(body) == (1 if is_repeated else size) else b""


def _exactly(stored: Stored, num_bytes: int) -> bytes:
    """So many bytes, or fewer where the file ends."""
    found = bytearray()
    while len(found) < num_bytes and (piece := stored.read(num_bytes - len(found))):
        found += piece
    return bytes(found)
