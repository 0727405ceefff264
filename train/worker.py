"""One rank of a training job: what torchrun starts.

    torchrun --nproc-per-node 8 -m train.worker lake/runs/RUN/job.json

Every rank reads the same job; the first one writes to the lake and to the run's folder. On many nodes each of them runs
this command with torchrun's own rendezvous options, over a folder and a lake that all of them see.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from schemas.errors import TracemillError
from train.launch import Job, end_with_parent
from train.ranks import join, leave
from train.replay import train
from warehouse.lake import Lake


def main(path: Path) -> int:
    """Train the job; returns the exit code of this rank."""
    end_with_parent()
    job = Job.load(path)
    ranks = join(job.model.device)
    try:
        # Whatever the first rank has to bring the lake up to, the others find done.
        if not ranks.is_first:
            ranks.wait()
        with Lake.open(job.lake_root, read_only=not ranks.is_first) as lake:
            if ranks.is_first:
                ranks.wait()
            train(
                lake,
                model=job.model,
                settings=job.settings,
                run_id=job.run_id,
                run_folder=job.run_folder,
                now=job.now,
                clock=lambda: datetime.now(UTC),
                progress=_say,
            )
    except TracemillError as error:
        said = {"kind": type(error).__name__, "message": str(error)}
        (job.run_folder / f"error-{ranks.number}.json").write_text(json.dumps(said) + "\n")
        return 1
    leave()
    return 0


def _say(stage: str, done: int, total: int | None, unit: str, note: str = "") -> None:
    """One line of JSON a message, for whoever started the ranks."""
    print(json.dumps({"stage": stage, "done": done, "total": total, "unit": unit, "note": note}), flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
