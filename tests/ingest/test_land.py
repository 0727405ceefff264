"""Files to tables, exactly once."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from ingest.land import land_calls, land_files
from ingest.reading import Reading
from ingest.report import FileReport, LandReport
from ingest.settings import LogSettings
from schemas.errors import UsageError
from tests.ingest.hand_made import (
    DEPLOYMENTS,
    G1,
    L1,
    NOW,
    P1,
    envelope,
    first_call,
    line,
    response,
    second_call,
    write,
)
from warehouse.lake import Lake

A, B = first_call(), second_call()


def land(lake: Lake, *paths: str | Path, **settings: int) -> LandReport:
    """Land these files."""
    return land_calls(
        lake, [str(path) for path in paths], deployments=DEPLOYMENTS, settings=LogSettings(**settings), now=NOW
    )


def states(file: FileReport) -> tuple[str, int, int, int, int]:
    """State of the file; landed, duplicates, rejects, blank. The four add up to the lines."""
    counted = (file.num_landed, file.num_duplicates, file.num_rejects, file.num_blank)
    assert sum(counted) == file.num_lines
    return (file.state, *counted)


def test_every_line_ends_in_one_state(lake, tmp_path):
    """Landed, duplicate, reject or blank."""
    (file,) = land(lake, write(tmp_path / "log", A, b"", A, b"oops", B, b"  ")).files
    assert states(file) == ("new", 2, 1, 1, 2)
    assert file.rejects_by_reason == {"bad_json": 1}
    (row,) = lake.read("source_files").to_pylist()
    assert [row[f"num_{name}"] for name in ("lines", "landed", "duplicates", "rejects", "blank")] == [6, 2, 1, 1, 2]
    assert (row["uri"], row["file_version"], row["bytes_read"]) == (file.uri, 0, Path(file.uri).stat().st_size)


def test_a_call_says_where_it_came_from(lake, tmp_path):
    """File, offset and hash of its line; meaning from the settings."""
    land(lake, write(tmp_path / "log", b"", B))
    (row,) = lake.read("calls").to_pylist()
    assert (row["byte_offset"], row["uri"]) == (1, str(tmp_path / "log"))
    assert (row["policy_version"], row["logprob_kind"], row["temperature"], row["top_k"]) == (
        "v7",
        "processed",
        1.0,
        -1,
    )
    assert row["sampling_json"] == '{"temperature":1.0,"top_k":-1,"top_p":1.0}'


def test_reading_again_finds_nothing_new(lake, tmp_path):
    """No row is written, in no table."""
    path = write(tmp_path / "log", A, b"oops", B)
    land(lake, path)
    before = lake.snapshot()
    report = land(lake, path)
    assert states(report.files[0]) == ("unchanged", 0, 0, 0, 0)
    assert not report.is_new
    assert lake.snapshot() == before


def test_a_file_that_grew_is_read_on(lake, tmp_path):
    """Only what came since, whether or not the last line had its newline."""
    path = write(tmp_path / "log", A, end=b"")
    assert states(land(lake, path).files[0]) == ("new", 1, 0, 0, 0)
    write(tmp_path / "log", A, B)
    assert states(land(lake, path).files[0]) == ("grown", 1, 0, 0, 0)
    assert lake.read("source_files")["file_version"].to_pylist() == [0, 1]


def test_a_compressed_file_that_grew_is_read_on(lake, tmp_path):
    """By a further member."""
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(A + b"\n"))
    land(lake, path)
    path.write_bytes(gzip.compress(A + b"\n") + gzip.compress(B + b"\n"))
    assert states(land(lake, path).files[0]) == ("grown", 1, 0, 0, 0)


def test_a_cut_tail_lands_once_it_is_whole(lake, tmp_path):
    """Rejected at first, not settled, and read again when the file has grown; until then it counts once."""
    path = write(tmp_path / "log", A, B[:300], end=b"")
    assert land(lake, path).files[0].rejects_by_reason == {"truncated_tail": 1}
    assert states(land(lake, path).files[0]) == ("unchanged", 0, 0, 0, 0)
    write(tmp_path / "log", A, B[:500], end=b"")
    assert states(land(lake, path).files[0]) == ("grown", 0, 0, 1, 0)
    write(tmp_path / "log", A, B)
    assert states(land(lake, path).files[0]) == ("grown", 1, 0, 0, 0)
    assert lake.read("calls").num_rows == 2
    assert lake.read("current_rejects").num_rows == 0
    (total,) = lake.read("current_source_files").to_pylist()
    assert (total["num_lines"], total["num_landed"], total["num_rejects"]) == (2, 2, 0)


def test_a_truncated_gzip_is_read_on_when_it_is_whole(lake, tmp_path):
    """Whole lines land at once, the rest when the file is complete."""
    lines = [first_call(trace_id=f"t{n}") for n in range(50)]
    packed = gzip.compress(b"\n".join(lines) + b"\n")
    path = tmp_path / "log.gz"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    (cut,) = land(lake, path).files
    assert "truncated_gzip" in cut.notes
    assert 0 < cut.num_landed < 50
    assert states(land(lake, path).files[0]) == ("unchanged", 0, 0, 0, 0)
    path.write_bytes(packed)
    (whole,) = land(lake, path).files
    assert (whole.state, whole.notes, cut.num_landed + whole.num_landed) == ("grown", (), 50)


def test_the_same_lines_under_another_name_land_once(lake, tmp_path):
    """A rotated file, and one that is compressed besides."""
    land(lake, write(tmp_path / "log", A, B))
    (tmp_path / "log").rename(tmp_path / "log.1")
    assert states(land(lake, tmp_path / "log.1").files[0]) == ("new", 0, 2, 0, 0)
    (tmp_path / "log.2.gz").write_bytes(gzip.compress((tmp_path / "log.1").read_bytes()))
    assert states(land(lake, tmp_path / "log.2.gz").files[0]) == ("new", 0, 2, 0, 0)
    assert lake.read("calls").num_rows == 2


def test_a_changed_file_is_read_again_from_its_beginning(lake, tmp_path):
    """What had landed is a duplicate, and the change is noted; so for one that became shorter."""
    path = write(tmp_path / "log", A, b"oops")
    land(lake, path)
    write(tmp_path / "log", B, A, b"other")
    (file,) = land(lake, path).files
    assert (states(file), file.notes) == (("changed", 1, 1, 1, 0), ("file_changed",))
    write(tmp_path / "log", B)
    assert states(land(lake, path).files[0]) == ("changed", 0, 1, 0, 0)
    write(tmp_path / "log", end=b"")
    assert states(land(lake, path).files[0]) == ("changed", 0, 0, 0, 0)
    assert states(land(lake, path).files[0]) == ("unchanged", 0, 0, 0, 0)


def test_a_big_file_commits_in_batches(lake, tmp_path):
    """Each batch is a version of the file; together they say what one would."""
    lines = [first_call(trace_id=f"t{n}") for n in range(40)]
    (file,) = land(lake, write(tmp_path / "log", *lines, *lines[:10]), batch_bytes=len(A) * 7).files
    assert states(file) == ("new", 40, 10, 0, 0)
    rows = lake.read("source_files", order_by=["file_version"]).to_pylist()
    assert [row["file_version"] for row in rows] == list(range(len(rows)))
    assert len(rows) > 3
    assert sum(row["num_lines"] for row in rows) == 50
    assert [row["bytes_read"] for row in rows] == sorted(row["bytes_read"] for row in rows)


def test_a_line_with_several_choices_lands_as_one_line_and_several_calls(lake, tmp_path):
    """And a second delivery of it is one duplicate line."""
    answer = response(P1, G1, L1)
    answer["choices"].append({**answer["choices"][0], "index": 1})
    text = line(envelope(answer))
    (file,) = land(lake, write(tmp_path / "log", text, text)).files
    assert (states(file), file.num_rows) == (("new", 1, 1, 0, 0), 2)


def test_a_long_line_is_rejected_and_its_neighbours_land(lake, tmp_path):
    """The limit is a setting."""
    long = A.replace(b'"done"', b'"' + b"x" * 5000 + b'"')
    (file,) = land(lake, write(tmp_path / "log", A, long, B), max_line_bytes=4000).files
    assert (states(file), file.rejects_by_reason) == (("new", 2, 0, 1, 0), {"line_too_long": 1})
    (reject,) = lake.read("rejects").to_pylist()
    assert (reject["num_bytes"], reject["byte_offset"]) == (len(long), len(A) + 1)


def test_a_reject_shows_its_head_without_the_user(lake, tmp_path):
    """Bytes that are no text are escaped, a user's name is hidden, a last line that is whole is settled."""
    land(lake, write(tmp_path / "log", b'{"user":"me@example.com","a":\xff\x00', b'{"a":1}', end=b""))
    first, second = lake.read("rejects", order_by=["byte_offset"]).to_pylist()
    assert first["first_bytes"] == '{"user":"[user]","a":\\xff\x00'
    assert (first["reason"], second["reason"]) == ("bad_unicode", "schema_unknown")
    assert lake.read("source_files")["bytes_read"].to_pylist() == [(tmp_path / "log").stat().st_size]


