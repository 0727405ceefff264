"""An empty lake for tests that write, and one small night that tests may only read."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.warehouse.night import fill
from warehouse.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def empty_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty lake to be copied, which is faster than making one for each test."""
    root = tmp_path_factory.mktemp("empty") / "lake"
    Lake.create(root).close()
    return root


@pytest.fixture(scope="session")
def empty(empty_root: Path) -> Iterator[Lake]:
    """An empty lake that tests may only read."""
    with Lake.open(empty_root, read_only=True) as opened:
        yield opened


@pytest.fixture
def lake(tmp_path: Path, empty_root: Path) -> Iterator[Lake]:
    """An empty lake."""
    shutil.copytree(empty_root, tmp_path / "lake")
    with Lake.open(tmp_path / "lake") as opened:
        yield opened


@pytest.fixture(scope="session")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The lake of `tests.warehouse.night`; its rows and their figures are told there."""
    root = tmp_path_factory.mktemp("night") / "lake"
    with Lake.create(root) as made:
        fill(made)
        made.close()
    with Lake.open(root, read_only=True) as opened:
        yield opened
