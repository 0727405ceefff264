"""A column declared once, as data, and rendered to Arrow, DDL, comments and documentation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

SCHEMA_VERSION = 3
"""Version of all tables together; `schemas.upgrade` holds the steps between versions."""

_SPAN_FIELDS = (
    ("call_id", pa.string(), "VARCHAR"),
    ("call_index", pa.int32(), "INTEGER"),
    ("start", pa.int32(), "INTEGER"),
    ("end", pa.int32(), "INTEGER"),
    ("owned", pa.bool_(), "BOOLEAN"),
    ("fault", pa.string(), "VARCHAR"),
)
_VERSION_SPAN_FIELDS = (
    ("policy_version", pa.string(), "VARCHAR"),
    ("start", pa.int32(), "INTEGER"),
    ("end", pa.int32(), "INTEGER"),
)


def _struct(fields: tuple[tuple[str, pa.DataType, str], ...]) -> tuple[pa.DataType, str]:
    arrow = pa.struct([pa.field(name, kind) for name, kind, _ in fields])
    return arrow, "STRUCT(" + ", ".join(f'"{name}" {sql}' for name, _, sql in fields) + ")"


_SPAN, _SPAN_SQL = _struct(_SPAN_FIELDS)
_VERSION_SPAN, _VERSION_SPAN_SQL = _struct(_VERSION_SPAN_FIELDS)


def _list(value: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", value))


class Kind(Enum):
    """The column types in use, each with its Arrow and its DuckDB form."""

    STRING = (pa.string(), "VARCHAR")
    JSON = (pa.string(), "VARCHAR", "a JSON document")
    BOOL = (pa.bool_(), "BOOLEAN")
    INT32 = (pa.int32(), "INTEGER")
    INT64 = (pa.int64(), "BIGINT")
    FLOAT64 = (pa.float64(), "DOUBLE")
    TIME = (pa.timestamp("us", tz="UTC"), "TIMESTAMP WITH TIME ZONE")
    STRINGS = (_list(pa.string()), "VARCHAR[]")
    INT32S = (_list(pa.int32()), "INTEGER[]")
    FLOAT32S = (_list(pa.float32()), "FLOAT[]")
    BOOLS = (_list(pa.bool_()), "BOOLEAN[]")
    INT32_LISTS = (_list(_list(pa.int32())), "INTEGER[][]")
    FLOAT32_LISTS = (_list(_list(pa.float32())), "FLOAT[][]")
    SPANS = (_list(_SPAN), _SPAN_SQL + "[]")
    VERSION_SPANS = (_list(_VERSION_SPAN), _VERSION_SPAN_SQL + "[]")

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that is written to Parquet."""
        return self.value[0]

    @property
    def sql(self) -> str:
        """The DuckDB type of the same column."""
        return str(self.value[1])


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it is called, what it holds, in which unit, and whether it may be null."""

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    nullable: bool = False

    def __post_init__(self) -> None:
        """Refuse a column that cannot be rendered everywhere."""
        if not self.name.isidentifier() or self.name == "at":
            raise ValueError(f"column {self.name!r}: expected an identifier that is no DuckLake keyword; rename it")
        if not self.meaning:
            raise ValueError(f"column {self.name}: no meaning; say in one sentence what it holds")

    @property
    def field(self) -> pa.Field:
        """The Arrow field, with the meaning as metadata."""
        return pa.field(self.name, self.kind.arrow, nullable=self.nullable, metadata={"comment": self.comment})

    @property
    def comment(self) -> str:
        """Meaning and unit as one line."""
        return f"{self.meaning} [{self.unit}]" if self.unit else self.meaning


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its grain, its writer, its key and its columns, in order."""

    name: str
    grain: str
    writer: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        """Refuse a key that names no column."""
        unknown = set(self.key) - {column.name for column in self.columns}
        if unknown:
            raise ValueError(f"table {self.name}: key {sorted(unknown)} names no column; add it or mend the key")

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, in column order, `schema_version` last."""
        return pa.schema([column.field for column in self.all_columns])

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The declared columns and the `schema_version` that every table carries."""
        return (*self.columns, _SCHEMA_VERSION_COLUMN)

    def ddl(self) -> str:
        """The `create table` statement that DuckLake runs."""
        lines = [f'    "{c.name}" {c.kind.sql}{"" if c.nullable else " NOT NULL"}' for c in self.all_columns]
        return f'CREATE TABLE IF NOT EXISTS "{self.name}" (\n' + ",\n".join(lines) + "\n);"

    def comments(self) -> list[str]:
        """One `comment on` statement for the table and one for each column."""
        statements = [f'COMMENT ON TABLE "{self.name}" IS {_quote(f"One row per {self.grain}.")};']
        statements += [f'COMMENT ON COLUMN "{self.name}"."{c.name}" IS {_quote(c.comment)};' for c in self.all_columns]
        return statements

    def markdown(self) -> str:
        """The table's section of docs/tables.md."""
        rows = [
            f"| `{c.name}` | {c.kind.sql} | {c.unit} | {'yes' if c.nullable else ''} | {c.meaning} |"
            for c in self.all_columns
        ]
        head = (
            f"## {self.name}\n\nOne row per {self.grain}. Written by {self.writer}. "
            f"Key: {', '.join(f'`{name}`' for name in self.key)}.\n\n"
        )
        return head + "| column | type | unit | null | meaning |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_SCHEMA_VERSION_COLUMN = Column("schema_version", Kind.INT32, "Version of the table definitions that wrote the row.")
