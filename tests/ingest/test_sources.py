"""Which files a list of paths names."""

from __future__ import annotations

import pytest

from ingest.sources import expand
from schemas.errors import UsageError


def test_folders_patterns_and_files_name_each_file_once(tmp_path):
    """In order of their paths, hidden files of a folder left out."""
    for name in ("b.log", "a.log", ".hidden", "c[1].log"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "inner").mkdir()
    found = expand([str(tmp_path), str(tmp_path / "*.log"), str(tmp_path / "c[1].log")])
    assert found == tuple(str(tmp_path / name) for name in ("a.log", "b.log", "c[1].log"))


def test_a_pattern_that_matches_nothing_is_refused(tmp_path):
    """A mistyped path does not pass for an empty night."""
    with pytest.raises(UsageError, match="matches no file"):
        expand([str(tmp_path / "*.jsonl")])


def test_no_pattern_is_no_file():
    """Nothing asked, nothing read."""
    assert expand([]) == ()


def test_a_name_that_is_no_utf8_is_refused(tmp_path):
    """The ledger could not name the file."""
    (tmp_path / "log\udcff").write_bytes(b"")
    with pytest.raises(UsageError, match="rename it"):
        expand([str(tmp_path)])
