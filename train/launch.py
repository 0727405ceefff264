"""Training in several processes: a job on disk, torchrun over it, and what the ranks had to say."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from schemas import errors
from schemas.errors import TracemillError, TrainingError
from schemas.progress import Progress
from train.commit import commit
from train.registry import ModelSettings
from train.replay import TrainReport, TrainSettings

JOB = "job.json"
"""File of a run's folder that tells every rank what to train."""
WORKER = "train.worker"
"""Module that each rank runs."""
_LOG = "ranks.log"
_LAST_CHARACTERS = 600
_PR_SET_PDEATHSIG = 1
_SECONDS_TO_END = 60.0
"""How long torchrun may take to end its ranks: it gives them 30 s itself."""
_DIED = re.compile(r"exitcode: (-?\d+)\) local_rank: (\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """All that a rank has to know."""

    lake_root: Path
    model: ModelSettings
    settings: TrainSettings
    run_id: str
    run_folder: Path
    now: datetime

    def save(self) -> Path:
        """Write the job into the run's folder, whole or not at all."""
        path = self.run_folder / JOB
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = {
            "lake_root": str(self.lake_root.resolve()),
            "model": self.model.model_dump(mode="json"),
            "settings": self.settings.model_dump(mode="json"),
            "run_id": self.run_id,
            "run_folder": str(self.run_folder.resolve()),
            "now": self.now.isoformat(),
        }
        temporary = path.with_suffix(".writing")
        temporary.write_text(json.dumps(content, indent=2) + "\n")
        commit(temporary, path)
        return path

    @staticmethod
    def load(path: Path) -> Job:
        """Read a job back."""
        content: dict[str, Any] = json.loads(path.read_text())
        return Job(
            lake_root=Path(content["lake_root"]),
            model=ModelSettings(**content["model"]),
            settings=TrainSettings(**content["settings"]),
            run_id=content["run_id"],
            run_folder=Path(content["run_folder"]),
            now=datetime.fromisoformat(content["now"]),
        )


def train_in_ranks(job: Job, progress: Progress) -> TrainReport:
    """Run the job in `settings.processes` processes of this machine, and read its report.

    A rank that dies takes the others with it; what was checkpointed stays, and the same call goes on from there.
    """
    path = job.save()
    for stale in job.run_folder.glob("error-*.json"):
        stale.unlink()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    command += [str(job.settings.processes), "-m", WORKER, str(path)]
    # One thread a rank is torchrun's own choice as well; a number that the user has set stays.
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    with (
        (job.run_folder / _LOG).open("w") as log,
        subprocess.Popen(  # noqa: S603 - our own interpreter, with the path of a file that we wrote
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - it makes one system call
        ) as ranks,
    ):
        try:
            _listen(ranks, progress)
            code = ranks.wait()
        except BaseException:
            _end(ranks)
            raise
    if code:
        raise _failure(job, code)
    return TrainReport.load(job.run_folder / "report.json")


def end_with_parent() -> None:
    """Have the kernel end this process when the one that started it is gone, however it went; Linux alone can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(ranks: subprocess.Popen[str]) -> None:
    """End torchrun in the way in which it takes its ranks along; each of them is a session of its own."""
    ranks.terminate()
    try:
        ranks.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        ranks.kill()


def _listen(ranks: subprocess.Popen[str], progress: Progress) -> None:
    """Hand on what the first rank says of its progress."""
    for line in ranks.stdout or ():
        if line.startswith("{"):
            told = json.loads(line)
            progress(told["stage"], told["done"], told["total"], told["unit"], told["note"])


def _failure(job: Job, code: int) -> TracemillError:
    """The first rank's own error where one could still say it; else which one died, and the end of the log."""
    for path in sorted(job.run_folder.glob("error-*.json")):
        told = json.loads(path.read_text())
        kind: type[TracemillError] = getattr(errors, told["kind"])
        return kind(told["message"])
    end = (job.run_folder / _LOG).read_text(errors="replace")
    died = _DIED.search(end)
    said = f"rank {died[2]} ended with {died[1]}" if died else end[-_LAST_CHARACTERS:].strip()
    return TrainingError(
        f"run {job.run_id}: training in {job.settings.processes} processes ended with code {code} ({said}); expected "
        f"all of them to finish; see {job.run_folder / _LOG}; the last checkpoint is kept, and a rerun goes on"
    )
