"""However the recorded lines are shuffled, repeated and split over files and nights, the tables say the same."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.assemble import assemble
from ingest.land import land_calls
from ingest.lines import LineReader
from ingest.settings import LogSettings
from tests.ingest.hand_made import DEPLOYMENTS, EXAMPLE, NOW
from warehouse.lake import Lake

_PROVENANCE = ["uri", "byte_offset", "ingested_at", "user_hash"]
_STRIDE = 37


def _lines() -> list[bytes]:
    """Lines of some 15 recorded traces: streams, text only, damaged and forked ones among them, and one bad line."""
    chosen: list[bytes] = []
    for path in sorted((EXAMPLE / "logs").iterdir()):
        with LineReader(str(path), 2**20) as reader:
            lines = [line.text for block in reader.blocks() for line in block if line.is_terminated]
        good = [line for line in lines if line.startswith(b"{")]
        wanted = {json.loads(line)["trace_id"] for line in good[3::_STRIDE]}
        wanted |= {json.loads(line)["trace_id"] for line in good if b"-9999.0" in line}
        chosen += [line for line in good if json.loads(line)["trace_id"] in wanted]
    return [*dict.fromkeys(chosen), b"upstream connect error"]


LINES = _lines()


def _content(lake: Lake) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Calls and current traces, without what says only where and when they were read."""
    calls = lake.read("calls", order_by=["call_id"]).drop_columns(_PROVENANCE).to_pylist()
    traces = lake.read("current_traces", order_by=["trace_id", "sequence_index"])
    return calls, traces.drop_columns(["trace_revision", "ingested_at", "user_hash"]).to_pylist()


@pytest.fixture(scope="module")
def expected(empty_lake: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What one file in one night gives."""
    return _landed(empty_lake, [[LINES]])


def _landed(empty_lake: Path, nights: list[list[list[bytes]]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The content after these nights of files; every second file is compressed, and no line is lost on the way."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copytree(empty_lake, root / "lake")
        with Lake.open(root / "lake") as lake:
            for night, files in enumerate(nights):
                for number, lines in enumerate(files):
                    content = b"".join(line + b"\n" for line in lines)
                    packed = gzip.compress(content) if number % 2 else content
                    (root / f"{night}-{number}.log").write_bytes(packed)
                report = land_calls(
                    lake, [f"{root}/{night}-*.log"], deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW
                )
                assert report.num_lines == sum(len(lines) for lines in files)
                states = (report.num_landed, report.num_duplicates, report.num_rejects, report.num_blank)
                assert sum(states) == report.num_lines
                assemble(lake, deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW)
            return _content(lake)


@st.composite
def _nights(draw: st.DrawFn) -> list[list[list[bytes]]]:
    """The lines once to three times each, in any order, over up to three nights of up to two files."""
    copies = draw(st.lists(st.integers(1, 3), min_size=len(LINES), max_size=len(LINES)))
    lines = draw(st.permutations([line for line, number in zip(LINES, copies, strict=True) for _ in range(number)]))
    num_nights, num_files = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    nights: list[list[list[bytes]]] = [[[] for _ in range(num_files)] for _ in range(num_nights)]
    for line in lines:
        nights[draw(st.integers(0, num_nights - 1))][draw(st.integers(0, num_files - 1))].append(line)
    return nights


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(nights=_nights())
def test_any_delivery_gives_the_same_tables(empty_lake, expected, nights):
    """Exactly once, in whatever order and however often."""
    assert _landed(empty_lake, nights) == expected
