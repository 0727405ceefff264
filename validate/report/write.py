"""The report on disk: report.html and report.json, each whole or not there at all, private to their owner."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from validate.report.data import Report
from validate.report.render import render

HTML_NAME = "report.html"
"""The page for people."""
JSON_NAME = "report.json"
"""The same numbers for programs; docs/report.schema.json describes it."""


def write_report(report: Report, folder: Path) -> tuple[Path, Path]:
    """Write both files into the folder and return their paths; equal reports give equal bytes.

    Each file is written beside its place and then moved there, so that a reader never sees half of one.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    page, twin = render(report), as_json(report)
    html_path, json_path = folder / HTML_NAME, folder / JSON_NAME
    _replace(json_path, twin)
    _replace(html_path, page)
    return html_path, json_path


def as_json(report: Report) -> str:
    """The twin as JSON text in plain ASCII, every character that a terminal could obey escaped."""
    return json.dumps(asdict(report), ensure_ascii=True, allow_nan=False, indent=1) + "\n"


def _replace(path: Path, text: str) -> None:
    """Put the text in the file's place in one step; `mkstemp` makes the file private."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
