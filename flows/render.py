"""Rows for a person or for the next program: table, CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from flows.console import print_table
from schemas.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


class Format(Enum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def render_rows(rows: pa.Table, output: Format, out_file: Path | None) -> None:
    """Print the rows, or write them to `out_file`; Parquet needs a file."""
    if output is Format.parquet:
        if out_file is None:
            raise UsageError("--format parquet writes a file, not a screen; expected --out FILE.parquet")
        pq.write_table(rows, out_file)
        return
    if output is Format.table:
        if out_file is not None:
            raise UsageError("--out with --format table; expected csv, json or parquet for a file")
        print_table("", rows.column_names, [list(row.values()) for row in rows.to_pylist()])
        return
    text = _csv(rows) if output is Format.csv else _json(rows)
    if out_file is not None:
        out_file.write_text(text, encoding="utf-8", newline="")
    else:
        sys.stdout.write(text)


def _csv(rows: pa.Table) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(rows.column_names)
    for row in rows.to_pylist():
        writer.writerow([_plain(value) for value in row.values()])
    return buffer.getvalue()


def _json(rows: pa.Table) -> str:
    lines = [json.dumps({k: _plain(v) for k, v in row.items()}, ensure_ascii=False) for row in rows.to_pylist()]
    return "[" + ",\n ".join(lines) + "]\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value
