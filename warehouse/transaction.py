"""One transaction: rows become Parquet files, and the files become part of the lake together or not at all."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import duckdb

from schemas import tables as declared
from schemas.errors import LakeBusyError, UsageError
from warehouse.conform import conform
from warehouse.invariants import CHECKS
from warehouse.result import BUSY_WAITS_S, fetch, is_busy
from warehouse.statements import statement
from warehouse.store import write_parquet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    import pyarrow as pa


class Transaction:
    """Appends and queries that take effect together; made by `Lake.transaction`, which holds the lock."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, data_folder: Path) -> None:
        self._connection = connection
        self._data_folder = data_folder
        self._adopted: list[tuple[str, Path]] = []

    def __enter__(self) -> Self:
        self._connection.execute(statement("lake/begin"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._roll_back()
            for _, path in self._adopted:
                path.unlink(missing_ok=True)
            return
        try:
            self._commit()
        except BaseException:
            # Whether the commit took place may be unknown here, so the files stay: at worst they are orphans.
            self._roll_back()
            raise

    def append(self, table: str, rows: Sequence[Mapping[str, Any]] | pa.Table) -> int:
        """Conform rows to the table, check them, write them and adopt the file; returns how many there were."""
        try:
            target = declared.table(table)
        except KeyError as error:
            raise UsageError(error.args[0]) from error
        conformed = conform(target, rows)
        if conformed.num_rows == 0:
            return 0
        if table in CHECKS:
            CHECKS[table](conformed)
        path = write_parquet(target, conformed, self._data_folder / "main" / table)
        self._adopted.append((table, path))
        self._adopt(table, path)
        return int(conformed.num_rows)

    def query(self, name: str, tables: Mapping[str, pa.Table] | None = None, /, **parameters: Any) -> pa.Table:
        """The rows of a named query, which sees what this transaction appended."""
        return fetch(self._connection, name=name, tables=tables, parameters=parameters)

    def _roll_back(self) -> None:
        with suppress(duckdb.TransactionException):  # DuckDB ends a transaction whose commit failed by itself
            self._connection.execute(statement("lake/rollback"))

    def _adopt(self, table: str, path: Path) -> None:
        fetch(self._connection, statement("lake/adopt"), parameters={"table_name": table, "path": str(path)})

    def _commit(self) -> None:
        """Commit; while a foreign program holds the catalog, begin again and adopt the same files once more.

        A commit that found the catalog locked has been rolled back, and our own writers are kept out by the lake's
        lock, so what the transaction read is still so.
        """
        for wait in (*BUSY_WAITS_S, None):
            try:
                self._connection.execute(statement("lake/commit"))
            except duckdb.Error as error:
                if not is_busy(error):
                    raise
                if wait is None:
                    raise LakeBusyError(
                        f"the catalog is locked by a program that does not take our lock, after {len(BUSY_WAITS_S)} "
                        "tries; expected it to be free. End that program, then run the same command again: "
                        f"nothing was written. {error}"
                    ) from error
                time.sleep(wait)
                self._connection.execute(statement("lake/begin"))
                for table, path in self._adopted:
                    self._adopt(table, path)
            else:
                return
