"""What a person sees: progress bars on a terminal, plain lines elsewhere, and tables."""

from __future__ import annotations

import sys
import time
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

QUIET_SECONDS = 10.0
"""Where no terminal listens, a stage reports at most this often. Convention, untested."""

PLAIN_WIDTH = 160
"""Columns where no terminal says how many there are, such as in a log file. Convention, untested."""

out = Console(soft_wrap=True, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
err = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)


def printable(text: str) -> str:
    """The text with whatever a terminal could obey escaped; its ends of lines stay.

    Control characters, signs that turn the direction of writing and halves of surrogate pairs become the escapes of
    TOML and JSON. A value that must stay on its line goes through `one_line` before it is put into a text.
    """
    return "\n".join(one_line(line) for line in text.split("\n"))


def one_line(text: str) -> str:
    """The text with ends of lines escaped as well."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(ord(c)) for c in text)


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def say(text: str) -> None:
    """Print text; markup in it is not read, and what a terminal could obey is escaped."""
    out.print(printable(text), markup=False)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under a title; numbers to the right, None as a dash."""
    rows = [list(row) for row in rows]
    table = RichTable(title=escape(title), title_justify="left", title_style="bold", header_style="bold")
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) or row[index] is None for row in rows)
        table.add_column(
            escape(column.replace("_", " ")), justify="right" if numeric and rows else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(escape(show(value)) for value in row))
    out.print(table)


def show(value: Any) -> str:
    """One value for a person: None as a dash, floats to four significant digits, lists joined, controls escaped."""
    if isinstance(value, list | tuple):
        return ", ".join(show(part) for part in value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return printable(value)
    return _show_number(value)


def _show_number(value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


class ProgressBars:
    """Listens to progress: bars on a terminal, else a line every ten seconds and one when a stage ends."""

    def __init__(self) -> None:
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._last: dict[str, float] = {}
        self._started: dict[str, float] = {}
        self._ended: set[str] = set()

    def __enter__(self) -> ProgressBars:
        if sys.stderr.isatty():
            self._bars = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[state]}  {task.fields[note]}", markup=False),
                TimeRemainingColumn(),
                console=err,
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, stage: str, done: int, total: int | None, unit: str, note: str = "") -> None:
        """Tell how far a stage is."""
        note = one_line(note)
        now = time.monotonic()
        start = self._started.setdefault(stage, now)
        state = _state(done, total, unit, now - start)
        if self._bars is not None:
            if stage not in self._tasks:
                self._tasks[stage] = self._bars.add_task(stage, total=total, state=state, note=note)
            self._bars.update(self._tasks[stage], completed=done, total=total, state=state, note=note)
            return
        ended = total is not None and done >= total
        if not ended:
            self._ended.discard(stage)
        elif stage in self._ended:
            return  # a compressed file is read to its end long before its last line is
        if now - self._last.get(stage, start) >= QUIET_SECONDS or (ended and now - start >= 1):
            self._last[stage] = now
            if ended:
                self._ended.add(stage)
            left = "" if ended or not total or not done else f", {(now - start) * (total - done) / done:,.0f} s left"
            err.print(f"{stage}: {state}{left} {note}".rstrip(), markup=False)


def _state(done: int, total: int | None, unit: str, seconds: float) -> str:
    """How much of how much is done, and how fast; bytes are told in MB."""
    if unit == "bytes":
        of = f" of {total / 1e6:,.1f}" if total is not None else ""
        rate = f"  {done / 1e6 / seconds:,.1f} MB/s" if seconds > 1 else ""
        return f"{done / 1e6:,.1f}{of} MB{rate}"
    of = f" of {total:,}" if total is not None else ""
    per_second = done / seconds if seconds > 1 else 0.0
    spelled = f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"
    return f"{done:,}{of} {unit}" + (f"  {spelled} {unit}/s" if seconds > 1 else "")
