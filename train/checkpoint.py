"""Training state on disk, from which a killed run goes on bit for bit.

A checkpoint is a folder of safetensors, JSON and Parquet that is renamed into place once it is whole; a folder without
its COMPLETE marker, or under a temporary name, never counts. Nothing in it is a pickle.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from schemas.errors import CheckpointError
from train.commit import commit
from train.learner import Learner
from train.optimizer_state import optimizer_tensors, restore_optimizer

COMPLETE = "COMPLETE"
"""Marker of a checkpoint that was written whole."""

_OPTIMIZER = "optimizer.safetensors"
_STATE = "state.json"
_REPLAYS = "replays.parquet"
_RANDOM = "rng"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint on disk."""

    folder: Path
    history: tuple[Mapping[str, Any], ...]
    """The figures of every update so far; their number is the next batch of the plan."""
    replays: pa.Table
    """Rows of `replays` since the checkpoint before it."""

    @property
    def cursor(self) -> int:
        """Batches of the plan that are done."""
        return len(self.history)


def save_checkpoint(
    learner: Learner, root: Path, *, history: Sequence[Mapping[str, Any]], replays: pa.Table, num_kept: int = 2
) -> Checkpoint:
    """Write the state after the updates of `history` under `root`, then drop all but the last `num_kept` checkpoints.

    All ranks call it; the first one writes whole tensors, so that any number of ranks can go on from them.
    """
    folder = root / f"{len(history):06d}"
    temporary = root / f".{folder.name}.writing"
    if learner.ranks.is_first:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    try:
        learner.policy.save(temporary, learner.ranks)
        kept = {_RANDOM: torch.get_rng_state(), **optimizer_tensors(learner.optimizer, learner.parameters)}
        if learner.ranks.is_first:
            save_file(kept, temporary / _OPTIMIZER)
            _finish(learner, temporary, folder, history=history, replays=replays)
    except SafetensorError as error:
        raise CheckpointError(
            f"{temporary}: cannot be written ({error}); expected room for a checkpoint; the one before it is kept: "
            "make room, and run the same command again"
        ) from error
    if learner.ranks.is_first:
        for old in _complete(root)[:-num_kept]:
            shutil.rmtree(old)
    learner.ranks.wait()
    return Checkpoint(folder, tuple(history), replays)


def _finish(
    learner: Learner, temporary: Path, folder: Path, *, history: Sequence[Mapping[str, Any]], replays: pa.Table
) -> None:
    """Write the small files and put the folder in its place."""
    if learner.critic is not None:
        learner.critic.save(temporary)
    state = {"method_state": dict(getattr(learner.method, "state", {})), "history": list(history)}
    (temporary / _STATE).write_text(json.dumps(state, indent=2) + "\n")
    pq.write_table(replays, temporary / _REPLAYS)
    (temporary / COMPLETE).touch()
    commit(temporary, folder)


def latest_checkpoint(root: Path) -> Checkpoint | None:
    """The checkpoint that got furthest, or None."""
    folders = _complete(root)
    return _read(folders[-1]) if folders else None


def checkpoint_at(root: Path, num_updates: int) -> Checkpoint | None:
    """The last checkpoint after at most so many updates; None where there is none, not even an older one."""
    folders = [folder for folder in _complete(root) if int(folder.name) <= num_updates]
    return _read(folders[-1]) if folders else None


def restore(learner: Learner, checkpoint: Checkpoint) -> None:
    """Put optimizer, random numbers and the method's memory back; the weights must be in use already."""
    path = checkpoint.folder / _OPTIMIZER
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error}); expected the optimizer's state; remove the folder to resume from the "
            "checkpoint before it"
        ) from error
    try:
        torch.set_rng_state(tensors.pop(_RANDOM))
        restore_optimizer(learner.optimizer, learner.parameters, tensors)
    except KeyError as error:
        raise CheckpointError(
            f"{path}: state of {error.args[0]!r}, which is no weight that is trained here; expected those that the "
            "run began with; remove the run's folder to train it again"
        ) from error
    if learner.critic is not None:
        learner.critic.load(checkpoint.folder)
    learner.remember(_read_state(checkpoint.folder)["method_state"])


def _read(folder: Path) -> Checkpoint:
    try:
        return Checkpoint(folder, tuple(_read_state(folder)["history"]), pq.read_table(folder / _REPLAYS))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid) as error:
        raise CheckpointError(
            f"{folder}: cannot be read ({error}); expected a whole checkpoint; remove the folder to resume from the "
            "one before it"
        ) from error


def _read_state(folder: Path) -> Mapping[str, Any]:
    state: Mapping[str, Any] = json.loads((folder / _STATE).read_text())
    return state


def _complete(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if not path.name.startswith(".") and (path / COMPLETE).is_file())
