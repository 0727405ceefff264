"""Which files a list of paths, folders and patterns names."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from schemas.errors import UsageError


def expand(patterns: Sequence[str]) -> tuple[str, ...]:
    """Absolute paths of all files that the patterns name, each once, sorted by path.

    A folder stands for the files in it, hidden ones left out. A pattern that matches nothing is refused: a
    mistyped path must not pass for an empty night.
    """
    found: set[str] = set()
    for pattern in patterns:
        matches = [Path(match) for match in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - absolute patterns
        if Path(pattern).exists():  # a name with brackets in it is a name first
            matches.append(Path(pattern))
        files = [file for match in matches for file in _files(match)]
        if not files:
            raise UsageError(f"{pattern!r} matches no file; expected a file, a folder with files or a pattern: mend it")
        found.update(_name(file.resolve()) for file in files)
    return tuple(sorted(found))


def _name(file: Path) -> str:
    name = str(file)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        shown = name.encode(errors="backslashreplace").decode()
        raise UsageError(
            f"{shown}: the file's name is not UTF-8, and the ledger cannot hold it; expected a UTF-8 name: rename it"
        ) from error
    return name


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return [file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")]
    return [path] if path.is_file() else []
