"""Which files a list of paths, folders, patterns and URLs names."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.stored import file_system, is_remote, read_errors
from schemas.errors import UsageError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_MAGIC = re.compile(r"[*?\[]")
_MAGIC_IN_LINK = re.compile(r"\*")


def expand(patterns: Sequence[str]) -> tuple[str, ...]:
    """Absolute paths, or URLs, of all files that the patterns name, each once, sorted.

    A folder stands for the files in it, hidden ones left out, and not for the folders in it: `**` does that. Two
    paths of one file, through a link or relative, are one. A pattern that matches nothing is refused, for a mistyped
    path must not pass for an empty night, and so is a file that cannot be read (`UsageError`).
    """
    found: set[str] = set()
    for pattern in patterns:
        files = list(_remote(pattern) if is_remote(pattern) else _local(pattern))
        if not files:
            raise UsageError(f"{pattern!r} matches no file; expected a file, a folder with files or a pattern: mend it")
        found.update(files)
    return tuple(sorted(found))


def _local(pattern: str) -> Iterator[str]:
    matches = [Path(match) for match in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - absolute patterns
    if os.path.lexists(pattern):  # a name with brackets in it is a name first
        matches.append(Path(pattern))
    for match in matches:
        try:
            files = [file for file in match.iterdir() if _is_seen(file)] if match.is_dir() else [match]
        except OSError as error:
            raise UsageError(
                f"{_shown(match)}: {error.strerror}; expected a folder that may be read: mend its rights"
            ) from error
        for file in files:
            yield _readable(file)


def _is_seen(file: Path) -> bool:
    return not file.name.startswith(".") and not file.is_dir()


def _readable(file: Path) -> str:
    """The file's one name; refused if there is nothing to read behind it."""
    try:
        status = file.stat()
    except FileNotFoundError as error:
        raise UsageError(f"{_shown(file)}: a link to nothing; expected a file: remove the link") from error
    except OSError as error:
        raise UsageError(
            f"{_shown(file)}: {error.strerror}; expected a file that may be read: mend its path"
        ) from error
    name = str(file.resolve())
    if not _is_utf8(name):
        raise UsageError(
            f"{_shown(name)}: the file's name is not UTF-8, and the ledger cannot hold it; expected a UTF-8 name: "
            "rename it"
        )
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{_shown(file)}: a socket, pipe or device; expected a file: leave it out of the pattern")
    if not os.access(file, os.R_OK):
        raise UsageError(f"{_shown(file)}: may not be read; expected a file that may: mend its rights")
    return name


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(name: str | Path) -> str:
    """The name on one line of a message, whatever characters somebody gave a file's name."""
    return repr(str(name))[1:-1]


def _remote(pattern: str) -> Iterator[str]:
    system, name = file_system(pattern)
    if pattern.startswith("file://"):
        yield from _local(name)
        return
    magic = _MAGIC_IN_LINK if pattern.startswith(("http://", "https://")) else _MAGIC
    try:
        if system.isfile(name):
            names = [name]
        elif magic.search(name):
            names = [found for match in system.glob(name) if _is_shown(match) for found in _files_of(system, match)]
        else:
            names = list(_files_of(system, name))
    except read_errors() as error:
        raise UsageError(
            f"{_shown(pattern)}: {error}; expected a place that may be read: mend the URL or the rights"
        ) from error
    for found in names:
        yield system.unstrip_protocol(found)


def _files_of(system: AbstractFileSystem, name: str) -> Iterator[str]:
    """The file itself, or the files in the folder, hidden ones left out."""
    if system.isfile(name):
        yield name
        return
    for found in system.ls(name, detail=True):
        if found["type"] == "file" and _is_shown(found["name"]):
            yield found["name"]


def _is_shown(name: str) -> bool:
    """Whether it is no hidden file, and no folder that is kept as an empty file of its own name."""
    last = name.rpartition("/")[2]
    return bool(last) and not last.startswith(".")
