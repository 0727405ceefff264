"""Query results as Arrow tables in the types that the schemas declare."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from schemas.errors import LakeBusyError, UsageError
from schemas.tables import TABLES
from warehouse import query

if TYPE_CHECKING:
    from collections.abc import Mapping

VIEW_FOLDERS = ("staging", "marts")
"""Folders under `sql/` whose files are views of the lake."""
_BATCH_ROWS = 50_000
"""Rows in a record batch: list offsets are 32 bits wide, so 50,000 rows may hold 42,000 tokens each."""
BUSY_WAITS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Waits between tries while a foreign program holds the catalog. Convention, untested."""
_BUSY = "database is locked"


def fetch(
    connection: duckdb.DuckDBPyConnection,
    text: str = "",
    *,
    name: str | None = None,
    tables: Mapping[str, pa.Table] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Run a statement, or the query of that name, with Arrow tables as relations and parameters bound by name."""
    given = dict(parameters or {})
    if name is not None:
        loaded = query.load(name)
        given, text = loaded.bind(given), loaded.text
        _check_tables(loaded, tables or {})
    registered: list[str] = []
    try:
        for relation, rows in (tables or {}).items():
            connection.register(relation, rows)
            registered.append(relation)
        return tidy(_execute(connection, text, given))
    finally:
        for relation in registered:
            connection.unregister(relation)


def tidy(table: pa.Table) -> pa.Table:
    """The table in the types of the schemas: list elements named `element`, times in UTC, sums as int64 or float64.

    DuckDB sums integers to 128 bits, which Arrow has only as decimals.
    """
    try:
        return _cast(table, pa.int64())
    except pa.ArrowInvalid:  # a sum that does not fit in 64 bits
        return _cast(table, pa.float64())


def _cast(table: pa.Table, whole: pa.DataType) -> pa.Table:
    schema = pa.schema([pa.field(field.name, _declared_form(field.type, whole)) for field in table.schema])
    return table if schema.equals(table.schema) else table.cast(schema)


@cache
def lake_relations() -> frozenset[str]:
    """The names of the lake's tables and views."""
    views = (path.split("/")[1] for folder in VIEW_FOLDERS for path in query.names(folder))
    return frozenset([*(table.name for table in TABLES), *views])


def is_busy(error: duckdb.Error) -> bool:
    """Whether the error says that another program holds the catalog."""
    return _BUSY in str(error)


def _execute(connection: duckdb.DuckDBPyConnection, text: str, parameters: dict[str, Any]) -> pa.Table:
    for wait in (*BUSY_WAITS_S, None):
        try:
            return connection.execute(text, parameters or None).to_arrow_table(_BATCH_ROWS)
        except duckdb.Error as error:
            if not is_busy(error):
                raise
            if wait is None:
                raise LakeBusyError(
                    f"the catalog is locked by another program, after {len(BUSY_WAITS_S)} tries; expected it to be "
                    f"free. End the program that writes to it, then run the same command again. {error}"
                ) from error
            time.sleep(wait)
    raise AssertionError("unreachable: the last try returns or raises")


def _check_tables(loaded: query.Query, tables: Mapping[str, pa.Table]) -> None:
    if loaded.tables and set(loaded.tables) != set(tables):
        raise UsageError(
            f"query {loaded.name}: tables {sorted(tables) or 'none'}; expected {', '.join(loaded.tables)}. "
            "Hand them over as Arrow tables"
        )
    hidden = sorted(tables.keys() & lake_relations())
    if hidden:
        raise UsageError(
            f"query {loaded.name}: the Arrow table {hidden[0]!r} would hide the lake's own; expected another name"
        )


def _declared_form(kind: pa.DataType, whole: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _declared_form(kind.value_type, whole)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _declared_form(field.type, whole)) for field in kind])
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_decimal(kind):
        return whole if kind.scale == 0 else pa.float64()
    return pa.string() if pa.types.is_large_string(kind) else kind
