"""Bytes to lines, whatever the file is like."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.lines import Line, LineReader


def read(path: Path, *, limit: int = 2**20, chunk: int = 2**20) -> tuple[list[Line], LineReader]:
    """All lines of a file, and its reader afterwards."""
    with LineReader(str(path), limit, chunk) as reader:
        return [line for block in reader.blocks() for line in block], reader


def sha(content: bytes) -> str:
    """SHA-256 as hex."""
    return hashlib.sha256(content).hexdigest()


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")), max_size=20), st.integers(4, 50))
def test_any_chunking_yields_the_same_lines(tmp_path_factory, lines, chunk):
    """Lines, offsets and hashes do not depend on where chunks end."""
    lines = [b"x", *lines]  # not a byte-order mark at the start
    content = b"".join(line + b"\n" for line in lines)
    path = tmp_path_factory.mktemp("any") / "log"
    path.write_bytes(content)
    found, reader = read(path, chunk=chunk)
    assert [line.text for line in found] == lines
    assert [content[line.byte_offset :][: line.num_bytes] for line in found] == lines
    assert [line.sha256 for line in found] == [sha(line) for line in lines]
    assert (reader.bytes_read, reader.content_sha256) == (len(content), sha(content))


def test_gzip_members_and_zstd_frames_are_read_through(tmp_path):
    """A file of several compressed pieces is one file."""
    one, two = b"first\n", b"second\nthird\n"
    (tmp_path / "a").write_bytes(gzip.compress(one) + gzip.compress(two) + b"\0" * 8)
    (tmp_path / "b").write_bytes(zstandard.compress(one) + zstandard.compress(two))
    for name in ("a", "b"):
        found, reader = read(tmp_path / name)
        assert [line.text for line in found] == [b"first", b"second", b"third"]
        assert reader.notes == []


def test_a_truncated_gzip_keeps_its_whole_lines(tmp_path):
    """The cut is noted, and the last line is not settled."""
    packed = gzip.compress(b"".join(sha(b"%d" % i).encode() + b"\n" for i in range(1000)))
    (tmp_path / "log").write_bytes(packed[: len(packed) // 2])
    found, reader = read(tmp_path / "log")
    assert reader.notes == ["truncated_gzip"]
    assert len(found) > 100
    assert [line.text for line in found[:-1]] == [sha(b"%d" % i).encode() for i in range(len(found) - 1)]
    assert reader.bytes_read == 65 * (len(found) - 1)


@pytest.mark.parametrize("num_missing", [1, 4, 90_000])
def test_a_truncated_zstd_keeps_its_whole_lines(tmp_path, num_missing):
    """The cut is noted, be it in a checksum or in a block."""
    lines = [sha(b"%d" % i).encode() for i in range(10_000)]
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(b"\n".join(lines) + b"\n")
    (tmp_path / "log").write_bytes(packed[:-num_missing])
    found, reader = read(tmp_path / "log")
    assert reader.notes == ["truncated_zstd"]
    assert len(found) > 1000
    assert [line.text for line in found if line.is_terminated] == lines[: reader.bytes_read // 65]


def test_a_damaged_zstd_ends_at_the_damage(tmp_path):
    """A whole frame, and then something else."""
    (tmp_path / "log").write_bytes(zstandard.compress(b"first\n") + b"no frame")
    found, reader = read(tmp_path / "log")
    assert ([line.text for line in found], reader.notes) == ([b"first"], ["damaged_file"])


def test_a_zstd_file_is_handed_over_in_chunks(tmp_path):
    """However much a few bytes of it decompress to."""
    (tmp_path / "log").write_bytes(zstandard.compress(b"ab\n" * 2**20))
    with LineReader(str(tmp_path / "log"), 100, 3 * 2**10) as reader:
        assert [len(block) for block in reader.blocks()] == [2**10] * 2**10


def test_a_damaged_gzip_ends_at_the_damage(tmp_path):
    """What cannot be decompressed is noted, not raised."""
    packed = bytearray(gzip.compress(bytes(range(256)) * 100, mtime=0))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "log").write_bytes(packed)
    _, reader = read(tmp_path / "log")
    assert reader.notes == ["damaged_file"]


def test_a_line_over_the_limit_is_skipped_and_measured(tmp_path):
    """Only its head is kept, its neighbours are whole, and the hashes are those of the file."""
    content = b"a\n" + b"b" * 5000 + b"\nc\n"
    (tmp_path / "log").write_bytes(content)
    found, reader = read(tmp_path / "log", limit=1000, chunk=64)
    assert [(line.num_bytes, line.is_too_long) for line in found] == [(1, False), (5000, True), (1, False)]
    assert found[1].text == b"b" * 200
    assert found[1].sha256 == sha(b"b" * 5000)
    assert reader.content_sha256 == sha(content)


def test_a_decompression_bomb_is_one_long_line(tmp_path):
    """300 MB of zeros in 300 kB are skipped a chunk at a time."""
    (tmp_path / "log").write_bytes(gzip.compress(bytes(300 * 2**20), 1))
    (line,), _ = read(tmp_path / "log", limit=2**20)
    assert (line.num_bytes, line.is_too_long, len(line.text)) == (300 * 2**20, True, 200)


def test_a_byte_order_mark_is_skipped_once(tmp_path):
    """Only at the start of the file; the first line begins after it."""
    (tmp_path / "log").write_bytes(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    found, reader = read(tmp_path / "log")
    assert [(line.text, line.byte_offset) for line in found] == [(b"a", 3), (b"\xef\xbb\xbfb", 5)]
    assert reader.notes == ["utf8_bom"]


def test_only_newlines_end_a_line(tmp_path):
    """U+2028, carriage returns and form feeds stand inside lines."""
    text = "a\u2028b\x0cc\x85d\r".encode()
    (tmp_path / "log").write_bytes(text + b"\nz\n")
    found, _ = read(tmp_path / "log")
    assert [line.text for line in found] == [text, b"z"]


def test_a_last_line_without_newline_is_unsettled_until_told(tmp_path):
    """It may have been cut; its reader decides."""
    (tmp_path / "log").write_bytes(b"a\nbc")
    found, reader = read(tmp_path / "log")
    assert [line.is_terminated for line in found] == [True, False]
    assert (reader.bytes_read, reader.content_sha256) == (2, sha(b"a\n"))
    reader.settle_tail()
    assert (reader.bytes_read, reader.content_sha256) == (4, sha(b"a\nbc"))


def test_reading_goes_on_where_it_ended(tmp_path):
    """The newline of a line that was settled without one does not make a blank line."""
    (tmp_path / "log").write_bytes(b"a\nbc\nd\n")
    with LineReader(str(tmp_path / "log"), 100, 4) as reader:
        assert reader.skip(4, sha(b"a\nbc"))
        assert [(line.text, line.byte_offset) for block in reader.blocks() for line in block] == [(b"d", 5)]
        assert reader.content_sha256 == sha(b"a\nbc\nd\n")


def test_a_changed_beginning_is_noticed(tmp_path):
    """Neither other content nor a shorter file passes for what was read."""
    (tmp_path / "log").write_bytes(b"abc\n")
    for num_bytes, content in ((4, b"abd\n"), (8, b"abc\nabc\n")):
        with LineReader(str(tmp_path / "log"), 100) as reader:
            assert not reader.skip(num_bytes, sha(content))
