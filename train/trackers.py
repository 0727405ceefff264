"""Figures of the updates told to TensorBoard, MLflow or Weights & Biases, each through its own library.

None is imported unless it is chosen, and none needs a network unless its own environment variables say so. A resumed
run goes on in the same tracker run, and no update is told twice. What a tracker cannot be told is in metrics.jsonl.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from schemas.errors import SettingsError
from schemas.settings import dotted

TrackerName = Literal["mlflow", "tensorboard", "wandb"]

PROJECT = "tracemill"
"""Experiment of MLflow and project of W&B, unless MLFLOW_EXPERIMENT_NAME or WANDB_PROJECT names another."""

LONGEST_PARAMETER = 500
"""Characters of a setting that MLflow keeps: the limit of its versions before 2.8, which servers may still have."""

_RUN_TAG = "tracemill.run_id"


class Tracker(Protocol):
    """One library that is told of updates."""

    errors: tuple[type[Exception], ...]
    """What it raises when it cannot be reached or written to."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Tell it the numbers of update `step`, from 0; an update that it knows already is left alone."""

    def close(self, *, failed: bool) -> None:
        """Write out what is left, and end its run."""


@dataclass
class Trackers:
    """All that were chosen. One that fails is dropped with a note: training goes on without it."""

    opened: dict[str, Tracker]
    notes: list[str] = field(default_factory=list)
    """Which were dropped, at which update and why."""

    def log(self, step: int, figures: Mapping[str, Any]) -> None:
        """Tell every tracker the figures of update `step`, from 0; what is no finite number is left out."""
        numbers = {name: float(value) for name, value in figures.items() if _is_number(value)}
        for name, tracker in list(self.opened.items()):
            try:
                tracker.log(step, numbers)
            except tracker.errors as error:
                del self.opened[name]
                self.notes.append(
                    f"{name} could not be told of update {step} ({error}), nor of those after it; metrics.jsonl has all"
                )

    def close(self, *, failed: bool = False) -> None:
        """End the run of every tracker."""
        for name, tracker in self.opened.items():
            try:
                tracker.close(failed=failed)
            except tracker.errors as error:
                self.notes.append(f"{name} could not be closed ({error}); metrics.jsonl has all updates")
        self.opened = {}


