"""Questions of people: one `select`, over the lake and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb

from schemas.errors import UsageError
from warehouse.extensions import connect
from warehouse.result import fetch
from warehouse.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series", "duckdb_tables", "duckdb_views", "duckdb_columns"})
"""Table functions that a question may call; all others, such as those that read files, are refused."""


class ReadOnly:
    """A connection of its own that can neither write nor leave the lake.

    Three locks, each of which would do for most attacks: the statement is parsed and must be one `select` that calls
    no table function but the listed; the lake is attached read-only; and the connection has no access to files
    outside the lake's data folder, with its configuration locked.
    """

    def __init__(self, attach: str, data_folder: Path) -> None:
        self._connection = connect()
        self._connection.execute(attach)
        self._connection.execute(statement("lake/use"))
        for step in ("allow_folder", "forbid_files", "lock_configuration"):
            self._connection.execute(statement(f"lake/{step}", folder=str(data_folder)))

    def close(self) -> None:
        """Let go of the catalog."""
        self._connection.close()

    def sql(self, text: str, params: Mapping[str, Any] | None) -> pa.Table:
        """The rows of the statement, or `UsageError` when it is not one `select` over the lake."""
        self._refuse_unless_select(text)
        try:
            return fetch(self._connection, text, parameters=params)
        except duckdb.Error as error:
            raise UsageError(f"the query failed: {error}. Expected one select over the tables and views") from error

    def _refuse_unless_select(self, text: str) -> None:
        parsed = self._connection.execute(statement("lake/parse"), {"text": text}).fetchone()
        tree: dict[str, Any] = json.loads(parsed[0]) if parsed else {"error": True}
        if tree["error"]:
            raise UsageError(
                f"the query is no single select: {tree.get('error_message', 'it did not parse')}. "
                "Expected one select statement; the lake is read-only here"
            )
        if len(tree["statements"]) != 1:
            raise UsageError(f"{len(tree['statements'])} statements; expected one select. Run them one after another")
        for name in _table_functions(tree):
            if name not in TABLE_FUNCTIONS:
                raise UsageError(
                    f"the query calls the table function {name!r}; expected tables and views of the lake, or one of "
                    f"{', '.join(sorted(TABLE_FUNCTIONS))}. Files outside the lake are not read here"
                )


def _table_functions(node: Any) -> Iterator[str]:
    """The names of all table functions anywhere in a parsed statement."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, dict):
            if current.get("type") == "TABLE_FUNCTION":
                yield str(current["function"].get("function_name", "")).lower()
            stack.extend(current.values())
        elif isinstance(current, list):
            stack.extend(current)
