"""Bytes to lines, whatever the file is like."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.line import HEAD_BYTES, Line
from ingest.lines import LineReader


def read(path: Path, *, limit: int = 2**20, chunk: int = 2**20) -> tuple[list[Line], LineReader]:
    """All lines of a file, and its reader afterwards."""
    with LineReader(str(path), limit, chunk) as reader:
        return [line for block in reader.blocks() for line in block], reader


def sha(content: bytes) -> str:
    """SHA-256 as hex."""
    return hashlib.sha256(content).hexdigest()


def as_told(lines: Iterable[Line]) -> list[tuple[object, ...]]:
    """What two readings of a line must agree on."""
    return [(line.byte_offset, line.num_bytes, line.text, line.is_terminated, str(line.fault)) for line in lines]


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


def test_a_line_over_the_limit_is_skipped_and_measured(tmp_path):
    """Only its head is kept, its neighbours are whole, and the hashes are those of the file."""
    content = b"a\n" + b"b" * 5000 + b"\nc\n"
    (tmp_path / "log").write_bytes(content)
    found, reader = read(tmp_path / "log", limit=1000, chunk=64)
    assert [(line.num_bytes, line.fault is not None) for line in found] == [(1, False), (5000, True), (1, False)]
    assert found[1].text == b"b" * 200
    assert found[1].sha256 == sha(b"b" * 5000)
    assert reader.content_sha256 == sha(content)


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


@given(st.binary(max_size=80), st.integers(0, 400), st.binary(max_size=80), st.integers(1, 90))
def test_any_bytes_are_lines_that_lie_where_they_say(tmp_path_factory, content, num_more, end, chunk):
    """Nothing is raised, no byte is lost, and no piece size changes a line."""
    path, limit = tmp_path_factory.mktemp("any") / "log", HEAD_BYTES
    content += b"y" * num_more + end
    path.write_bytes(content)
    found, reader = read(path, limit=limit, chunk=chunk)
    assert as_told(found) == as_told(read(path, limit=limit)[0])
    for line in found:
        text = content[line.byte_offset :][: line.num_bytes]
        assert (line.sha256, text.startswith(line.text)) == (sha(text), True)
    assert reader.content_sha256 == sha(content[: reader.bytes_read])
    with LineReader(str(path), limit, chunk) as again:
        assert again.skip(reader.bytes_read, reader.content_sha256)
        rest = [line for block in again.blocks() for line in block]
        assert as_told(rest) == as_told(line for line in found if line.byte_offset >= reader.bytes_read)


def test_an_array_file_has_its_elements_as_lines(tmp_path):
    """With the bytes of each; the brackets and commas belong to none."""
    (tmp_path / "log").write_bytes(b'\xef\xbb\xbf[{"a": 1},\n {"b": [2]}]\n')
    found, reader = read(tmp_path / "log")
    assert [(line.text, line.byte_offset) for line in found] == [(b'{"a": 1}', 4), (b'{"b": [2]}', 15)]
    assert (reader.bytes_read, reader.notes) == (25, ["utf8_bom"])


@given(st.lists(st.lists(st.integers(0, 99), min_size=1), min_size=1, max_size=6), st.data())
def test_an_array_that_grows_is_read_on(tmp_path_factory, elements, data):
    """Its bracket replaced by further elements, each is read once; an indented array is no different."""
    known = data.draw(st.integers(1, len(elements)))
    indent, chunk = data.draw(st.sampled_from([None, 1])), data.draw(st.integers(1, 40))
    path = tmp_path_factory.mktemp("grown") / "log"
    path.write_text(json.dumps(elements[:known], indent=indent))
    first, before = read(path, chunk=chunk)
    path.write_text(json.dumps(elements, indent=indent) + "\n")
    with LineReader(str(path), 2**20, chunk) as reader:
        assert reader.skip(before.bytes_read, before.content_sha256)
        rest = [line for block in reader.blocks() for line in block]
    assert [json.loads(line.text) for line in (*first, *rest)] == elements


def test_an_array_without_its_end_is_noted(tmp_path):
    """Its whole elements are kept."""
    (tmp_path / "log").write_bytes(b'[{"a": 1},\n{"b": 2}')
    found, reader = read(tmp_path / "log")
    assert [line.is_terminated for line in found] == [True, True]
    assert reader.notes == ["truncated_array"]


def test_a_last_line_that_becomes_longer_is_read_again(tmp_path):
    """It was whole, and now it is another one."""
    (tmp_path / "log").write_bytes(b"a\n12")
    _, reader = read(tmp_path / "log")
    reader.settle_tail()
    for more, is_same in ((b"", True), (b"3\n", False), (b"\n3", True), (b"\r\n", True)):
        (tmp_path / "log").write_bytes(b"a\n12" + more)
        with LineReader(str(tmp_path / "log"), 100) as again:
            assert again.skip(reader.bytes_read, reader.content_sha256) is is_same


def test_a_document_that_was_taken_for_lines_is_read_again(tmp_path):
    """Its first lines looked like a cut line and its neighbour; once it is whole it is one value."""
    (tmp_path / "log").write_bytes(b'{"a":[\n{"b":1}\n')
    found, reader = read(tmp_path / "log")
    assert len(found) == 2
    (tmp_path / "log").write_bytes(b'{"a":[\n{"b":1}\n]}')
    with LineReader(str(tmp_path / "log"), 100) as again:
        assert not again.skip(reader.bytes_read, reader.content_sha256)
    assert [line.text for line in read(tmp_path / "log")[0]] == [b'{"a":[\n{"b":1}\n]}']


@pytest.mark.parametrize(
    "content", ["\ufeff{}\n{}\n".encode("utf-16"), "{}\n{}\n".encode("utf-16-le"), b"PAR1" + b"\n" * 99]
)
def test_a_file_of_another_encoding_is_one_reject(tmp_path, content):
    """Not one a line, and it is not asked about again."""
    (tmp_path / "log").write_bytes(gzip.compress(content))
    (line,), reader = read(tmp_path / "log", chunk=2)
    assert line.fault is not None
    assert (line.num_bytes, line.is_terminated, reader.bytes_read) == (len(content), True, len(content))


def test_a_file_of_newlines_is_blank_lines(tmp_path):
    """And an empty one is none."""
    (tmp_path / "log").write_bytes(b"\n\n\r\n")
    assert [line.text for line in read(tmp_path / "log")[0]] == [b"", b"", b"\r"]
    (tmp_path / "log").write_bytes(b"")
    assert read(tmp_path / "log")[0] == []


def test_a_file_may_be_deleted_or_rotated_while_it_is_read(tmp_path):
    """The reader keeps the file that it opened."""
    path = tmp_path / "log"
    path.write_bytes(b"a\n" * 100)
    with LineReader(str(path), 100, 10) as reader:
        blocks = reader.blocks()
        first = next(blocks)
        path.rename(tmp_path / "log.1")
        path.write_bytes(b"b\n")
        (tmp_path / "log.1").unlink()
        assert len(first) + sum(map(len, blocks)) == 100


def test_a_file_that_shrinks_while_it_is_read_is_noted(tmp_path):
    """The next reading finds other bytes than were read, and begins anew."""
    path = tmp_path / "log"
    path.write_bytes(b"a\n" * 50_000)
    with LineReader(str(path), 100, 1000) as reader:
        blocks = reader.blocks()
        next(blocks)
        path.write_bytes(b"")
        list(blocks)
        assert reader.notes == ["file_changed"]
        seen = reader.bytes_read, reader.content_sha256
    with LineReader(str(path), 100) as again:
        assert not again.skip(*seen)


@pytest.mark.parametrize("chunk", [1, 5, 2**20])
def test_what_is_settled_behind_an_open_element_can_be_passed_over(tmp_path, chunk):
    """Its hash is of the bytes up to the last whole element, though they were framed twice."""
    content = b'[\n{"a":1},\n{"broken": [1,2,\n{"b":1},\n{"c":1},\n{"d":'
    path = tmp_path / "log"
    path.write_bytes(content)
    with LineReader(str(path), 2**20, chunk) as reader:
        lines = [line for block in reader.blocks() for line in block]
        assert [line.is_terminated for line in lines] == [True] * 4 + [False]
        assert reader.bytes_read == content.rindex(b"}") + 1
        assert reader.content_sha256 == hashlib.sha256(content[: reader.bytes_read]).hexdigest()
