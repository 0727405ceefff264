"""Rows brought into the declared columns of a table, or refused with the row and the value."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.columns import SCHEMA_VERSION
from schemas.errors import InputError
from schemas.reasons import REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from schemas.columns import Column, Table

_STAMP = "schema_version"
_CODES = ("reason", "reasons", "faults", "notes", "spans")
"""Columns that hold codes of the closed list of reasons; `spans` holds them in its field `fault`."""
_SHOWN = 80


def conform(table: Table, rows: Sequence[Mapping[str, Any]] | pa.Table) -> pa.Table:
    """The rows as an Arrow table of exactly the declared schema, `schema_version` stamped.

    A missing column that may be null becomes null; an unknown column, a null where none may be, a value of another
    type, a time without zone and a code that is not in the closed list of reasons are refused (`InputError`).
    """
    given = _given_names(rows)
    unknown = sorted(given - {column.name for column in table.all_columns})
    if unknown:
        raise InputError(
            f"{table.name}: column {unknown[0]!r} is not declared; expected columns of schemas/ "
            f"({', '.join(column.name for column in table.columns)}). Declare it there or leave it out"
        )
    num_rows = rows.num_rows if isinstance(rows, pa.Table) else len(rows)
    columns = []
    for column in table.columns:
        if column.name not in given:
            values = pa.nulls(num_rows, column.kind.arrow)
        elif isinstance(rows, pa.Table):
            values = _from_arrow(table, column, rows[column.name])
        else:
            values = _from_python(table, column, [row.get(column.name) for row in rows])
        columns.append(values)
    columns.append(pa.array(np.full(num_rows, SCHEMA_VERSION, np.int32)))
    conformed = pa.Table.from_arrays(columns, schema=table.schema)
    _refuse_nulls(table, conformed)
    _refuse_unknown_codes(table, conformed)
    return conformed


def _given_names(rows: Sequence[Mapping[str, Any]] | pa.Table) -> set[str]:
    if isinstance(rows, pa.Table):
        return set(rows.column_names)
    return set().union(*(row.keys() for row in rows))


def _from_arrow(table: Table, column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    wanted = column.kind.arrow
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(values.type) and values.type.tz is None:
        raise InputError(_message(table, column, "a timestamp without time zone", "cast it to timestamp[us, UTC]"))
    try:
        return values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(_message(table, column, f"{values.type}, which does not cast ({error})", "cast it")) from error


def _from_python(table: Table, column: Column, values: list[Any]) -> pa.Array:
    wanted = column.kind.arrow
    try:
        _refuse_lossy(wanted, values)
        return pa.array(values, type=wanted)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        row, value, why = _first_bad(wanted, values, error)
        shown = repr(value)
        shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
        raise InputError(_message(table, column, f"{shown} in row {row} ({why})", "convert it before")) from error


def _first_bad(wanted: pa.DataType, values: list[Any], error: Exception) -> tuple[int, Any, Exception]:
    for row, value in enumerate(values):
        try:
            _refuse_lossy(wanted, [value])
            pa.array([value], type=wanted)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as one:
            return row, value, one
    return 0, values[:1], error


def _refuse_lossy(wanted: pa.DataType, values: list[Any]) -> None:
    """Refuse what `pa.array` would change in silence: fractions cut to integers, local times, unknown fields."""
    if pa.types.is_timestamp(wanted):
        _refuse_local_times(values)
        return
    inner = wanted
    while pa.types.is_list(inner):
        inner = inner.value_type
    if pa.types.is_integer(inner):
        pa.array(values).cast(wanted)
    elif pa.types.is_struct(inner):
        _refuse_unknown_fields({field.name for field in inner}, values)


def _refuse_local_times(values: list[Any]) -> None:
    for value in values:
        if value is None:
            continue
        if not isinstance(value, datetime):
            raise TypeError(f"expected an aware datetime, got {type(value).__name__}")
        if value.tzinfo is None:
            raise ValueError("the time has no zone")


def _refuse_unknown_fields(known: set[str], values: list[Any]) -> None:
    for value in values:
        for struct in value or ():
            unknown = struct.keys() - known
            if unknown:
                raise ValueError(f"unknown field {min(unknown)!r}; expected {', '.join(sorted(known))}")


def _refuse_nulls(table: Table, conformed: pa.Table) -> None:
    for column in table.columns:
        values = conformed[column.name]
        if not column.nullable and values.null_count:
            row = int(np.flatnonzero(pc.is_null(values).to_numpy())[0])
            key = {name: conformed[name][row].as_py() for name in table.key}
            raise InputError(_message(table, column, f"null in row {row} {key}", "it may not be null: state its value"))


def _refuse_unknown_codes(table: Table, conformed: pa.Table) -> None:
    for column in table.columns:
        if column.name not in _CODES:
            continue
        values = conformed[column.name].combine_chunks()
        while pa.types.is_list(values.type):
            values = values.flatten()
        if pa.types.is_struct(values.type):
            values = values.field("fault")
        unknown = sorted(set(pc.unique(values).to_pylist()) - REASONS.keys() - {None})
        if unknown:
            fix = "add it to schemas/reasons.py with its sentence and its fix"
            raise InputError(_message(table, column, f"code {unknown[0]!r}, which is not in the list of reasons", fix))


def _message(table: Table, column: Column, found: str, fix: str) -> str:
    return f"{table.name}.{column.name}: {found}; expected {column.kind.sql} ({column.meaning}). To mend: {fix}"
