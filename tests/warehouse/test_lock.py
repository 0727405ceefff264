"""One holder at a time, and no dead one."""

import pytest

from schemas.errors import LakeBusyError
from warehouse.lock import locked


def test_a_held_lock_is_told_with_its_holder(tmp_path):
    """Who waits too long is told who holds the lock, for what and since when."""
    path = tmp_path / "a.lock"
    with (
        locked(path, purpose="write"),
        pytest.raises(LakeBusyError, match=r"locked by process \d+ \(write\) since 20\d\d-"),
        locked(path, purpose="compact", timeout_s=0.05),
    ):
        pass


def test_a_lock_is_free_after_its_block(tmp_path):
    """Leaving the block frees the lock, by an exception too, and clears the note."""
    path = tmp_path / "a.lock"
    with pytest.raises(RuntimeError), locked(path, purpose="write"):
        raise RuntimeError
    with locked(path, purpose="write", timeout_s=0):
        pass
    assert path.read_text() == ""
