"""DuckDB connections with the two extensions that a lake needs, loaded without fetching anything."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import duckdb

from schemas.errors import LakeError
from warehouse.statements import statement

EXTENSIONS = ("ducklake", "sqlite_scanner")
"""Extensions in the order in which they load."""

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    # Python variables must never answer to a table name that a query misspells.
    "python_enable_replacements": False,
}


_verified: set[Path] = set()


DATABASE_ERRORS: tuple[type[Exception], ...] = (duckdb.Error,)
"""What the database raises that is not ours: a damaged catalog, a data file that is gone, a full disk."""


def connect() -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory, its clock in UTC, with the lake's extensions loaded.

    DuckDB checks the signature of an extension each time it loads one, which reads 70 MB and takes 0.4 s of CPU
    (measured 2026-11-30). The first connection of a process has it check; later ones load the same files unchecked.
    """
    paths = {wheel_path(name) for name in EXTENSIONS}
    connection = duckdb.connect(config=_CONFIG | {"allow_unsigned_extensions": paths <= _verified})
    for name in EXTENSIONS:
        _load(connection, name)
    _verified.update(path for path in paths if path is not None)
    connection.execute(statement("lake/session"))
    return connection


def wheel_path(name: str) -> Path | None:
    """The extension's file in the wheel that carries it; None where the wheel is missing or of another version."""
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    return path if path.is_file() else None


def _load(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    path = wheel_path(name)
    if path is not None:
        connection.execute(statement("lake/load", extension=str(path)))
        return
    try:
        connection.execute(statement("lake/load", extension=name))
    except duckdb.Error:
        sys.stderr.write(
            f"duckdb {duckdb.__version__}: no wheel duckdb-extension-{name.replace('_', '-')} of this version and no "
            "copy in DuckDB's own folder; fetching the extension from DuckDB's repository.\n"
        )
        _install(connection, name)


def _install(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    wheel = f"duckdb-extension-{name.replace('_', '-')}=={duckdb.__version__}"
    try:
        connection.execute(statement("lake/install", extension=name))
        connection.execute(statement("lake/load", extension=name))
    except duckdb.Error as error:
        raise LakeError(
            f"DuckDB extension {name} could not be loaded: {error}. Expected it in the wheel {wheel}, in DuckDB's "
            f"extension folder or on the network; install the wheel: pip install {wheel}"
        ) from error
