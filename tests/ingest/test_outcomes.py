"""Late scores: each event once, revisions as later events, and the traps of exports."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ingest.land import land_outcomes
from ingest.report import LandReport
from ingest.settings import LogSettings
from tests.ingest.hand_made import EXAMPLE, NOW, write
from warehouse.lake import Lake

HEADER = b"event_id,trace_id,name,value,source_kind,source,scorer_version,event_time"
ROW = b"e1,t1,refund_correct,1,program,checker,1,2026-11-22T09:00:00Z"
FIELDS = {
    "event_id": "e1",
    "trace_id": "t1",
    "name": "refund_correct",
    "value": 1,
    "source_kind": "program",
    "source": "checker",
    "scorer_version": "1",
    "event_time": "2026-11-22T09:00:00Z",
}


def land(lake: Lake, *paths: str | Path) -> LandReport:
    """Land these files."""
    return land_outcomes(lake, [str(path) for path in paths], settings=LogSettings(), now=NOW)


def test_csv_and_json_lines_say_the_same_event(lake, tmp_path):
    """Delivered in both forms it lands once."""
    report = land(lake, write(tmp_path / "a.csv", HEADER, ROW), write(tmp_path / "b", json.dumps(FIELDS).encode()))
    assert [(file.num_lines, file.num_landed, file.num_duplicates) for file in report.files] == [(1, 1, 0), (1, 0, 1)]
    (row,) = lake.read("outcomes").to_pylist()
    assert (row["trace_id"], row["value"], row["source_kind"], row["source"]) == ("t1", 1.0, "program", "checker")
    assert row["event_time"] == row["observed_time"] == datetime(2026, 11, 22, 9, tzinfo=UTC)
    assert row["byte_offset"] == len(HEADER) + 1


def test_a_second_delivery_is_a_duplicate_and_a_revision_is_an_event(lake, tmp_path):
    """Whatever the time at which it reached us."""
    revised = ROW.replace(b",1,program", b",0,program").replace(b"09:00", b"19:00")
    (file,) = land(lake, write(tmp_path / "a.csv", HEADER, ROW, ROW, revised, b"")).files
    assert (file.num_lines, file.num_landed, file.num_duplicates, file.num_blank) == (4, 2, 1, 1)
    (current,) = lake.read("current_outcomes").to_pylist()
    assert current["value"] == 0.0
    again = json.dumps({**FIELDS, "observed_time": "2026-11-25T00:00:00Z"}).encode()
    assert land(lake, write(tmp_path / "b", again)).num_duplicates == 1


def test_a_blank_value_withdraws_a_score(lake, tmp_path):
    """It is an event without a value, never a zero."""
    withdrawn = ROW.replace(b",1,program", b",,program").replace(b"09:00", b"19:00")
    land(lake, write(tmp_path / "a.csv", HEADER, ROW, withdrawn))
    (current,) = lake.read("current_outcomes").to_pylist()
    assert current["value"] is None


def test_a_csv_file_that_grew_keeps_its_header(lake, tmp_path):
    """The columns are those of the part that was read before."""
    path = write(tmp_path / "a.csv", HEADER, ROW)
    land(lake, path)
    write(tmp_path / "a.csv", HEADER, ROW, ROW.replace(b"t1", b"t2"))
    (file,) = land(lake, path).files
    assert (file.state, file.num_lines, file.num_landed) == ("grown", 1, 1)


def test_a_csv_file_with_a_byte_order_mark_keeps_its_columns_when_it_grows(lake, tmp_path):
    """The mark is part of no name, at the second reading either."""
    header = b"\xef\xbb\xbf" + HEADER.replace(b"event_id,trace_id", b"trace_id,event_id")
    row = ROW.replace(b"e1,t1", b"t1,e1")
    path = write(tmp_path / "a.csv", header, row)
    assert land(lake, path).num_landed == 1
    write(tmp_path / "a.csv", header, row, row.replace(b"t1,e1", b"t2,e2"))
    (file,) = land(lake, path).files
    assert (file.state, file.num_landed, file.rejects_by_reason) == ("grown", 1, {})
    assert sorted(lake.read("outcomes")["trace_id"].to_pylist()) == ["t1", "t2"]


def test_a_csv_row_without_its_newline_waits_for_it(lake, tmp_path):
    """0.5 may be the beginning of 0.55; so may a header."""
    header = HEADER.replace(b"value,", b"") + b",value"
    row = ROW.replace(b",1,program", b",program") + b",0.5"
    path = write(tmp_path / "a.csv", header, row, end=b"")
    assert land(lake, path).files[0].rejects_by_reason == {"truncated_tail": 1}
    write(tmp_path / "a.csv", header, row + b"5")
    land(lake, path)
    assert lake.read("outcomes")["value"].to_pylist() == [0.55]
    cut = write(tmp_path / "b.csv", HEADER[:30], end=b"")
    assert land(lake, cut).files[0].rejects_by_reason == {"truncated_tail": 1}
    write(tmp_path / "b.csv", HEADER, ROW)
    assert land(lake, cut).files[0].num_landed == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (ROW.replace(b",1,program", b',"0,5",program'), "bad_value"),
        (ROW.replace(b",1,program", b",0,5,program"), "bad_field"),
        (ROW.replace(b",1,program", b",resolved,program"), "bad_value"),
        (ROW.replace(b",1,program", b",nan,program"), "bad_value"),
        (ROW.replace(b",1,program", b",1e999,program"), "bad_value"),
        (ROW.replace(b",1,program", b",1_000,program"), "bad_value"),
        (ROW.replace(b"Z", b""), "bad_time"),
        (ROW.replace(b"2026-11-22T09:00:00Z", b"22/09/2026 09:00"), "bad_time"),
        (ROW.replace(b"2026-11-22T09:00:00Z", b""), "bad_time"),
        (ROW.replace(b",program", b",bot"), "bad_source_kind"),
        (ROW.replace(b",program", b","), "bad_source_kind"),
        (ROW.replace(b"e1,t1", b"e1,"), "no_join_key"),
        (ROW.replace(b"refund_correct", b""), "bad_field"),
        (ROW.replace(b"checker", b"\xff"), "bad_unicode"),
        (ROW.replace(b"checker", b'"check'), "bad_field"),
        (ROW + b",more", "bad_field"),
    ],
)
def test_a_row_that_cannot_be_used_names_its_reason(lake, tmp_path, row, reason):
    """Decimal commas, local times and unknown words are refused, and the row after lands."""
    (file,) = land(lake, write(tmp_path / "a.csv", HEADER, row, ROW)).files
    assert (file.rejects_by_reason, file.num_landed) == ({reason: 1}, 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"value":', "bad_json"),
        (json.dumps({**FIELDS, "value": True}).encode().replace(b"true", b"NaN"), "bad_value"),
        (json.dumps({**FIELDS, "value": [1]}).encode(), "bad_value"),
        (json.dumps({**FIELDS, "value": 10**309}).encode(), "bad_value"),
        (json.dumps({**FIELDS, "trace_id": "a\x00b"}).encode(), "bad_field"),
        (json.dumps({k: v for k, v in FIELDS.items() if k != "value"}).encode(), "bad_value"),
        (json.dumps({**FIELDS, "trace_id": ["t1"]}).encode(), "bad_field"),
        (json.dumps({**FIELDS, "event_time": [1]}).encode(), "bad_time"),
        (b"[1]", "schema_unknown"),
    ],
)
def test_a_json_line_that_cannot_be_used_names_its_reason(lake, tmp_path, text, reason):
    """A missing value is not a withdrawn one."""
    good = json.dumps(FIELDS).encode()
    (file,) = land(lake, write(tmp_path / "a", good, text)).files
    assert file.rejects_by_reason == {reason: 1}


def test_a_header_that_lacks_a_field_rejects_every_row(lake, tmp_path):
    """Nothing is guessed from the order of columns."""
    for number, header in enumerate((HEADER.replace(b"value", b"score"), HEADER + b",name")):
        (file,) = land(lake, write(tmp_path / f"{number}.csv", header, ROW, ROW)).files
        assert file.rejects_by_reason == {"schema_unknown": 2}


@pytest.mark.parametrize("first", [b"ticket_id;ask_id;outcome;closed_at;csat", b"<html>", b"5"])
def test_a_first_line_that_is_no_header_is_rejected_itself(lake, tmp_path, first):
    """And the scores behind it land."""
    (file,) = land(lake, write(tmp_path / "a", first, json.dumps(FIELDS).encode())).files
    assert (file.num_lines, file.num_rejects, file.num_landed) == (2, 1, 1)


def test_the_recorded_judge_and_labels_land(lake):
    """800 verdicts and 90 labels."""
    report = land(lake, EXAMPLE / "judge.jsonl", EXAMPLE / "labels.csv")
    assert [(file.num_lines, file.num_landed) for file in report.files] == [(800, 800), (90, 90)]
