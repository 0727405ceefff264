"""The commands that only read: what is in the logs, in the lake and in the last report."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from flows import show
from flows.cli import AsJson, LogFormat, SettingsFile, app
from flows.console import ProgressBars, print_table, say
from flows.doctor import examine
from flows.exits import Exit
from flows.render import Format, render_rows
from flows.settings import DEFAULT_FILE, load_settings
from schemas.errors import UsageError
from warehouse.lake import Lake
from warehouse.query import questions


@app.command(epilog="Example: tracemill check examples/refund_desk/logs/2026-11-27.jsonl")
def check(
    logs: Annotated[list[str], typer.Argument(help="Log files.")],
    settings_file: Annotated[Path | None, typer.Option("--settings", help="A settings file for [deployments].")] = None,
    log_format: LogFormat = None,
    as_json: AsJson = False,
) -> None:
    """Say what is in these logs, whether it is trainable, and what to switch on; needs no lake and no settings."""
    from ingest.look import look
    from ingest.settings import LogSettings

    if settings_file is None and DEFAULT_FILE.is_file():
        settings_file = DEFAULT_FILE
    settings = load_settings(settings_file) if settings_file is not None else None
    reading = settings.logs if settings is not None else LogSettings()
    if log_format is not None:
        reading = reading.model_copy(update={"format": log_format})
    with ProgressBars() as bars:
        summary = look(
            logs,
            deployments=settings.deployments if settings is not None else {},
            settings=reading,
            progress=bars,
        )
    show.looked(summary, as_json=as_json)
    if summary.num_calls == 0:
        raise typer.Exit(Exit.NO_GO)


@app.command(epilog="Example: tracemill report --open")
def report(
    settings_file: SettingsFile = DEFAULT_FILE,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """The latest data-quality report: its path, or its JSON twin."""
    settings = load_settings(settings_file)
    with Lake.open(settings.lake.root, read_only=True) as lake:
        reports = [row["report_uri"] for row in lake.read("current_runs", order_by=("started_at",)).to_pylist()]
    found = [Path(uri) for uri in reports if uri is not None and Path(uri).is_file()]
    if not found:
        raise UsageError("no report yet; expected at least one finished night: run `tracemill nightly` first")
    if as_json:
        typer.echo(found[-1].with_suffix(".json").read_text(encoding="utf-8"), nl=False)
        return
    say(str(found[-1]))
    if open_browser:
        webbrowser.open(found[-1].as_uri())


@app.command(epilog="Example: tracemill sql staleness_by_version --format csv")
def sql(
    query: Annotated[str | None, typer.Argument(help="SQL, or the name of a saved question; none: list them.")] = None,
    settings_file: SettingsFile = DEFAULT_FILE,
    param: Annotated[list[str] | None, typer.Option("--param", help="name=value for the query; repeatable.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print the rows.")] = Format.table,
    out_file: Annotated[Path | None, typer.Option("--out", help="Write the rows here; needed for parquet.")] = None,
) -> None:
    """Ask the lake, read-only: one SQL statement, or a saved question with its parameters."""
    if query is None:
        print_table("saved questions", ("name", "question"), [(_bare(q.name), q.question) for q in questions()])
        return
    values = dict(_split_param(text) for text in param or [])
    names = {_bare(question.name) for question in questions()}
    if query.isidentifier() and query not in names:
        raise UsageError(f"no saved question {query!r}; expected SQL, or one of: {', '.join(sorted(names))}")
    with Lake.open(load_settings(settings_file).lake.root, read_only=True) as lake:
        rows = lake.query(query, **values) if query in names else lake.sql(query, values or None)
    render_rows(rows, output, out_file)


def _bare(name: str) -> str:
    return name.removeprefix("questions/")


def _split_param(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--param {text!r}; expected name=value, such as --param trust=0.01")
    return name, value


@app.command(epilog="Example: tracemill policies --json")
def policies(settings_file: SettingsFile = DEFAULT_FILE, as_json: AsJson = False) -> None:
    """The policy versions: which is current, what each was trained from."""
    columns = ("policy_version", "optimizer_step", "state", "parent_version", "method", "run_id", "checkpoint_uri")
    _print_view("current_policies", "policies", columns, "optimizer_step", settings_file, as_json)


@app.command(epilog="Example: tracemill runs")
def runs(settings_file: SettingsFile = DEFAULT_FILE, as_json: AsJson = False) -> None:
    """The runs, oldest first: what each came to, and why."""
    columns = ("run_id", "night", "state", "decision", "exit_code", "base_policy", "new_policy", "sentence")
    _print_view("current_runs", "runs", columns, "started_at", settings_file, as_json)


def _print_view(
    view: str, title: str, columns: tuple[str, ...], order: str, settings_file: Path, as_json: bool
) -> None:
    with Lake.open(load_settings(settings_file).lake.root, read_only=True) as lake:
        rows = lake.read(view, order_by=(order,))
    if as_json:
        render_rows(rows, Format.json, None)
    else:
        print_table(title, columns, [[row[name] for name in columns] for row in rows.to_pylist()])


@app.command(epilog="Example: tracemill trace a4c38fb1d62ce2ce1af15f3292d389dc")
def trace(
    trace_id: Annotated[str, typer.Argument(help="The trace.")],
    settings_file: SettingsFile = DEFAULT_FILE,
    as_json: AsJson = False,
) -> None:
    """Everything known of one trace: sequences, calls, outcomes, verdicts, scores, updates."""
    with Lake.open(load_settings(settings_file).lake.root, read_only=True) as lake:
        parts = {
            name: lake.read(name, where={"trace_id": trace_id}).to_pylist()
            for name in ("current_traces", "calls", "outcomes", "verdicts", "rescored", "replays")
        }
    if not any(parts.values()):
        raise UsageError(f"no trace {trace_id!r} in the lake; expected a trace id as the log carries it")
    if as_json:
        typer.echo(json.dumps(parts, default=str))
        return
    show.trace(trace_id, parts)


@app.command(epilog="Example: tracemill doctor")
def doctor(settings_file: SettingsFile = DEFAULT_FILE, as_json: AsJson = False) -> None:
    """Versions, extensions, settings, disk, clock and the integrity of the lake."""
    examinations = examine(settings_file)
    if as_json:
        typer.echo(json.dumps([{"name": e.name, "ok": e.is_ok, "detail": e.detail} for e in examinations]))
    else:
        print_table(
            "doctor", ("", "what", "found"), [("ok" if e.is_ok else "FAULT", e.name, e.detail) for e in examinations]
        )
    if not all(e.is_ok for e in examinations):
        raise typer.Exit(Exit.FAULT)
