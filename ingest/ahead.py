"""Lines read ahead: bytes are read, decompressed, split and hashed in a thread while the lines before are decoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Full, Queue
from threading import Event, Thread

from ingest.lines import Line, Reader

DEPTH = 2
"""Blocks that are read ahead of the one in use: memory is so many chunks more. Convention, untested."""

_WAIT_S = 0.1


@dataclass(frozen=True, slots=True)
class Settled:
    """How much of a file is read and done with, as the ledger keeps it."""

    bytes_read: int
    content_sha256: str
    bytes_taken: int
    notes: tuple[str, ...]

    @classmethod
    def of(cls, reader: Reader) -> Settled:
        """Where the reader stands now."""
        return cls(reader.bytes_read, reader.content_sha256, reader.bytes_taken, tuple(reader.notes))


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines with their hashes, empty for an empty line, and where the file stands behind them."""

    lines: list[Line]
    sha256s: list[str]
    settled: Settled


@contextmanager
def read_ahead(reader: Reader) -> Iterator[Iterator[Block]]:
    """The blocks of a reader in order, each ready before it is asked for.

    What the reader raises is raised where the blocks are used. Left early, the reading ends with the block at work.
    """
    queue: Queue[Block | BaseException | None] = Queue(DEPTH)
    is_over = Event()
    thread = Thread(target=_fill, args=(reader, queue, is_over), name="read-ahead", daemon=True)
    thread.start()
    try:
        yield _drain(queue)
    finally:
        is_over.set()
        thread.join()


def _fill(reader: Reader, queue: Queue[Block | BaseException | None], is_over: Event) -> None:
    last: BaseException | None = None
    try:
        for lines in reader.blocks():
            if not _put(
                queue,
                Block(lines, [line.sha256 if line.num_bytes else "" for line in lines], Settled.of(reader)),
                is_over,
            ):
                return
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that uses the blocks
        last = error
    _put(queue, last, is_over)


def _put(queue: Queue[Block | BaseException | None], item: Block | BaseException | None, is_over: Event) -> bool:
    while not is_over.is_set():
        try:
            queue.put(item, timeout=_WAIT_S)
        except Full:
            continue
        return True
    return False


def _drain(queue: Queue[Block | BaseException | None]) -> Iterator[Block]:
    while (item := queue.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        yield item
