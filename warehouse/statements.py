"""The lake's own statements: templates under `sql/lake`, filled with quoted names and texts."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SQL_FOLDER = Path(__file__).resolve().parent / "sql"
"""Where every .sql file lives."""

_PLACE = re.compile(r"\{(\w+):(name|names|text|fragment)\}")


def statement(path: str, **values: str | Sequence[str]) -> str:
    """The statement in `sql/<path>.sql` with its places filled.

    `{x:name}` becomes a quoted identifier, `{x:names}` several (`*` for none), `{x:text}` a quoted literal, and
    `{x:fragment}` a piece that another statement of this folder made. Nothing is pasted in unquoted but those.
    """
    kinds: dict[str, Callable[[str | Sequence[str]], str]] = {
        "name": _name,
        "names": _names,
        "text": _text,
        "fragment": str,
    }
    return _PLACE.sub(lambda place: kinds[place[2]](values[place[1]]), _read(path))


def quoted(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@cache
def _read(path: str) -> str:
    return (SQL_FOLDER / f"{path}.sql").read_text("utf-8").strip()


def _name(value: str | Sequence[str]) -> str:
    return quoted(str(value))


def _names(value: str | Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in value) or "*"


def _text(value: str | Sequence[str]) -> str:
    return "'" + str(value).replace("'", "''") + "'"
