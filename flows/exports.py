"""The step that hands a run's admitted batches to another trainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from flows.ledger import Run, runs_of
from flows.steps import run_among, run_folder
from schemas.errors import UsageError
from train.replay import TrainSettings
from warehouse.lake import Lake

if TYPE_CHECKING:
    from flows.settings import TracemillSettings
    from train.handoff.contents import Format
    from train.handoff.write import HandedOver


def export_run(settings: TracemillSettings, *, to: Format, run_id: str | None, out: Path | None) -> HandedOver:
    """The batches of a run, the last one if none is named, in the format of a trainer; the lake is only read.

    Method and options are those that the run was begun under, whatever the settings say now.
    """
    # torch is read when it is needed: every other command starts without it.
    from train.handoff.write import Source, hand_over

    with Lake.open(settings.lake.root, read_only=True) as lake:
        run = run_among(runs_of(lake), run_id)
        source = Source(
            run_id=run.run_id,
            run_folder=run_folder(settings, run),
            lake_snapshot=run.lake_snapshot,
            base_policy=run.base_policy,
            train=_train_settings(run),
        )
        folder = out if out is not None else run_folder(settings, run) / "export" / to
        return hand_over(lake, source, to=to, folder=folder.absolute())


def _train_settings(run: Run) -> TrainSettings:
    """The settings of training that the run was begun under."""
    try:
        return TrainSettings.model_validate(json.loads(run.settings_json)["train"])
    except (ValidationError, KeyError) as error:
        raise UsageError(
            f"run {run.run_id}: its settings of training cannot be read any more ({error}); expected those of this "
            "version; export a run of this version, or validate the night again"
        ) from error
