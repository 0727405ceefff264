"""A lock that a dead holder cannot keep: `flock` on a file, held by the kernel for the life of the holder."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import LakeBusyError

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK_TIMEOUT_S = 60.0
"""Seconds that a writer waits for another writer. A commit takes well under one (measured 2026-11-30); the rest is
room for the longest transaction of ours, the landing of one log file. Convention, untested."""
_POLL_S = 0.02
_MAX_NOTE_BYTES = 200


@contextmanager
def locked(path: Path, *, purpose: str, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the lock on `path` for the length of a `with` block; wait at most `timeout_s`, then `LakeBusyError`.

    The file says who holds the lock and since when; that text is for the message only. A holder that dies, by
    `kill -9` too, frees the lock at once.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _wait(descriptor, path, timeout_s)
        note = f"process {os.getpid()} ({purpose}) since {datetime.now(UTC).isoformat(timespec='seconds')}\n"
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, note.encode()[:_MAX_NOTE_BYTES], 0)
        yield
        os.truncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _wait(descriptor: int, path: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() < deadline:
                time.sleep(_POLL_S)
                continue
            holder = os.pread(descriptor, _MAX_NOTE_BYTES, 0).decode(errors="replace").strip() or "another process"
            raise LakeBusyError(
                f"{path}: locked by {holder}, still after {timeout_s:g} s; expected it to be free. "
                "Wait until that process ends, then run the same command again: nothing was written."
            ) from error
        return
