"""The spool: signed webhooks kept on disk before their sender is told so, as lines that are read like any outcome file.

One file a day, appended to. A file a delivery would be as safe, but reading costs a row of the ledger and a commit for
each file, and a file that grew is read on from where the last reading ended.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from schemas.errors import InputError

KEPT_HEADERS = ("webhook-id", "webhook-timestamp")
"""The signature was checked on the raw bytes, which the spool does not keep, so it is not kept either."""

_BLOCK = 2**16
"""Bytes that are read at once to find the end of the last whole line. Convention, untested."""


class Spool:
    """A folder of deliveries; any number of threads and processes may write to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def keep(self, headers: Mapping[str, str], body: bytes, *, now: datetime) -> Path:
        """Append one delivery to the file of the day; it is on the disk when this returns.

        `body` must be JSON (`InputError` otherwise); its numbers and texts are kept as they were written. Part of a
        line that a crash left is taken away first: its sender was never told that it was kept.
        """
        line = delivery_line(headers, body)
        path = self._folder / f"webhooks-{now:%Y-%m-%d}.jsonl"
        with _locked(path) as descriptor:
            end = _end_of_lines(descriptor)
            os.ftruncate(descriptor, end)
            try:
                _write(descriptor, line, end)
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, end)  # a full disk must not leave half a line before the next
                raise
            if end == 0:
                _sync_folder(self._folder)
        return path


def delivery_line(headers: Mapping[str, str], body: bytes) -> bytes:
    """One delivery as one line of JSON; raises InputError for a body that is no JSON."""
    try:
        body.decode("utf-8")
        compact = msgspec.json.format(body, indent=-1)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"the body is no JSON: {error}; expected JSON in UTF-8: mend the sender") from error
    kept = {name: headers[name] for name in KEPT_HEADERS if name in headers}
    return b'{"headers":' + msgspec.json.encode(kept) + b',"body":' + compact + b"}\n"


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file, private to its owner, held by one writer at a time: the lock is of the open file, so threads count."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _end_of_lines(descriptor: int) -> int:
    """Where the last whole line ends."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _write(descriptor: int, line: bytes, offset: int) -> None:
    rest = memoryview(line)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file as lasting as its content."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
