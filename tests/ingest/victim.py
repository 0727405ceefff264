"""A process that lands and assembles on demand, and kills itself where it is told to.

    python -m tests.ingest.victim

Each line of standard input is one job: the lake, the files, and where to die. Each job runs in a fork, which has no
time to clean up; its answer is the wait status of each fork. Imports are paid once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from ingest import workers
from ingest.assemble import assemble
from ingest.land import land_calls
from ingest.settings import LogSettings
from tests.ingest.hand_made import DEPLOYMENTS, NOW
from warehouse import store, transaction
from warehouse.lake import Lake


def main() -> None:
    """Serve jobs until standard input ends."""
    for text in sys.stdin:
        pids = []
        for job in json.loads(text):
            pid = os.fork()
            if pid == 0:
                _run(job)
            pids.append(pid)
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]), flush=True)


def _run(job: dict[str, Any]) -> None:
    """One job, in a fork that never returns."""
    code = 1
    try:
        _arm(job.get("die"), job.get("at", 0))
        if job.get("workers"):
            workers.MIN_BYTES = 1
        settings = LogSettings(**job.get("settings", {}))
        with Lake.open(Path(job["lake"])) as lake:
            for _ in range(job.get("rounds", 1)):
                if job.get("files"):
                    land_calls(lake, job["files"], deployments=DEPLOYMENTS, settings=settings, now=NOW)
                if job.get("assembles", True):
                    assemble(lake, deployments=DEPLOYMENTS, settings=settings, now=NOW)
        code = 0
    finally:
        sys.stderr.flush()
        if code:
            import traceback

            traceback.print_exc()
        os._exit(code)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(where: str | None, at: float) -> None:
    """Arrange the death: before or after the commit of that number, with that Parquet file half written, or in time."""
    if where == "time":
        timer = threading.Timer(at, _die)
        timer.daemon = True
        timer.start()
    elif where in ("before", "after"):
        _around_commit(where, int(at))
    elif where == "parquet":
        _in_parquet(int(at))


def _around_commit(where: str, at: int) -> None:
    commit = transaction.Transaction._commit
    counted = iter(range(1, 10**6))

    def dying(self: transaction.Transaction) -> None:
        number = next(counted)
        if where == "before" and number == at:
            _die()
        commit(self)
        if where == "after" and number == at:
            _die()

    transaction.Transaction._commit = dying  # type: ignore[method-assign]  # to die here is what it is for


def _in_parquet(at: int) -> None:
    write = store._write
    counted = iter(range(1, 10**6))

    def dying(table: Any, rows: Any, path: Path) -> None:
        write(table, rows, path)
        if next(counted) == at:
            os.truncate(path, path.stat().st_size // 2)
            _die()

    store._write = dying


if __name__ == "__main__":
    main()
