"""The named queries of ingest: a few rows in, the expected rows out."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from ingest.assemble import assemble
from ingest.land import land_calls, land_outcomes
from ingest.meaning import Interpreter
from ingest.settings import LogSettings
from tests.ingest.hand_made import DEPLOYMENTS, NOW, START, first_call, second_call, write
from warehouse.lake import Lake


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """Trace a with two calls, put together; trace b with one call, not yet; a file with a cut tail; one outcome."""
    folder, settings = lake.root.parent, LogSettings()

    def land(path: str) -> None:
        land_calls(lake, [path], deployments=DEPLOYMENTS, settings=settings, now=NOW)

    land(write(folder / "one", first_call(), second_call()))
    assemble(lake, deployments=DEPLOYMENTS, settings=settings, now=NOW)
    land(write(folder / "two", first_call(trace_id="trace-b"), b'{"a"', end=b""))
    header = b"trace_id,name,value,source_kind,source,event_time"
    row = b"trace-a,ok,1,program,x,2026-11-22T09:00:00Z"
    land_outcomes(lake, [write(folder / "scores.csv", header, row)], settings=settings, now=NOW)
    return lake


def test_latest_readings_tells_where_reading_goes_on(landed):
    """One row for each wanted file that was read, its rejected tail with it."""
    folder = landed.root.parent
    wanted = pa.table({"uri": [str(folder / name) for name in ("one", "two", "three")]})
    rows = {row.pop("uri"): row for row in landed.query("ingest/latest_readings", {"wanted": wanted}).to_pylist()}
    assert set(rows) == {str(folder / "one"), str(folder / "two")}
    assert rows[str(folder / "one")]["tail_sha256"] is None
    two = rows[str(folder / "two")]
    assert (two["file_version"], two["bytes_read"]) == (0, len(first_call(trace_id="trace-b")) + 1)
    (reject,) = landed.read("rejects").to_pylist()
    assert two["tail_sha256"] == reject["line_sha256"]


@pytest.mark.parametrize(("table", "key"), [("calls", "call_id"), ("outcomes", "outcome_id")])
def test_known_items_are_those_in_the_lake(landed, table, key):
    """And no others."""
    known = landed.read(table, columns=[key])[key].to_pylist()
    incoming = pa.table({"item_id": [*known, "new"]})
    found = landed.query(f"ingest/known_{table}", {"incoming": incoming})["item_id"].to_pylist()
    assert sorted(found) == sorted(known)


def _stale(lake: Lake, settings_sha256: str) -> dict[str, dict[str, object]]:
    """The stale traces if the toy's settings had this hash."""
    meanings = pa.table(
        {
            "logged_deployment": ["toy"],
            "landed_as": pa.array([None], pa.string()),
            "model": ["toy@v7"],
            "settings_sha256": [settings_sha256],
        }
    )
    rows = lake.query("ingest/stale_traces", {"meanings": meanings}).to_pylist()
    return {row.pop("trace_id"): row for row in rows}


def test_deployments_of_calls_are_those_that_occur(landed):
    """Each combination once."""
    assert landed.query("ingest/deployments_of_calls").to_pylist() == [
        {"logged_deployment": "toy", "landed_as": None, "model": "toy@v7"}
    ]


def test_stale_traces_have_calls_that_their_revision_does_not_know(landed):
    """Trace b was never put together; trace a is whole until a call comes late."""
    known = Interpreter(DEPLOYMENTS).settings_sha256("toy", None, "toy@v7")
    assert _stale(landed, known) == {"trace-b": {"num_calls": 1, "num_tokens": 10, "since": START, "until": START}}
    late = write(landed.root.parent / "late", second_call(trace_id="trace-a").replace(b"chatcmpl-2", b"chatcmpl-3"))
    land_calls(landed, [late], deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW)
    assert {name: row["num_calls"] for name, row in _stale(landed, known).items()} == {"trace-a": 3, "trace-b": 1}


def test_stale_traces_were_made_under_other_settings(landed):
    """Their deployment's, as they are now."""
    assert {name: row["num_calls"] for name, row in _stale(landed, "other").items()} == {"trace-a": 2, "trace-b": 1}


def test_stale_traces_hash_several_settings_as_the_code_does(lake):
    """A trace of two models, put together under the settings of both, is not stale."""
    other = second_call().replace(b"toy@v7", b"toy@v8")
    path = write(lake.root.parent / "log", first_call(), other, second_call(trace_id="trace-c"))
    land_calls(lake, [path], deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW)
    assert assemble(lake, deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW).num_traces == 2
    assert assemble(lake, deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW).num_traces == 0


def test_calls_of_traces_are_those_of_the_wanted_traces_and_time(landed):
    """Nothing of other traces, nothing outside the window."""
    wanted = {"wanted": pa.table({"trace_id": ["trace-a"]})}
    both = landed.query("ingest/calls_of_traces", wanted, since=START, until=START + timedelta(seconds=1))
    assert sorted(both["call_index"].to_pylist()) == [0, 1]
    first = landed.query("ingest/calls_of_traces", wanted, since=START, until=START)
    assert first["call_index"].to_pylist() == [0]


def test_trace_revisions_are_the_highest(landed):
    """Of the wanted traces that were put together."""
    wanted = pa.table({"trace_id": ["trace-a", "trace-b"]})
    rows = landed.query("ingest/trace_revisions", {"wanted": wanted}).to_pylist()
    known = Interpreter(DEPLOYMENTS).settings_sha256("toy", None, "toy@v7")
    assert rows == [
        {"trace_id": "trace-a", "trace_revision": 0, "num_calls": 2, "meaning_sha256": known, "split": "train"}
    ]
