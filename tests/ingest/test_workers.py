"""Files landed by processes side by side say what one process says, and no death or error loses a line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest import workers
from ingest.land import land_calls
from ingest.reading import Reading
from ingest.report import LandReport
from ingest.settings import LogSettings
from ingest.workers import num_workers
from schemas.errors import InputError, LakeMissingError, TracemillError
from schemas.progress import Progress, silent
from tests.ingest.hand_made import DEPLOYMENTS, NOW, first_call, write
from tests.ingest.night_made import LANDING, NIGHT, REJECTED, fresh, ledger_adds_up, put_together, said, written
from warehouse.lake import Lake

ROOT = Path(__file__).parents[2]
LINES = [first_call(trace_id=f"t{n}") for n in range(400)]
BATCH_BYTES = 20_000
"""Some twenty lines, so that a file takes seconds."""


@pytest.fixture
def small_files_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any two files are worth two processes."""
    monkeypatch.setattr(workers, "MIN_BYTES", 1)


def land(lake: Lake, *paths: Path | str, progress: Progress = silent, **settings: int) -> LandReport:
    """Land files with two processes at most."""
    return land_calls(
        lake,
        [str(path) for path in paths],
        deployments=DEPLOYMENTS,
        settings=LogSettings(**{"max_processes": 2, **settings}),
        now=NOW,
        progress=progress,
    )


def reading(**settings: int) -> Reading:
    """The same settings, as workers are told them."""
    return Reading(content_kind="calls", deployments=DEPLOYMENTS, settings=LogSettings(**settings), now=NOW)


def children(pid: int) -> list[int]:
    """The processes that a process has started and that run still."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def wait_for(claim: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until it holds."""
    until = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("num_files", "num_bytes", "most", "expected"),
    [(5, 2**40, 3, 3), (2, 2**40, 3, 2), (0, 2**40, 3, 1), (5, workers.MIN_BYTES - 1, 3, 1), (5, 2**40, 1, 1)],
)
def test_there_are_no_more_processes_than_files_or_than_the_settings_allow(num_files, num_bytes, most, expected):
    """And one where the files are small."""
    assert num_workers(LogSettings(max_processes=most), num_files, num_bytes) == expected


@pytest.mark.slow
@pytest.mark.usefixtures("small_files_count")
def test_two_processes_land_what_one_lands(tmp_path: Path, empty_lake: Path):
    """Same tables, same counts of each file in the order of their names, progress to the end; a third file is unchanged."""
    known, first, second = (tmp_path / name for name in ("0.log", "1.log", "2.log"))
    known.write_bytes(written("plain", [NIGHT[:2]]))
    first.write_bytes(written("plain", [NIGHT[:16]]))
    second.write_bytes(written("zstd", [NIGHT[16:]]))
    seen: list[tuple[int, int | None]] = []
    reports, contents = [], []
    for name, most in (("one", 1), ("two", 2)):
        with fresh(empty_lake, tmp_path / name) as lake:
            land(lake, known)
            progress = lambda _stage, done, total, *_more: seen.append((done, total))  # noqa: E731
            reports.append(land(lake, second, known, first, progress=progress, max_processes=most))
            put_together(lake)
            ledger_adds_up(lake)
            contents.append(said(lake))
    assert reports[0] == reports[1]
    assert [file.uri for file in reports[1].files] == [str(known), str(first), str(second)]
    assert reports[1].files[0].state == "unchanged"
    assert (reports[1].num_landed, reports[1].num_rejects) == (len(LANDING) - 2, len(REJECTED))
    assert contents[0] == contents[1]
    size = first.stat().st_size + second.stat().st_size
    assert seen[-1] == (size, size)


