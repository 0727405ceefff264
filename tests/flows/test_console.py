"""What a person sees."""

import io
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from rich.console import Console

from flows import console
from flows.console import print_table, show
from flows.render import Format, render_rows
from schemas.errors import UsageError

HOSTILE = "\x1b[31mred [bold]x[/bold] \u202e"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0.000123456, "0.0001235"),
        ([1, None], "1, -"),
        (datetime(2026, 11, 28, 1, 2, 3, tzinfo=UTC), "2026-11-28 01:02:03+00:00"),
        (date(2026, 11, 28), "2026-11-28"),
        ("a\x1b[31m", "a\\u001b[31m"),
    ],
)
def test_a_value_is_shown_for_people(value, text):
    """Control characters of a log never reach the terminal."""
    assert show(value) == text


def test_markup_in_data_is_not_read(monkeypatch):
    """A log line can hold what looks like markup, or a sequence for the terminal."""
    buffer = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=buffer, width=200))
    print_table("title", ("[red]column[/red]",), [[HOSTILE]])
    printed = buffer.getvalue()
    assert "[bold]x[/bold]" in printed
    assert "[red]column[/red]" in printed
    assert "\x1b[31m" not in printed
    assert "\u202e" not in printed


def test_csv_and_json_carry_the_same_rows(capsys):
    """Nulls, lists and times survive both."""
    rows = pa.table(
        {"n": [1, None], "when": pa.array([datetime(2026, 1, 2, tzinfo=UTC)] * 2), "x": [float("nan"), 0.5]}
    )
    render_rows(rows, Format.csv, None)
    assert capsys.readouterr().out == "n,when,x\n1,2026-01-02T00:00:00+00:00,\n,2026-01-02T00:00:00+00:00,0.5\n"
    render_rows(rows, Format.json, None)
    assert '"n": null' in capsys.readouterr().out


def test_parquet_needs_a_file():
    """Bytes on a terminal help nobody."""
    with pytest.raises(UsageError, match="--out"):
        render_rows(pa.table({"n": [1]}), Format.parquet, None)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ((50_000_000, 200_000_000, "bytes", 2.0), "50.0 of 200.0 MB  25.0 MB/s"),
        ((30, None, "traces", 2.0), "30 traces  15 traces/s"),
        ((30, 60, "traces", 0.5), "30 of 60 traces"),
        ((2, 4, "updates", 20.0), "2 of 4 updates  0.1 updates/s"),
    ],
)
def test_progress_tells_amount_and_rate(call, told):
    """Bytes are told in MB; a rate is told once there is a second to divide by."""
    assert console._state(*call) == told


def test_what_is_said_cannot_command_the_terminal(capsys):
    """A deployment's name is anybody's; the text's own lines stay."""
    console.say("a\x1b[2J\n:skull: \u202e")
    assert capsys.readouterr().out == "a\\u001b[2J\n:skull: \\u202e\n"
    assert console.one_line("a\nb\U000e0001") == "a\\u000ab\\U000e0001"


def test_the_end_of_a_stage_is_told_once(monkeypatch, capsys):
    """A compressed file has been read to its end long before its last line."""
    clock = iter([0.0, 2.0, 15.0, 30.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    bars = console.ProgressBars()
    for done in (1, 13, 13, 13):
        bars("ingest", done * 100_000, 1_300_000, "bytes", "a\n[red].gz")
    assert capsys.readouterr().err.splitlines() == ["ingest: 1.3 of 1.3 MB  0.7 MB/s a\\u000a[red].gz"]
