"""The lake: open, create, read, and one writing transaction at a time.

    with Lake.create(Path("lake")) as lake:
        with lake.transaction() as transaction:
            transaction.append("calls", rows)
        lake.read("current_traces", columns=["trace_id"], where={"split": "train"})
        lake.query("staleness_by_version", trust=0.003)

A `Lake` is for one process and one thread. Any number of processes may read; writers wait for each other.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import duckdb

from schemas.errors import LakeError, LakeMissingError, UsageError
from warehouse import versions
from warehouse.extensions import connect
from warehouse.lock import LOCK_TIMEOUT_S, locked
from warehouse.readonly import ReadOnly
from warehouse.result import fetch, lake_relations
from warehouse.statements import statement
from warehouse.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    import pyarrow as pa

CATALOG = "catalog.sqlite"
"""The file under the lake's root that knows every table, file and snapshot."""
DATA = "data"
"""The folder under the lake's root that holds the Parquet files."""
LOCK = "lake.lock"
"""The file under the lake's root that a writer locks."""


class Lake:
    """Tables, views and snapshots under one folder."""

    def __init__(self, root: Path, connection: duckdb.DuckDBPyConnection, *, read_only: bool) -> None:
        self.root = root
        self.read_only = read_only
        self._connection = connection
        self._guarded: ReadOnly | None = None
        self._transaction: Transaction | None = None

    @classmethod
    def create(cls, root: Path) -> Lake:
        """Make the folder, the catalog, every table and every view where they are missing, and open the lake."""
        root = root.resolve()
        _refuse_lost_catalog(root)
        for folder in (root, root / DATA):
            if not folder.is_dir():
                folder.mkdir(parents=True, mode=0o700)
        with locked(root / LOCK, purpose="create"), _private_files():
            lake = cls._attached(root, read_only=False)
            versions.install(lake._connection)
        return lake

    @classmethod
    def open(cls, root: Path, *, read_only: bool = False) -> Lake:
        """Open an existing lake; opened for writing, an older one is first upgraded."""
        root = root.resolve()
        if not (root / CATALOG).is_file():
            raise LakeMissingError(
                f"{root}: no lake here, expected {CATALOG} in it. Make one with `tracemill init`, or mend [lake] root"
            )
        lake = cls._attached(root, read_only=read_only)
        try:
            if not versions.is_current(lake._connection, root, read_only=read_only):
                with locked(root / LOCK, purpose="upgrade"):
                    versions.install(lake._connection)
        except BaseException:
            lake.close()
            raise
        return lake

    @classmethod
    def _attached(cls, root: Path, *, read_only: bool) -> Lake:
        connection = connect()
        try:
            connection.execute(attach_statement(root, read_only=read_only))
            connection.execute(statement("lake/use"))
        except duckdb.Error as error:
            connection.close()
            raise LakeError(
                f"{root / CATALOG}: could not be attached: {error}. Expected the SQLite catalog of a DuckLake, in a "
                "folder that may be written to (readers need that too); restore the file, or mend the folder's rights"
            ) from error
        return cls(root, connection, read_only=read_only)

    def close(self) -> None:
        """Let go of the catalog; closing twice is allowed."""
        self._connection.close()
        if self._guarded is not None:
            self._guarded.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def data_folder(self) -> Path:
        """Where the Parquet files lie."""
        return self.root / DATA

    def snapshot(self) -> int:
        """The id of the latest snapshot; every commit makes one."""
        return int(fetch(self._connection, statement("lake/snapshot"))["snapshot_id"][0].as_py())

    def relations(self) -> list[str]:
        """The names of all tables and views, sorted."""
        return sorted(lake_relations())

    @contextmanager
    def transaction(self, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[Transaction]:
        """Hold the lake's write lock and one transaction: all of it is committed, or none.

        Inside the block, `query` and `read` of the lake see what the transaction appended.
        """
        if self.read_only:
            raise UsageError(f"{self.root}: opened read-only; expected Lake.open(root) without read_only to write")
        if self._transaction is not None:
            raise UsageError("a transaction is open already; expected one at a time: append within it")
        with locked(self.root / LOCK, purpose="write", timeout_s=timeout_s):
            self._transaction = Transaction(self._connection, self.data_folder)
            try:
                with self._transaction:
                    yield self._transaction
            finally:
                self._transaction = None

    @contextmanager
    def exclusive(self, *, purpose: str, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[duckdb.DuckDBPyConnection]:
        """Hold the write lock without a transaction, for maintenance; no writer of ours is under way then."""
        if self.read_only or self._transaction is not None:
            raise UsageError(f"{purpose}: expected a lake opened for writing, outside a transaction")
        with locked(self.root / LOCK, purpose=purpose, timeout_s=timeout_s), _private_files():
            yield self._connection

    def query(self, name: str, tables: Mapping[str, pa.Table] | None = None, /, **parameters: Any) -> pa.Table:
        """The rows of a named query; `tables` are Arrow tables that it reads by name."""
        return fetch(self._connection, name=name, tables=tables, parameters=parameters)

    def read(
        self,
        relation: str,
        *,
        columns: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        order_by: Sequence[str] = (),
        snapshot: int | None = None,
    ) -> pa.Table:
        """Rows of a table or view, all conditions met: a value must equal, a list must contain, None must be null."""
        if relation not in lake_relations():
            raise UsageError(f"no table or view {relation!r}; expected one of {', '.join(self.relations())}")
        conditions, parameters = _conditions(where or {})
        text = statement(
            "lake/read",
            columns=list(columns or ()),
            relation=relation,
            version="" if snapshot is None else statement("lake/at_version", snapshot=str(int(snapshot))),
            where="where " + " and ".join(conditions) if conditions else "",
            order=statement("lake/order_by", columns=list(order_by)) if order_by else "",
        )
        return fetch(self._connection, text, parameters=parameters)

    def sql(self, text: str, params: Mapping[str, Any] | None = None) -> pa.Table:
        """The rows of one `select` over this lake and nothing else: it can write nothing and read no other file."""
        if self._guarded is None:
            self._guarded = ReadOnly(attach_statement(self.root, read_only=True), self.data_folder)
        return self._guarded.sql(text, params)


def _refuse_lost_catalog(root: Path) -> None:
    """Refuse to begin anew over the data of a lake whose catalog is gone: its runs and lineage would be forgotten."""
    catalog = root / CATALOG
    if catalog.is_file() and catalog.stat().st_size > 0:
        return
    if next((root / DATA).rglob("*.parquet"), None) is not None:
        raise LakeError(
            f"{root}: {CATALOG} is missing or empty, and {DATA}/ holds Parquet files; expected the catalog that knows "
            "them: put it back from a backup, or move the folder away to begin anew"
        )


def attach_statement(root: Path, *, read_only: bool) -> str:
    """The statement that attaches the lake under `root` as `lake`, wherever the folder was moved to."""
    return statement(
        "lake/attach_read_only" if read_only else "lake/attach",
        catalog=f"ducklake:sqlite:{root / CATALOG}",
        data=f"{root / DATA}{os.sep}",
    )


def _conditions(where: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    conditions, parameters = [], {}
    for number, (column, value) in enumerate(where.items()):
        name = f"w{number}"
        if value is None:
            conditions.append(statement("lake/where_null", column=column))
            continue
        several = isinstance(value, (list, tuple, set, frozenset))
        if several and None in value:
            raise UsageError(f"where {column}: a list with None; expected values, or None alone for null")
        conditions.append(statement("lake/where_in" if several else "lake/where_equal", column=column, parameter=name))
        parameters[name] = list(value) if several else value
    return conditions, parameters


@contextmanager
def _private_files() -> Iterator[None]:
    """Files that DuckDB and SQLite make inside the block are private to their owner."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