@pytest.mark.slow
def test_an_error_in_a_worker_is_raised_of_its_own_class(lake: Lake, tmp_path: Path):
    """A file that is none any more when it is read; what was committed before stays, and a rerun completes."""
    first, second = write(tmp_path / "a", *LINES[:9]), write(tmp_path / "b", LINES[9])

    def take_away(*_said: object) -> None:
        if (tmp_path / "b").is_file():
            (tmp_path / "b").rename(tmp_path / "away")
            (tmp_path / "b").mkdir()

    with pytest.raises(InputError, match="b"):
        workers.land_in_processes(lake.root, reading(), [second, first], 1, take_away)
    assert lake.read("calls").num_rows == 9
    (tmp_path / "b").rmdir()
    (tmp_path / "away").rename(tmp_path / "b")
    assert land(lake, tmp_path).num_landed == 1


@pytest.mark.slow
def test_a_worker_without_a_lake_says_so(tmp_path: Path):
    """By the class of the error, which settles the exit code."""
    with pytest.raises(LakeMissingError):
        workers.land_in_processes(tmp_path / "none", reading(), [write(tmp_path / "a", LINES[0])], 1, silent)


@pytest.mark.slow
@pytest.mark.usefixtures("small_files_count")
def test_a_worker_that_dies_in_a_file_is_an_error_and_a_rerun_completes(lake: Lake, tmp_path: Path):
    """By kill -9, as for want of memory."""
    files = [write(tmp_path / "a", *LINES), write(tmp_path / "b", *LINES[:200], b"oops")]

    def kill(*_said: object) -> None:
        for pid in children(os.getpid()):
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(TracemillError, match="ended with -9"):
        land(lake, *files, progress=kill, batch_bytes=BATCH_BYTES)
    assert lake.read("calls").num_rows < len(LINES)
    land(lake, *files, batch_bytes=BATCH_BYTES)
    ledger_adds_up(lake)
    assert lake.read("calls").num_rows == len(LINES)
    totals = lake.read("current_source_files", order_by=["uri"])["num_lines"].to_pylist()
    assert totals == [len(LINES), 201]


@pytest.mark.slow
def test_a_worker_that_dies_between_two_files_is_the_same_error(lake: Lake, tmp_path: Path):
    """It has answered for one file and cannot be told the next."""
    files = [write(tmp_path / "a", *LINES[:2]), write(tmp_path / "b", LINES[3])]

    def kill_later(*_said: object) -> None:
        wait_for(lambda: lake.read("calls").num_rows == 2)
        time.sleep(1.5)  # the answer is in the pipe by then
        for pid in children(os.getpid()):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not children(os.getpid()))

    with pytest.raises(TracemillError, match="ended with -9"):
        workers.land_in_processes(lake.root, reading(), files, 1, kill_later)


_PARENT = """
import sys, time
from pathlib import Path
from ingest import workers
from ingest.land import land_calls
from ingest.settings import LogSettings
from tests.ingest.hand_made import DEPLOYMENTS, NOW
from warehouse.lake import Lake

workers.MIN_BYTES = 1
settings = LogSettings(max_processes=2, batch_bytes=int(sys.argv[2]))
with Lake.open(Path(sys.argv[1])) as lake:
    land_calls(lake, sys.argv[3:], deployments=DEPLOYMENTS, settings=settings, now=NOW,
               progress=lambda *said: print("read", flush=True))
"""


@pytest.mark.slow
def test_workers_whose_parent_was_killed_end_by_themselves(lake: Lake, tmp_path: Path):
    """Within seconds, in the middle of a file; the next run goes on from what they committed."""
    files = [write(tmp_path / "a", *LINES), write(tmp_path / "b", *LINES[:200], b"oops")]
    command = [sys.executable, "-c", _PARENT, str(lake.root), str(BATCH_BYTES), *files]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "read\n"
        started = children(parent.pid)
        assert started
        parent.kill()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), 10)
    assert lake.read("calls").num_rows < len(LINES)
    land(lake, *files, batch_bytes=BATCH_BYTES)
    ledger_adds_up(lake)
    assert lake.read("calls").num_rows == len(LINES)
