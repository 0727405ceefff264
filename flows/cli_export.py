"""The command that hands admitted batches to another trainer."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows import show
from flows.cli import AsJson, SettingsFile, app
from flows.console import say
from flows.exports import export_run
from flows.settings import DEFAULT_FILE, load_settings

if TYPE_CHECKING:
    from train.handoff.contents import Format


class Target(StrEnum):
    """Where a batch can go."""

    PRIME_RL = "prime-rl"
    TRL = "trl"
    VERL = "verl"
    JSONL = "jsonl"


@app.command(epilog="Example: tracemill export --to jsonl --run 2026-11-28-1a2b3c4d --out batches")
def export(
    to: Annotated[Target, typer.Option("--to", help="The trainer, or jsonl for a loop of your own.")],
    run: Annotated[str | None, typer.Option("--run", help="The run; the last one when left out.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="A new folder; within the run's own folder when left out.")
    ] = None,
    settings_file: SettingsFile = DEFAULT_FILE,
    as_json: AsJson = False,
) -> None:
    """Write the admitted batches of a run for TRL, verl or prime-rl, where that trainer runs the same method."""
    wanted: Format = to.value
    handed = export_run(load_settings(settings_file), to=wanted, run_id=run, out=out)
    if as_json:
        show.print_json(handed)
    else:
        say(str(handed))
