"""Archives to content: every byte before a cut or a damage, and none invented."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.line import Line
from ingest.lines import LineReader

TEXT = b"".join(hashlib.sha256(b"%d" % n).hexdigest().encode() + b"\n" for n in range(10_000))
PIECES = st.lists(st.binary(max_size=300) | st.integers(0, 3000).map(lambda n: b"ab\n" * n), max_size=5)


def unpack(path: Path, packed: bytes, chunk: int = 2**20) -> tuple[bytes, list[Line], LineReader]:
    """The content that a file gives, its lines, and its reader afterwards."""
    path.write_bytes(packed)
    with LineReader(str(path), 2**30, chunk) as reader:
        lines = [line for block in reader.blocks() for line in block]
    return b"".join(line.text + b"\n" * line.is_terminated for line in lines), lines, reader


def members(pieces: list[bytes], level: int) -> bytes:
    """Each piece a gzip member, zeros behind every other one."""
    return b"".join(gzip.compress(piece, level, mtime=0) + b"\0" * (7 * (n % 2)) for n, piece in enumerate(pieces))


def frames(pieces: list[bytes], level: int) -> bytes:
    """Each piece a zstd frame, a frame to be skipped before every other one."""
    packer = zstandard.ZstdCompressor(level=level, write_checksum=level % 2 == 0)
    skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    return b"".join(skipped * (n % 2) + packer.compress(piece) for n, piece in enumerate(pieces))


@given(PIECES, st.integers(1, 9), st.sampled_from([members, frames]), st.integers(50, 2**14))
def test_any_members_or_frames_are_one_content(tmp_path_factory, pieces, level, pack, chunk):
    """Whatever the size of the pieces, padding and frames to be skipped left out."""
    path = tmp_path_factory.mktemp("any") / "log"
    pieces = [b"x\n", *pieces]
    packed = pack(pieces, level)
    with LineReader(str(path) if path.write_bytes(packed) else "", 2**30, chunk) as reader:
        lines = [line for block in reader.blocks() for line in block]
        if lines and not lines[-1].is_terminated:
            reader.settle_tail()
    content = b"".join(pieces)
    assert (reader.bytes_read, reader.content_sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert reader.notes == []


@given(st.integers(1, 60_000), st.integers(0, 9))
def test_any_cut_of_a_gzip_keeps_what_can_be_unpacked(tmp_path_factory, num_missing, level):
    """All but the bytes that the decompressor waits to be sure of; the cut is noted."""
    packed = gzip.compress(TEXT[:65_000], level, mtime=0)
    packed = packed[: max(len(packed) - num_missing, 3)]
    content, _, reader = unpack(tmp_path_factory.mktemp("cut") / "log", packed)
    expected = zlib.decompressobj(31).decompress(packed)
    assert expected.startswith(content)
    assert len(expected) - len(content) < 100
    assert reader.notes == ["truncated_gzip"]


@pytest.mark.parametrize("num_missing", [1, 4, 90_000, 300_000])
def test_a_truncated_zstd_keeps_its_whole_blocks(tmp_path, num_missing):
    """The cut is noted, be it in a checksum or in a block."""
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
    content, _, reader = unpack(tmp_path / "log", packed[:-num_missing])
    assert TEXT.startswith(content)
    assert len(content) > len(TEXT) - 2 * num_missing - 2**17
    assert reader.notes == ["truncated_zstd"]


def before_damage(packed: bytes) -> bytes:
    """What the reference decompressor gives of a damaged gzip, fed byte by byte and asked for one byte at a time."""
    member, found = zlib.decompressobj(31), bytearray()
    try:
        for place in range(len(packed)):
            data = packed[place : place + 1]
            while chunk := member.decompress(data, 1):
                found += chunk
                data = member.unconsumed_tail
    except zlib.error:
        return bytes(found)
    raise AssertionError("not damaged")


@pytest.mark.parametrize("place", [60, 2_000, 9_000, 20_005, -6])
@pytest.mark.parametrize("chunk", [7, 2**20])
def test_a_damaged_gzip_keeps_every_byte_before_the_damage(tmp_path, place, chunk):
    """And what is lost is one reject, where the readable bytes end."""
    text = TEXT[:40_000]
    packed = bytearray(gzip.compress(b"first\n") + gzip.compress(text, mtime=0))
    packed[place] ^= 0xFF
    packed[place + 1] ^= 0x55
    expected = b"first\n" + before_damage(bytes(packed[len(gzip.compress(b"first\n")) :]))
    content, lines, reader = unpack(tmp_path / "log", bytes(packed), chunk)
    assert content == expected
    assert [line.fault.reason for line in lines if line.fault] == ["damaged_bytes"]
    assert lines[-1].byte_offset == expected.rfind(b"\n") + 1
    assert (reader.notes, lines[-1].is_terminated) == (["damaged_file"], False)


def test_a_damaged_zstd_keeps_every_block_before_the_damage(tmp_path):
    """A block is 128 KiB of content."""
    packed = bytearray(zstandard.ZstdCompressor(write_content_size=False).compress(TEXT))
    packed[-1000] ^= 0xFF
    packed[-1001] ^= 0xFF
    content, lines, reader = unpack(tmp_path / "log", bytes(packed))
    assert len(content) >= len(TEXT) // 2**17 * 2**17
    assert [line.fault.reason for line in lines if line.fault] == ["damaged_bytes"]
    assert reader.notes == ["damaged_file"]


@pytest.mark.parametrize("packed", [gzip.compress(b"first\n"), zstandard.compress(b"first\n")])
def test_something_else_after_an_archive_is_damage(tmp_path, packed):
    """The archive before it is whole."""
    content, lines, _ = unpack(tmp_path / "log", packed + b"no archive")
    assert content == b"first\n"
    assert (lines[-1].byte_offset, lines[-1].num_bytes, lines[-1].fault is None) == (6, 0, False)


def test_a_damaged_file_that_was_mended_is_read_on(tmp_path):
    """What had been read is passed over by its hash."""
    packed = gzip.compress(TEXT), gzip.compress(b"last\n")
    _, _, reader = unpack(tmp_path / "log", packed[0] + b"no archive")
    (tmp_path / "log").write_bytes(packed[0] + packed[1])
    with LineReader(str(tmp_path / "log"), 2**20) as again:
        assert again.skip(reader.bytes_read, reader.content_sha256)
        assert [line.text for block in again.blocks() for line in block] == [b"last"]


@given(
    st.binary(max_size=200), st.sampled_from([b"\x1f\x8b", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"])
)
def test_any_bytes_after_a_magic_number_end_in_a_note(tmp_path_factory, rest, magic):
    """Nothing is raised."""
    _, lines, reader = unpack(tmp_path_factory.mktemp("any") / "log", magic + rest)
    assert set(reader.notes) <= {"truncated_gzip", "truncated_zstd", "damaged_file", "utf8_bom", "truncated_array"}
    assert ("damaged_file" in reader.notes) == any(
        line.fault and line.fault.reason == "damaged_bytes" for line in lines
    )


def test_a_decompression_bomb_is_one_long_line(tmp_path):
    """300 MB of zeros in 300 kB are passed over a chunk at a time."""
    (tmp_path / "log").write_bytes(gzip.compress(bytes(300 * 2**20), 1))
    with LineReader(str(tmp_path / "log"), 2**20) as reader:
        (line,) = [line for block in reader.blocks() for line in block]
    assert (line.num_bytes, line.fault is not None, len(line.text)) == (300 * 2**20, True, 200)


def test_a_zstd_file_is_handed_over_in_chunks(tmp_path):
    """However much a few bytes of it unpack to."""
    (tmp_path / "log").write_bytes(zstandard.compress(b"ab\n" * 2**20))
    with LineReader(str(tmp_path / "log"), 100, 3 * 2**10) as reader:
        assert [len(block) for block in reader.blocks()] == [2**10] * 2**10
