"""Parquet files as the lake wants them: written by pyarrow, on the disk before anyone may refer to them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from schemas.columns import Table

ROW_GROUP_SIZE = {"calls": 500, "traces": 500, "rescored": 500}
"""Rows in a row group of a table with token lists: a reader of single traces decodes few others, and files are no
larger. Measured 2026-11, 64 to 23,000 rows."""
_DEFAULT_ROW_GROUP_SIZE = 100_000
COMPRESSION_LEVEL = 1
"""zstd level: level 3 saves a few percent and writes a quarter slower. Measured 2026-11."""
_DICTIONARY_SHARE = 0.25
_DICTIONARY_MIN_ROWS = 50
_BLOOM_COLUMN = "trace_id"
_BLOOM_FALSE_POSITIVES = 0.01


def write_parquet(table: Table, rows: pa.Table, folder: Path) -> Path:
    """Write conformed rows to a new file of `folder`, flushed to the disk; returns its path.

    Until a transaction adopts the file it is an orphan that no reader sees. It is private to its owner.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"tracemill-{uuid4().hex}.parquet"
    try:
        _write(table, rows, path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    _sync_folder(folder)
    return path


def _write(table: Table, rows: pa.Table, path: Path) -> None:
    row_group_size = ROW_GROUP_SIZE.get(table.name, _DEFAULT_ROW_GROUP_SIZE)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        pq.write_table(
            rows,
            file,
            row_group_size=row_group_size,
            compression="zstd",
            compression_level=COMPRESSION_LEVEL,
            use_dictionary=_dictionary_leaves(rows),
            column_encoding=_split_leaves(rows.schema),
            write_page_index=True,
            bloom_filter_options=_bloom_filter(rows, row_group_size),
        )
        file.flush()
        os.fsync(file.fileno())


def _leaf(name: str, kind: pa.DataType) -> tuple[str, pa.DataType]:
    while pa.types.is_list(kind):
        name, kind = f"{name}.list.element", kind.value_type
    return name, kind


def _split_leaves(schema: pa.Schema) -> dict[str, str]:
    """Lists of float32 log-probabilities; DuckDB cannot read the same encoding on int32."""
    leaves = (_leaf(field.name, field.type) for field in schema if pa.types.is_list(field.type))
    return {name: "BYTE_STREAM_SPLIT" for name, kind in leaves if pa.types.is_float32(kind)}


def _dictionary_leaves(rows: pa.Table) -> list[str]:
    """Text columns whose values repeat; a dictionary of what does not repeat costs time and saves nothing."""
    if rows.num_rows < _DICTIONARY_MIN_ROWS:
        return []
    leaves = []
    for field in rows.schema:
        if pa.types.is_string(field.type):
            num_values = pc.count_distinct(rows[field.name]).as_py()
            if num_values <= rows.num_rows * _DICTIONARY_SHARE:
                leaves.append(field.name)
    return leaves


def _bloom_filter(rows: pa.Table, row_group_size: int) -> dict[str, dict[str, float]] | None:
    if _BLOOM_COLUMN not in rows.column_names:
        return None
    num_values = max(1, min(rows.num_rows, row_group_size))
    return {_BLOOM_COLUMN: {"ndv": num_values, "fpp": _BLOOM_FALSE_POSITIVES}}


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
