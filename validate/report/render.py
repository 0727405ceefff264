"""The report as one HTML file: no script, no request to anyone, every foreign text escaped."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from validate.report import words
from validate.report.data import Report
from validate.report.figures import figures_of
from validate.report.sections import marks_of, sections_of

_FOLDER = Path(__file__).parent
_UNMEASURED = Markup('<span class="unmeasured">NOT MEASURED</span>')


def render(report: Report) -> str:
    """The whole page; equal reports give equal text."""
    return (
        _environment()
        .get_template("page.jinja")
        .render(
            report=report,
            figures=figures_of(report),
            sections=sections_of(report),
            marks=marks_of(report),
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["css"] = Markup((_FOLDER / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
    environment.filters |= {
        "amount": _grey(words.amount),
        "count": _grey(words.count),
        "share": _grey(words.share),
        "measure": _grey(words.measure),
        "hours": _grey(words.hours),
        "bound": words.bound,
        "interval": words.interval,
        "size": words.size,
        "file_name": words.file_name,
        "short_hash": words.short_hash,
    }
    environment.globals["ratio_of"] = words.ratio_of
    return environment


def _finalize(value: Any) -> Any:
    """What a template prints, before it is escaped: foreign text with its invisible characters spelled out."""
    return words.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _grey(write: Callable[..., str]) -> Callable[..., str]:
    """The same way of writing, with a missing number in grey."""

    @wraps(write)
    def written(*arguments: Any) -> str:
        shown = write(*arguments)
        return _UNMEASURED if shown == words.NOT_MEASURED else shown

    return written
