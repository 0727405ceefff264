"""An empty lake, and the recorded example once landed and put together, which tests may only read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ingest.assemble import AssembleReport, assemble
from ingest.land import land_calls, land_outcomes
from ingest.report import LandReport
from ingest.settings import LogSettings
from tests.ingest.hand_made import DEPLOYMENTS, EXAMPLE, NOW
from warehouse.lake import Lake


@pytest.fixture(scope="session")
def empty_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an empty lake, to be copied: that is quicker than making one."""
    root = tmp_path_factory.mktemp("empty") / "lake"
    Lake.create(root).close()
    return root


@pytest.fixture
def lake(tmp_path: Path, empty_lake: Path) -> Iterator[Lake]:
    """An empty lake."""
    shutil.copytree(empty_lake, tmp_path / "lake")
    with Lake.open(tmp_path / "lake") as opened:
        yield opened


@dataclass(frozen=True)
class Night:
    """The recorded example in a lake, and what each step said."""

    lake: Lake
    calls: LandReport
    outcomes: LandReport
    traces: AssembleReport


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """The recorded logs and outcomes of examples/refund_desk."""
    settings = LogSettings()
    with Lake.create(tmp_path_factory.mktemp("example") / "lake") as made:
        calls = land_calls(made, [str(EXAMPLE / "logs")], deployments=DEPLOYMENTS, settings=settings, now=NOW)
        outcomes = land_outcomes(made, [str(EXAMPLE / "outcomes.csv")], settings=settings, now=NOW)
        traces = assemble(made, deployments=DEPLOYMENTS, settings=settings, now=NOW)
        yield Night(made, calls, outcomes, traces)
