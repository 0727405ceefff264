"""Several processes, each landing one file at a time: what `land_calls` uses for many large files.

A worker is this module run as a program. It is told its job in one JSON line, then the name of one file after the
other, and answers with lines of progress and one report a file. A worker whose parent has died finds its pipe closed
and ends; what it committed is in the ledger.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import IO, Any

from ingest.reading import Reading
from ingest.report import FileReport
from ingest.settings import LogSettings
from ingest.stored import size_if_there
from schemas import errors
from schemas.errors import TracemillError
from schemas.progress import Progress

MIN_BYTES = 600 * 10**6
"""Bytes of changed files from which on processes pay for their start. Measured 2026-11-30, two cores and two files of
vLLM lines: at 300 MB two processes take 1.2 times as long as one, at 1.2 GB 0.77 times."""


def num_workers(settings: LogSettings, num_files: int, num_bytes: int) -> int:
    """How many processes these changed files are worth; 1 stands for this one."""
    if num_bytes < MIN_BYTES:
        return 1
    return max(1, min(num_files, settings.max_processes or _num_cores()))


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def land_in_processes(
    root: Path, reading: Reading, files: Sequence[str], number: int, progress: Progress
) -> list[FileReport]:
    """Land the files with so many processes; reports in the order of the files.

    The first error of a worker is raised here, of its own class, once the others have finished their files.
    """
    job = {"root": str(root), "reading": reading.as_json()}
    waiting = deque(sorted(files, key=size_if_there, reverse=True))
    tally = _Tally(sum(size_if_there(file) for file in files), progress)
    with ThreadPoolExecutor(number) as pool:
        found = [pool.submit(_drive, job, waiting, tally) for _ in range(number)]
    reports = {report.uri: report for one in found for report in one.result()}
    return [reports[file] for file in files]


class _Tally:
    """Adds up what the workers have read."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._done: dict[str, int] = {}
        self._total = total
        self._progress = progress
        self._lock = Lock()

    def tell(self, file: str, stage: str, done: int) -> None:
        """Note how far a file is read, and show the sum."""
        with self._lock:
            self._done[file] = done
            self._progress(stage, sum(self._done.values()), self._total, "bytes", Path(file).name)


def _drive(job: Mapping[str, Any], waiting: deque[str], tally: _Tally) -> list[FileReport]:
    """One worker process through as many files as it gets to."""
    reports = []
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(  # noqa: S603 - our own module
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", cwd="/"
    ) as worker:
        try:
            _ask(worker, job, "the first file")
            while waiting:
                try:
                    file = waiting.popleft()
                except IndexError:  # another thread took the last one
                    break
                _ask(worker, {"file": file}, file)
                reports.append(_answer(worker, file, tally))
        except BaseException:  # whatever it was, no other worker begins a file that nobody will hear of
            waiting.clear()
            raise
        finally:
            if worker.stdin is not None:
                with suppress(BrokenPipeError):  # of a worker that is gone
                    worker.stdin.close()
    return reports


def _ask(worker: subprocess.Popen[str], message: Mapping[str, Any], file: str) -> None:
    try:
        _say(worker.stdin, message)
    except BrokenPipeError as error:
        raise _ended(worker, file) from error


def _say(pipe: IO[str] | None, message: Mapping[str, Any]) -> None:
    if pipe is None:
        raise TracemillError("a worker without a pipe; this is a bug: report it")
    pipe.write(json.dumps(message) + "\n")
    pipe.flush()


def _ended(worker: subprocess.Popen[str], file: str) -> TracemillError:
    """What to say of a worker that is gone before it has answered."""
    return TracemillError(
        f"the process that was to read {file} ended with {worker.wait()}; expected a report. Was it killed, or out of "
        "memory? Run the same command again: it goes on where the ledger ends; logs.max_processes = 1 needs less memory"
    )


def _answer(worker: subprocess.Popen[str], file: str, tally: _Tally) -> FileReport:
    for line in worker.stdout or ():
        told = json.loads(line)
        if "report" in told:
            report = told["report"]
            return FileReport(**{**report, "notes": tuple(report["notes"])})
        if "error" in told:
            raise getattr(errors, told["error"])(told["message"])
        tally.tell(file, told["stage"], told["done"])
    raise _ended(worker, file)


def _work(lines: Iterator[str], answer: Callable[[Mapping[str, Any]], None]) -> None:
    """The worker's side: land one file after the other."""
    from ingest.land import land_one
    from warehouse.lake import Lake

    job = json.loads(next(lines))
    reading = Reading.from_json(job["reading"])

    def progress(stage: str, done: int, total: int | None, unit: str, note: str = "") -> None:  # noqa: ARG001
        answer({"stage": stage, "done": done})

    with Lake.open(Path(job["root"])) as lake:
        for line in lines:
            file = json.loads(line)["file"]
            report = land_one(lake, file, reading, progress)
            answer({"report": asdict(report)})


def main() -> None:
    """Serve as a worker on standard input and output."""

    def answer(message: Mapping[str, Any]) -> None:
        _say(sys.stdout, message)

    try:
        _work(iter(sys.stdin), answer)
    except TracemillError as error:
        answer({"error": type(error).__name__, "message": str(error)})
    except BrokenPipeError:  # nobody is there any more
        os._exit(1)


if __name__ == "__main__":
    main()