def test_a_byte_order_mark_is_a_note_of_the_file(lake, tmp_path):
    """Not the loss of its first line."""
    path = tmp_path / "log"
    path.write_bytes(b"\xef\xbb\xbf" + A + b"\n")
    (file,) = land(lake, path).files
    assert (states(file), file.notes) == (("new", 1, 0, 0, 0), ("utf8_bom",))


def test_an_empty_file_is_in_the_ledger(lake, tmp_path):
    """So that nobody asks whether it was read."""
    path = write(tmp_path / "log", end=b"")
    assert states(land(lake, path).files[0]) == ("new", 0, 0, 0, 0)
    assert lake.read("source_files").num_rows == 1


def test_a_user_is_the_same_under_one_salt_and_another_under_another(tmp_path, monkeypatch):
    """The lake keeps a random salt, private to its owner; the environment's wins."""
    hashes = []
    for name, salt in (("a", None), ("a", None), ("b", None), ("c", "pepper"), ("d", "pepper")):
        if salt is not None:
            monkeypatch.setenv("TRACEMILL_USER_SALT", salt)
        with Lake.create(tmp_path / name) as made:
            land(made, write(tmp_path / "log", A, first_call(trace_id=f"{len(hashes)}")))
            hashes.append(set(made.read("calls")["user_hash"].to_pylist()))
    assert [len(found) for found in hashes] == [1] * 5
    assert hashes[0] == hashes[1]
    assert hashes[3] == hashes[4]
    assert len(set().union(*hashes)) == 3
    assert (tmp_path / "a" / "user_salt").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "c" / "user_salt").exists()


