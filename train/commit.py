"""Files and folders that are there whole or not at all, whenever the power fails."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def commit(temporary: Path, final: Path) -> None:
    """Make a finished file or folder appear under its name, all at once and for good; what was there is replaced.

    Both lie in one folder, whose entry for the new name is on disk too when this returns.
    """
    contents = sorted(temporary.rglob("*")) if temporary.is_dir() else []
    for path in (*contents, temporary):
        _write_through(path)
    replaced = final.with_name(f".{final.name}.replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if final.is_dir():
        # Moved aside, not emptied in its place: a kill leaves a whole folder or none under the name.
        final.replace(replaced)
    temporary.replace(final)
    _write_through(final.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _write_through(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
