"""Blocks read ahead: in order, with what the reader raises, and no thread left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.ahead import DEPTH, read_ahead
from ingest.line import Line
from ingest.lines import LineReader
from schemas.errors import InputError


class Blocks:
    """A reader of blocks that are given, which raises at their end what it is told to."""

    head = b""
    size_on_disk = 0

    def __init__(self, blocks: Sequence[list[Line]], error: BaseException | None = None) -> None:
        self.notes: list[str] = []
        self.bytes_read = 0
        self.num_given = 0
        self._blocks = blocks
        self._error = error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @property
    def content_sha256(self) -> str:
        """Stands for a hash."""
        return f"after {self.bytes_read}"

    @property
    def bytes_taken(self) -> int:
        """As much as is read."""
        return self.bytes_read

    def skip(self, num_bytes: int, sha256: str) -> bool:  # noqa: ARG002 - a reader's
        """Nothing is skipped."""
        return False

    def settle_tail(self) -> None:
        """There is no tail."""

    def blocks(self) -> Iterator[list[Line]]:
        """The blocks, then the error."""
        for block in self._blocks:
            self.bytes_read += sum(line.num_bytes + 1 for line in block)
            self.num_given += 1
            yield block
        self.notes.append("at_end")
        if self._error is not None:
            raise self._error


def blocks(number: int) -> list[list[Line]]:
    """So many blocks of two lines of one byte."""
    return [[Line(4 * n, 1, b"a"), Line(4 * n + 2, 1, b"b")] for n in range(number)]


def threads() -> list[str]:
    """The threads that read ahead."""
    return [thread.name for thread in threading.enumerate() if thread.name == "read-ahead"]


@given(number=st.integers(0, 9))
def test_blocks_come_in_order_each_with_where_the_file_stands_behind_it(number):
    """Not where the reading ahead has come to; what the reader notes at its end belongs to no block."""
    with read_ahead(Blocks(blocks(number))) as ahead:
        found = list(ahead)
    assert [block.lines for block in found] == blocks(number)
    assert [block.settled.bytes_read for block in found] == [4 * n + 4 for n in range(number)]
    assert [block.settled.content_sha256 for block in found] == [f"after {4 * n + 4}" for n in range(number)]
    assert {block.settled.notes for block in found} <= {()}
    assert all(block.sha256s == [line.sha256 for line in block.lines] for block in found)
    assert threads() == []


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(0, 40), max_size=30), chunk=st.integers(1, 64))
def test_a_file_read_ahead_is_the_file(tmp_path_factory, sizes, chunk):
    """Line by line and settled as without it, whatever the chunk."""
    path = tmp_path_factory.mktemp("ahead") / "log"
    path.write_bytes(b"".join(b"x" * size + b"\n" for size in sizes))
    with LineReader(str(path), 64, chunk) as reader:
        plain = [(lines, reader.bytes_read, reader.content_sha256) for lines in reader.blocks()]
    with LineReader(str(path), 64, chunk) as reader, read_ahead(reader) as ahead:
        found = [(block.lines, block.settled.bytes_read, block.settled.content_sha256) for block in ahead]
    assert found == plain


@pytest.mark.parametrize("error", [InputError("reading failed"), KeyboardInterrupt(), MemoryError()])
def test_what_the_reader_raises_is_raised_behind_the_blocks_before_it(error):
    """Itself, in the thread that uses the blocks."""
    seen = []
    with pytest.raises(type(error)) as caught, read_ahead(Blocks(blocks(5), error)) as ahead:  # noqa: PT012 - what is raised must come from the last question
        for block in ahead:
            seen.append(block.settled.bytes_read)  # noqa: PERF401 - it ends with an error
    assert caught.value is error
    assert seen == [4, 8, 12, 16, 20]
    assert threads() == []


@pytest.mark.parametrize("num_used", [0, 1, 3])
def test_leaving_early_ends_the_reading(num_used):
    """By an error of the user or without one; no more is read than fits ahead, and no thread stays."""
    reader = Blocks(blocks(1000))
    with pytest.raises(ZeroDivisionError), read_ahead(reader) as ahead:  # noqa: PT012 - what is raised must come from the last question
        for _ in range(num_used):
            next(ahead)
        raise ZeroDivisionError
    assert threads() == []
    assert reader.num_given <= num_used + DEPTH + 1


def test_no_more_is_read_ahead_than_the_depth():
    """Memory is bounded however slow the use is."""
    reader = Blocks(blocks(1000))
    with read_ahead(reader) as ahead:
        next(ahead)
        time.sleep(0.3)
        assert reader.num_given <= 1 + DEPTH + 1


def test_an_error_that_nobody_came_to_is_dropped_with_the_reading():
    """The user left before; the file is read again from where its last commit ended."""
    with read_ahead(Blocks(blocks(1), InputError("later"))) as ahead:
        next(ahead)
    assert threads() == []


def test_reading_again_is_reading_ahead_of_nothing(tmp_path: Path):
    """An empty file has no blocks."""
    (tmp_path / "log").touch()
    with LineReader(str(tmp_path / "log"), 30) as reader, read_ahead(reader) as ahead:
        assert list(ahead) == []