def test_progress_runs_to_the_end_of_the_files(lake, tmp_path):
    """In bytes as stored, never backwards."""
    seen = []
    path = write(tmp_path / "log", *(first_call(trace_id=f"t{n}") for n in range(20)))
    settings = LogSettings(batch_bytes=4096)
    land_calls(lake, [path], deployments={}, settings=settings, now=NOW, progress=lambda *said: seen.append(said[:4]))
    size = Path(path).stat().st_size
    assert seen[-1] == ("ingest calls", size, size, "bytes")
    done = [said[1] for said in seen]
    assert done == sorted(done)


def test_a_missing_file_is_refused_before_anything_lands(lake, tmp_path):
    """Not a night without traffic."""
    with pytest.raises(UsageError):
        land(lake, write(tmp_path / "log", A), tmp_path / "nowhere")
    assert lake.read("source_files").num_rows == 0


def test_two_processes_on_one_file_land_each_line_once(lake, tmp_path):
    """The one that finds the ledger moved on reads on from there."""
    path = write(tmp_path / "log", b"oops", *(first_call(trace_id=f"t{n}") for n in range(30)))
    overtakes = Counter()

    def overtake(*_said: object) -> None:
        if not overtakes["done"]:
            overtakes["done"] += 1
            with Lake.open(lake.root) as other:
                land(other, path)

    settings = LogSettings(batch_bytes=4096)
    land_calls(lake, [path], deployments={}, settings=settings, now=NOW, progress=overtake)
    assert overtakes["done"] == 1
    calls = lake.read("calls", columns=["trace_id"])["trace_id"].to_pylist()
    assert sorted(calls) == sorted({f"t{n}" for n in range(30)})
    (total,) = lake.read("current_source_files").to_pylist()
    assert (total["num_lines"], total["num_landed"], total["num_rejects"]) == (31, 30, 1)
    versions = lake.read("source_files")["file_version"].to_pylist()
    assert sorted(versions) == list(range(len(versions)))


def test_a_file_that_is_gone_when_its_turn_comes_is_noted_and_the_others_land(lake, tmp_path):
    """Logs are rotated at night, too."""
    files = [write(tmp_path / name, first_call(trace_id=name)) for name in ("a", "b")]

    def vanish(_stage: str, done: int, _total: int | None, _unit: str, _note: str = "") -> None:
        if done:
            (tmp_path / "b").unlink(missing_ok=True)

    report = land_calls(lake, files, deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW, progress=vanish)
    assert [(file.state, file.num_landed, file.notes) for file in report.files] == [
        ("new", 1, ()),
        ("gone", 0, ("file_gone",)),
    ]


def test_many_tiny_lines_are_committed_a_few_at_a_time(lake, tmp_path, monkeypatch):
    """A reject takes far more memory than a line of two bytes, so rows are counted beside bytes."""
    monkeypatch.setattr("ingest.land.BATCH_ROWS", 100)
    monkeypatch.setattr("ingest.land.READ_BYTES", 64)
    report = land(lake, write(tmp_path / "log", *[b"x"] * 250))
    assert report.num_rejects == 250
    assert lake.read("source_files").num_rows == 2


def test_a_file_is_read_again_when_it_is_asked_for(lake, tmp_path):
    """Lines that another format had refused land, those that had landed are duplicates, and counts add up."""
    path = write(tmp_path / "log", first_call(), b"{}")
    refused = land_calls(lake, [path], deployments=DEPLOYMENTS, settings=LogSettings(format="otlp"), now=NOW)
    assert refused.num_rejects == 2
    assert land(lake, path).num_lines == 0
    reading = Reading(content_kind="calls", deployments=DEPLOYMENTS, settings=LogSettings(), now=NOW, again=True)
    (again,) = land_files(lake, [path], reading).files
    assert states(again) == ("changed", 1, 0, 1, 0)
    assert land(lake, path).num_lines == 0
