"""A night that is killed with -9 at any moment, and then run again, equals an unbroken one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ingest.night_made import (
    BROKEN,
    CALLS,
    FOREIGN,
    SCORES,
    STRANGE,
    fresh,
    land,
    ledger_adds_up,
    put_together,
    said,
    written,
)
from warehouse.lake import Lake

NIGHT = (*CALLS[:2], *CALLS[3:6], CALLS[0], *SCORES[:2], BROKEN[0], *CALLS[11:13], FOREIGN[1], STRANGE[0], CALLS[9])
NUM_LANDING = len(set(NIGHT)) - 2
SETTINGS = {"batch_bytes": 1500, "assemble_tokens": 100}
"""Small, so that there are several commits of both kinds."""
ROOT = Path(__file__).parents[2]
Run = Callable[..., list[int]]


@pytest.fixture(scope="module")
def victim() -> Iterator[Run]:
    """Runs jobs side by side in processes of their own; returns how each ended."""
    command = [sys.executable, "-m", "tests.ingest.victim"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "LC_ALL": "C"}
    ) as process:

        def run(*jobs: dict[str, Any]) -> list[int]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([{"settings": SETTINGS, **job} for job in jobs]) + "\n")
            process.stdin.flush()
            ended: list[int] = json.loads(process.stdout.readline())
            return ended

        yield run
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file with a small night."""
    path = tmp_path_factory.mktemp("night") / "log.gz"
    path.write_bytes(written("gzip", [NIGHT]))
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, empty_lake: Path, logs: Path) -> dict[str, Any]:
    """What the lake says of them without a break."""
    with fresh(empty_lake, tmp_path_factory.mktemp("whole") / "lake") as lake:
        assert land(lake, logs).num_landed == NUM_LANDING
        put_together(lake)
        return said(lake)


def _resumed(root: Path, logs: Path) -> dict[str, Any]:
    """What a lake says after the run that follows a break, whose counts add up."""
    with Lake.open(root) as lake:
        land(lake, logs, **SETTINGS)
        put_together(lake, **SETTINGS)
        ledger_adds_up(lake)
        (total,) = lake.read("current_source_files").to_pylist()
        assert (total["num_lines"], total["num_landed"]) == (len(NIGHT), NUM_LANDING)
        return said(lake)


def _made(empty_lake: Path, root: Path) -> str:
    fresh(empty_lake, root).close()
    return str(root)


@pytest.mark.slow
@pytest.mark.parametrize("moments", [("before", 4), ("after", 1), ("parquet", 6)], ids=lambda one: one[0])
def test_killed_at_each_commit_it_goes_on_where_the_last_one_ended(
    tmp_path: Path, empty_lake: Path, victim: Run, logs: Path, whole: dict[str, Any], moments: tuple[str, int]
) -> None:
    """After each commit, before every fourth and in the middle of every sixth Parquet file: nothing lost or doubled."""
    where, step = moments
    ended, at = [-signal.SIGKILL], 1 - step
    while ended != [0]:
        at += step
        root = tmp_path / str(at)
        lake = _made(empty_lake, root)
        ended = victim({"lake": lake, "files": [str(logs)], "die": where, "at": at})
        assert ended in ([-signal.SIGKILL], [0])
        assert _resumed(root, logs) == whole
    assert at > 5


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(delays=st.lists(st.floats(0.0, 0.6), min_size=1, max_size=3))
def test_killed_at_any_moment_and_again_it_goes_on(
    empty_lake: Path, victim: Run, logs: Path, whole: dict[str, Any], delays: list[float]
) -> None:
    """One run after the other on the same lake, each killed after so many seconds, if it lasts so long."""
    with tempfile.TemporaryDirectory() as folder:
        lake = _made(empty_lake, Path(folder) / "lake")
        for delay in delays:
            ended = victim({"lake": lake, "files": [str(logs)], "die": "time", "at": delay})
            assert ended in ([-signal.SIGKILL], [0])
        assert _resumed(Path(lake), logs) == whole


@pytest.mark.slow
def test_two_processes_that_do_the_same_at_once_both_end_well(
    tmp_path: Path, empty_lake: Path, victim: Run, logs: Path, whole: dict[str, Any]
) -> None:
    """Each takes what the other has left; so with one that only puts traces together meanwhile."""
    lake = _made(empty_lake, tmp_path / "lake")
    both = {"lake": lake, "files": [str(logs)]}
    assert victim(both, both, {"lake": lake, "rounds": 5}) == [0, 0, 0]
    assert _resumed(tmp_path / "lake", logs) == whole
