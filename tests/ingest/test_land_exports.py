"""Whole re-exports landed as files: what they leave out is withdrawn, unless they could not be read whole."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.land import land_outcomes
from ingest.report import FileReport
from ingest.settings import LogSettings
from schemas.errors import LakeError
from tests.ingest.hand_made import NOW, write
from tests.ingest.night_made import HEADER, csv_row, ledger_adds_up
from tests.ingest.score_examples import PLAIN
from warehouse.lake import Lake
from warehouse.transaction import Transaction


def score(trace: str, **changes: Any) -> bytes:
    """A score of a trace."""
    return json.dumps({**PLAIN, "trace_id": trace, "event_id": f"e-{trace}", **changes}).encode()


A, B, C = score("a"), score("b", value=0), score("c")


def land(lake: Lake, path: str | Path, day: int, **settings: Any) -> FileReport:
    """Land the export as it is on a day."""
    options = LogSettings(full_exports=("*/scores*",), **settings)
    (file,) = land_outcomes(lake, [str(path)], settings=options, now=NOW + timedelta(days=day)).files
    ledger_adds_up(lake)
    return file


def current(lake: Lake) -> dict[str, float | None]:
    """The word that counts on each trace."""
    return {row["trace_id"]: row["value"] for row in lake.read("current_outcomes").to_pylist()}


def test_a_score_that_a_re_export_drops_is_withdrawn(lake, tmp_path):
    """In the batch of the file; it counts as a row, not as a line. Read again, nothing more comes."""
    path = write(tmp_path / "scores", A, B)
    land(lake, path, 0)
    write(tmp_path / "scores", B, C)
    file = land(lake, path, 1)
    assert (file.state, file.num_lines, file.num_landed, file.num_duplicates) == ("changed", 2, 1, 1)
    assert current(lake) == {"a": None, "b": 0.0, "c": 1.0}
    assert land(lake, path, 2).state == "unchanged"
    write(tmp_path / "scores", A, B)
    land(lake, path, 3)
    assert current(lake) == {"a": 1.0, "b": 0.0, "c": None}


def test_a_csv_export_does_the_same(lake, tmp_path):
    """With its header; and where batches are small the file is one batch all the same."""
    path = write(tmp_path / "scores.csv", HEADER, *map(csv_row, (A, B, C)))
    land(lake, path, 0, batch_bytes=1)
    write(tmp_path / "scores.csv", HEADER, *map(csv_row, (C, B)))
    land(lake, path, 1, batch_bytes=1)
    assert current(lake) == {"a": None, "b": 0.0, "c": 1.0}
    assert lake.read("source_files").num_rows == 2


def test_a_file_with_a_reject_withdraws_nothing(lake, tmp_path):
    """What could not be read may be what is missing; the next whole export does it."""
    path = write(tmp_path / "scores", A, B)
    land(lake, path, 0)
    write(tmp_path / "scores", b"oops", B)
    assert land(lake, path, 1).num_rejects == 1
    assert current(lake) == {"a": 1.0, "b": 0.0}
    write(tmp_path / "scores", B)
    land(lake, path, 2)
    assert current(lake) == {"a": None, "b": 0.0}


def test_a_file_that_is_no_export_withdraws_nothing(lake, tmp_path):
    """Nor does an export that grew: it is read anew, and what it held it holds still."""
    path = write(tmp_path / "other", A, B)
    land(lake, path, 0)
    write(tmp_path / "other", B)
    land(lake, path, 1)
    path = write(tmp_path / "scores", A)
    land(lake, path, 2)
    write(tmp_path / "scores", A, C)
    assert land(lake, path, 3).num_duplicates == 1
    assert current(lake) == {"a": 1.0, "b": 0.0, "c": 1.0}
    assert land(lake, path, 4).state == "unchanged"


@pytest.mark.parametrize("is_committed", [False, True])
def test_an_export_that_was_broken_off_withdraws_at_the_next_reading(lake, tmp_path, monkeypatch, is_committed):
    """Before its commit nothing of it is there; after it everything, and nothing comes twice."""
    path = write(tmp_path / "scores", A, B)
    land(lake, path, 0)
    write(tmp_path / "scores", B, C)
    commit = Transaction._commit

    def broken(self: Transaction) -> None:
        if is_committed:
            commit(self)
        raise LakeError("gone")

    monkeypatch.setattr(Transaction, "_commit", broken)
    with pytest.raises(LakeError):
        land(lake, path, 1, batch_bytes=1)
    monkeypatch.undo()
    assert current(lake) == ({"a": None, "b": 0.0, "c": 1.0} if is_committed else {"a": 1.0, "b": 0.0})
    land(lake, path, 2, batch_bytes=1)
    assert current(lake) == {"a": None, "b": 0.0, "c": 1.0}
    assert lake.read("outcomes").num_rows == 4


@pytest.mark.parametrize("name", ["scores", "scores.csv"])
def test_an_export_that_was_read_while_it_was_written_withdraws_once_it_is_whole(lake, tmp_path, name):
    """Its cut last line was a reject, and when the file is whole it has only grown."""
    spelled = [HEADER, *map(csv_row, (A, B, C))] if name.endswith("csv") else [A, B, C]
    path = write(tmp_path / name, *spelled)
    land(lake, path, 0)
    whole = b"\n".join(one for one in spelled if one not in (A, csv_row(A))) + b"\n"
    Path(path).write_bytes(whole[:-20])
    assert land(lake, path, 1).num_rejects == 1
    assert current(lake) == {"a": 1.0, "b": 0.0, "c": 1.0}
    Path(path).write_bytes(whole)
    land(lake, path, 2)
    assert current(lake) == {"a": None, "b": 0.0, "c": 1.0}


def test_a_score_that_was_not_written_yet_comes_back_when_it_is(lake, tmp_path):
    """The export was read between two of its lines, and the score withdrawn."""
    path = write(tmp_path / "scores", A, B, C)
    land(lake, path, 0)
    write(tmp_path / "scores", B)
    land(lake, path, 1)
    assert current(lake) == {"a": None, "b": 0.0, "c": None}
    write(tmp_path / "scores", B, C)
    land(lake, path, 2)
    assert current(lake) == {"a": None, "b": 0.0, "c": 1.0}


@pytest.mark.parametrize("end", [b",", b",\n{broken}]"], ids=["cut", "broken"])
def test_an_array_that_was_not_read_whole_withdraws_nothing(lake, tmp_path, end):
    """A download that broke between two scores has not deleted the rest, though no line of it is a reject."""
    path = write(tmp_path / "scores", b"[" + A + b",", B + b"]")
    land(lake, path, 0)
    Path(path).write_bytes(b"[" + A + end)
    land(lake, path, 1)
    assert current(lake) == {"a": 1.0, "b": 0.0}
