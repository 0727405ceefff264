"""What is committed is on disk before it has its name, and its name is on disk before the call returns."""

import os
from pathlib import Path

import pytest

from train.commit import commit


@pytest.fixture
def events(monkeypatch):
    """What is written through and what is renamed, in order, by name."""
    seen, sync, replace = [], os.fsync, Path.replace

    def tell_sync(descriptor):
        seen.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def tell_replace(self, target):
        seen.append(f"{self.name} to {target.name}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", tell_sync)
    monkeypatch.setattr(Path, "replace", tell_replace)
    return seen


def test_a_file_is_written_through_and_so_is_its_name(events, tmp_path):
    """The file, then the rename, then the folder that holds the name; the old content is gone."""
    (tmp_path / "plan.json").write_text("old")
    (tmp_path / "plan.writing").write_text("new")
    commit(tmp_path / "plan.writing", tmp_path / "plan.json")
    assert events == ["plan.writing", "plan.writing to plan.json", tmp_path.name]
    assert (tmp_path / "plan.json").read_text() == "new"


def test_a_folder_is_written_through_with_all_that_it_holds(events, tmp_path):
    """Files of folders within it too; what was there before is replaced whole."""
    for place in ("new/in", "old"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "new" / "in" / "a").touch()
    (tmp_path / "old" / "left").touch()
    commit(tmp_path / "new", tmp_path / "old")
    assert events == ["in", "a", "new", "old to .old.replaced", "new to old", tmp_path.name]
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert [path.name for path in sorted((tmp_path / "old").rglob("*"))] == ["in", "a"]
