"""A landing that is killed with -9 at any moment, and then run again, equals an unbroken one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.land import land_calls
from ingest.settings import LogSettings
from tests.ingest.hand_made import DEPLOYMENTS, NOW, first_call, write
from warehouse.lake import Lake

SETTINGS = LogSettings(batch_bytes=4096)
NUM_CALLS = 24

_DIES = """
import os, signal, sys
from ingest.land import land_calls
from pathlib import Path
from tests.ingest.hand_made import DEPLOYMENTS, NOW
from tests.ingest.test_killed import SETTINGS
from warehouse.lake import Lake

left = int(sys.argv[3])

def die(*said):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

with Lake.create(Path(sys.argv[1])) as lake:
    land_calls(lake, [sys.argv[2]], deployments=DEPLOYMENTS, settings=SETTINGS, now=NOW, progress=die)
"""


def content(lake: Lake) -> tuple[list[dict], list[dict]]:
    """The calls, and how far the file was read."""
    calls = lake.read("calls", order_by=["call_id"]).drop_columns(["user_hash"]).to_pylist()
    counted = lake.read("current_source_files").drop_columns(["num_readings"]).to_pylist()
    return calls, counted


@pytest.mark.slow
@pytest.mark.parametrize("moment", [1, 2, 6])
def test_a_killed_landing_goes_on_where_its_last_commit_ended(tmp_path: Path, moment: int) -> None:
    """Killed while a batch is read or right after it was committed: nothing lost, nothing doubled."""
    lines = [first_call(trace_id=f"t{n}") for n in range(NUM_CALLS)]
    path = write(tmp_path / "log", *lines, lines[0], b"oops")
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _DIES, str(tmp_path / "broken"), path, str(moment)]
    died = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, check=False)
    assert died.returncode == -signal.SIGKILL
    with Lake.create(tmp_path / "broken") as broken, Lake.create(tmp_path / "whole") as whole:
        assert broken.read("calls").num_rows < NUM_CALLS
        for lake in (broken, whole):
            land_calls(lake, [path], deployments=DEPLOYMENTS, settings=SETTINGS, now=NOW)
        assert content(broken) == content(whole)
        assert whole.read("calls").num_rows == NUM_CALLS
