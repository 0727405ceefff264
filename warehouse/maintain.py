"""Upkeep of the lake's files: what a killed writer left behind, and tables of many tiny files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from schemas.tables import TABLES
from warehouse.result import fetch
from warehouse.statements import statement
from warehouse.store import ROW_GROUP_SIZE

if TYPE_CHECKING:
    from warehouse.lake import Lake

FOREIGN_WRITE = timedelta(hours=1)
"""How long a program that does not take our lock may need between writing a file and committing it; younger files
that the catalog does not name are left alone. Convention, untested."""

_SAME_DATE = timedelta(days=1)
# DuckLake 1.5.5 on a SQLite catalog compares the time at which a file was scheduled for deletion as text, in two
# forms that differ after the date: a file counts as older whenever its date is not later. A day more is safe.


def remove_orphans(lake: Lake, *, now: datetime, min_age: timedelta = FOREIGN_WRITE) -> list[str]:
    """Delete data files that no snapshot names and that are at least `min_age` old; returns their paths, sorted.

    A kill between the writing of a file and its commit leaves one; it has no effect but on the disk. Our own
    writers cannot be between the two here, because the lake's lock is held.
    """
    return _delete(lake, "delete_orphans", "remove orphans", now - min_age)


def compact(lake: Lake, *, now: datetime, min_age: timedelta = FOREIGN_WRITE) -> int:
    """Merge the small files of tables without token lists; returns how many files were merged.

    Every snapshot reads the same rows as before. The files that were merged are deleted by a call at least a day and
    `min_age` later, so that a reader under way keeps what it reads. Tables with token lists are left
    as pyarrow wrote them: DuckDB would write them again with other encodings.
    """
    merged = 0
    with lake.exclusive(purpose="compact") as connection:
        for table in TABLES:
            if table.name not in ROW_GROUP_SIZE:
                files = fetch(connection, statement("lake/merge_files", table=table.name))
                merged += sum(files["files_processed"].to_pylist())
    _delete(lake, "delete_merged", "delete merged files", now - min_age - _SAME_DATE)
    return merged


def _delete(lake: Lake, name: str, purpose: str, older_than: datetime) -> list[str]:
    with lake.exclusive(purpose=purpose) as connection:
        parameters = {"older_than": older_than.astimezone(UTC)}
        return sorted(fetch(connection, statement(f"lake/{name}"), parameters=parameters)["path"].to_pylist())
