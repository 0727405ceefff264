"""A run's admitted batches in one folder, whole or not at all, with a manifest of what they are."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import UsageError
from train.commit import commit
from train.handoff.admitted import AdmittedRun, admitted_run, read_batches
from train.handoff.agreements import VERSIONS, Agreement, agreement, require_form
from train.handoff.contents import Format, Written
from train.methods.catalog import Method, by_name
from train.replay import TrainSettings

if TYPE_CHECKING:
    from warehouse.lake import Lake

MANIFEST = "manifest.json"
"""File that says what the others are, and under which settings they train the same method."""

TRACES = "trace_manifest.parquet"
"""File with a row for each sequence that was handed over, in order: which trace it is of, and what it weighs."""

_ADVANTAGE = {
    "token_mean": "A",
    "trace_mean": "A N / (T B), so that the trainer's mean over N tokens gives a trace 1/(T B)",
    "trace_sum": "A N / B, so that the trainer's mean over N tokens gives a trace 1/B",
}
"""What the advantages of the rows are, by the divisor of the method."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Which run is handed over, and what is known of it beside its verdicts."""

    run_id: str
    run_folder: Path
    lake_snapshot: int | None
    base_policy: str | None
    train: TrainSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class HandedOver:
    """What was written, and how to train on it."""

    folder: str
    format: Format
    run_id: str
    method: str
    num_batches: int
    num_traces: int
    num_sequences: int
    num_action_tokens: int
    num_left: int
    """Admitted traces that the run's plan has no batch for."""
    is_new: bool
    """Whether this call wrote it; the very same content was there before otherwise."""
    settings: Mapping[str, Any]
    """The trainer's settings under which it runs the method; empty for jsonl."""
    notes: tuple[str, ...]

    def __str__(self) -> str:
        done = "wrote" if self.is_new else "already there:"
        head = (
            f"{done} {self.num_batches} batches for {self.format}: {self.num_traces} traces in {self.num_sequences} "
            f"sequences, {self.num_action_tokens} action tokens, of run {self.run_id}"
        )
        lines = [head]
        if self.num_left:
            lines.append(f"{self.num_left} admitted traces are in no batch of the run's plan")
        if self.settings:
            lines.append(f"it is {self.method} under these settings of {self.format} {VERSIONS[self.format]}:")
            lines += [f"  {name} = {json.dumps(value)}" for name, value in self.settings.items()]
        return "\n".join([*lines, *self.notes, self.folder])


def hand_over(lake: Lake, source: Source, *, to: Format, folder: Path) -> HandedOver:
    """Write the batches of a run into `folder` in the format of a trainer, with a manifest beside them.

    Refused with the reason where that trainer would run another method than the run's under its name. A folder that
    holds the same already is left alone; one that holds anything else is refused.
    """
    method = by_name(source.train.method, source.train.options)
    aggregation = None if to == "jsonl" else require_form(to, method).aggregation
    reads_heads = method.needs_records == "top_k" and source.train.heads == "logged"
    run = admitted_run(lake, run_id=source.run_id, run_folder=source.run_folder, reads_heads=reads_heads)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(mode=0o700)
    try:
        written = Written()
        for number, traces in enumerate(read_batches(lake, run)):
            written.add(temporary, number, traces, to=to, method=method, aggregation=aggregation)
        agreed = Agreement(settings={}) if to == "jsonl" else agreement(to, method, written.shapes)
        written.save_traces(temporary / TRACES)
        about = {
            "format": to,
            "trainer_version": VERSIONS.get(to),
            **_facts(source, run, method),
            "advantage": None if aggregation is None else _ADVANTAGE[aggregation],
            "settings": agreed.settings,
            "notes": agreed.notes,
            **_counts(run, written),
            "batches": written.batches,
        }
        _save_manifest(temporary, about)
        is_new = _is_new(temporary, folder)
        if is_new:
            commit(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return HandedOver(
        folder=str(folder),
        format=to,
        run_id=source.run_id,
        method=method.name,
        is_new=is_new,
        settings=agreed.settings,
        notes=agreed.notes,
        **_counts(run, written),
    )


def _counts(run: AdmittedRun, written: Written) -> dict[str, Any]:
    counts = written.counts
    in_batches = {trace.trace_id for batch in run.batches for trace in batch}
    return {**counts, "num_left": run.num_admitted - len(in_batches)}


def _save_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    files = {path.relative_to(folder).as_posix(): _sha256(path) for path in _files(folder)}
    text = json.dumps(_plain({**about, "files": files}), indent=2, allow_nan=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _facts(source: Source, run: AdmittedRun, method: Method) -> dict[str, Any]:
    """Where the batches come from, and what the run trains them with."""
    return {
        "run_id": run.run_id,
        "lake_snapshot": source.lake_snapshot,
        "gate_sha256": run.gate_sha256,
        "base_policy": source.base_policy,
        "batches_are_planned": run.is_planned,
        "method": method.name,
        "options": _options(method),
        "train": source.train.model_dump(mode="json"),
    }


def _options(method: Any) -> dict[str, Any]:
    """Every option of the method as it is used, a correction by its name and its own."""
    return {option.name: _option(getattr(method, option.name)) for option in fields(method)}


def _option(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {"name": getattr(value, "name", type(value).__name__), **asdict(value)}
    return dict(value) if isinstance(value, Mapping) else value


def _plain(value: Any) -> Any:
    """The value as JSON has it: a number that is not finite becomes its name."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_new(temporary: Path, folder: Path) -> bool:
    """Whether the folder is still to be written: False when it holds the same, refused when it holds anything else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return True
    if folder.is_dir():
        mine, theirs = (
            {path.relative_to(root).as_posix(): _sha256(path) for path in _files(root)} for root in (temporary, folder)
        )
        if mine == theirs:
            return False
    raise UsageError(
        f"{folder}: there is something else already; expected no such folder, an empty one, or the same export; name "
        "another with --out, or remove it"
    )