def require_trackers(names: Sequence[TrackerName]) -> None:
    """Refuse a tracker whose package is not installed; imports none."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise SettingsError(
                f"train.trackers: {name!r}, and the package {name} is not installed; expected it beside this program; "
                f"run `pip install 'tracemill[{name}]'`, or take it out of train.trackers"
            )


def open_trackers(
    names: Sequence[TrackerName],
    *,
    folder: Path,
    run_id: str,
    settings: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]] = (),
) -> Trackers:
    """Open each of them on the run `run_id`, begun before or not, with everything local under `folder`.

    `settings` are told once, as plain values that JSON has. `history` holds the figures of the updates that are done
    and kept, which are told to who does not know them; a resumed run makes those after them again. MLflow is told under
    MLFLOW_TRACKING_URI where that is set, else in a SQLite file; W&B writes an offline run, which `wandb sync` uploads,
    unless WANDB_MODE says otherwise.
    """
    require_trackers(names)
    makers: dict[TrackerName, type[_TensorBoardRun | _MlflowRun | _WandbRun]] = {
        "mlflow": _MlflowRun,
        "tensorboard": _TensorBoardRun,
        "wandb": _WandbRun,
    }
    told = _flat(settings)
    num_done = len(history)
    trackers = Trackers({})
    for name in dict.fromkeys(names):
        kind = makers[name]
        try:
            trackers.opened[name] = kind(folder / name, run_id, told, num_done)
        except kind.refusals() as error:
            trackers.notes.append(f"{name} could not be opened ({error}), and is told nothing; metrics.jsonl has all")
    for step, figures in enumerate(history):
        trackers.log(step, figures)
    return trackers


class _TensorBoardRun:
    """Event files in one folder; those of updates that are made again are purged when they are read.

    Every update is flushed before the checkpoint that it is kept by, so that none of those before is missing.
    """

    errors: tuple[type[Exception], ...] = (OSError,)

    @staticmethod
    def refusals() -> tuple[type[Exception], ...]:
        return (OSError,)

    def __init__(self, folder: Path, run_id: str, settings: Mapping[str, str], num_done: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=num_done)
        self._last = num_done - 1
        if not num_done:
            lines = (f"    {name} = {value}" for name, value in settings.items())
            self._writer.add_text("settings", "\n".join([f"run {run_id}", "", *lines]))

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        if step <= self._last:
            return
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()
        self._last = step

    def close(self, *, failed: bool) -> None:
        del failed  # event files have no word for it
        self._writer.close()


class _MlflowRun:
    """A run of MLflow's store, found again by its tag."""

    @staticmethod
    def refusals() -> tuple[type[Exception], ...]:
        from mlflow.exceptions import MlflowException

        return (MlflowException, OSError)

    def __init__(self, folder: Path, run_id: str, settings: Mapping[str, str], num_done: int) -> None:
        from mlflow import MlflowClient

        del num_done  # the store says itself what it knows
        self.errors = self.refusals()
        folder.mkdir(parents=True, exist_ok=True)
        local = f"sqlite:///{(folder / 'mlflow.db').resolve()}"
        self._client: Any = MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or local)
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT, folder)
        found = self._client.search_runs([experiment], filter_string=f"tags.`{_RUN_TAG}` = '{run_id}'", max_results=1)
        if found:
            self._run = found[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
        else:
            self._run = self._client.create_run(experiment, tags={_RUN_TAG: run_id}, run_name=run_id).info.run_id
            for name, value in settings.items():
                self._client.log_param(self._run, name, value[:LONGEST_PARAMETER])
        self._last = self._last_step()

    def _experiment(self, name: str, folder: Path) -> str:
        known = self._client.get_experiment_by_name(name)
        if known is not None:
            return str(known.experiment_id)
        is_local = not os.environ.get("MLFLOW_TRACKING_URI")
        return str(self._client.create_experiment(name, str((folder / "artifacts").resolve()) if is_local else None))

    def _last_step(self) -> int:
        """The last update that the store knows, -1 for none: of every metric, since an update may lack some."""
        names = self._client.get_run(self._run).data.metrics
        return max(
            (each.step for name in names for each in self._client.get_metric_history(self._run, name)), default=-1
        )

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        if step <= self._last:
            return
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, step) for name, value in numbers.items()]
        self._client.log_batch(self._run, metrics=metrics)
        self._last = step

    def close(self, *, failed: bool) -> None:
        self._client.set_terminated(self._run, status="FAILED" if failed else "FINISHED")


class _WandbRun:
    """A run of W&B under the id of ours. Online it says what it knows; offline it is written anew by a resumed run.

    An offline run is a log that W&B buffers, so that a killed process leaves it without its end, or empty (measured
    2026-12-01, wandb 0.31.0).
    """

    @staticmethod
    def refusals() -> tuple[type[Exception], ...]:
        import wandb

        return (wandb.Error, OSError)

    def __init__(self, folder: Path, run_id: str, settings: Mapping[str, str], num_done: int) -> None:
        import wandb

        del num_done
        self.errors = self.refusals()
        folder.mkdir(parents=True, exist_ok=True)
        mode: Any = os.environ.get("WANDB_MODE") or "offline"
        if mode == "offline":
            for told in folder.glob("offline-run-*"):
                if told.name.endswith(f"-{run_id}"):
                    shutil.rmtree(told)
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            id=run_id,
            name=run_id,
            dir=str(folder.parent),  # which W&B puts a folder of that name into
            config=dict(settings),
            resume="allow" if mode == "online" else None,
            mode=mode,
            settings=wandb.Settings(console="off", silent=True),
        )
        self._last = int(self._run.step) - 1 if self._run.resumed else -1

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        if step > self._last:
            self._run.log(dict(numbers), step=step)
            self._last = step

    def close(self, *, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _flat(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings by dotted names, each value as JSON writes it; text as it is."""
    told = {name: value for name, value in dotted(settings).items() if value != {}}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in told.items()}
