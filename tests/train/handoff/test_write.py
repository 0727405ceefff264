"""A run handed over: its own batches in their order, whole or not at all, and what the manifest says of them."""

import hashlib
import json

import pyarrow.parquet as pq
import pytest

from schemas.errors import InputError, UsageError
from tests.train.handoff.handed import FORKED, SHORT, fill, land_two_turns
from tests.train.logged import admit, land, logged
from train.handoff import contents
from train.handoff.write import Source, hand_over
from train.plan import Admitted, Plan, manifest_sha256
from train.replay import TrainSettings

ADMITTED = [Admitted("forked", 0, 0.0), Admitted("short", 0, 0.0), Admitted("two-turns", 0, 1.0)]


def plan(root, batches, manifest=ADMITTED):
    """The plan of run r with these traces in its batches."""
    by_name = {trace.trace_id: trace for trace in ADMITTED}
    named = tuple(tuple(by_name[name] for name in batch) for batch in batches)
    made = Plan(
        manifest_sha256=manifest_sha256(manifest),
        settings_sha256="0",
        parent_version="v0",
        began_at="2026-11-29T00:00:00+00:00",
        batches=named,
        num_left=len(ADMITTED) - sum(len(batch) for batch in named),
    )
    made.save(root / "run" / "plan.json")


def export(lake, root, *, to="jsonl", folder="out", **train):
    """Hand run r over into a folder."""
    source = Source(
        run_id="r", run_folder=root / "run", lake_snapshot=7, base_policy="v0", train=TrainSettings(**train)
    )
    return hand_over(lake, source, to=to, folder=root / folder)


def manifest_of(root):
    """The manifest of the folder."""
    return json.loads((root / "out" / "manifest.json").read_text())


def names(path):
    """The traces of a file of lines."""
    return [json.loads(line)["trace_id"] for line in path.read_text().splitlines()]


def test_without_a_plan_one_file_has_every_admitted_trace(lake, tmp_path):
    """In the order of their ids; what no verdict admits is not in it."""
    fill(lake)
    land(lake, [(logged([5, 6], [1], trace="pending"),)])
    done = export(lake, tmp_path)
    assert names(tmp_path / "out" / "batch-00000.jsonl") == ["forked", "forked", "short", "two-turns"]
    assert (done.num_batches, done.num_traces, done.num_sequences, done.num_action_tokens) == (1, 3, 4, 8)
    assert manifest_of(tmp_path)["batches_are_planned"] is False


def test_with_a_plan_the_batches_are_its_own_in_its_order(lake, tmp_path):
    """What the plan left over is left over here, and counted."""
    fill(lake)
    plan(tmp_path, [["short"], ["two-turns"]])
    done = export(lake, tmp_path)
    assert names(tmp_path / "out" / "batch-00000.jsonl") == ["short"]
    assert names(tmp_path / "out" / "batch-00001.jsonl") == ["two-turns"]
    assert (done.num_traces, done.num_left) == (2, 1)
    rows = pq.read_table(tmp_path / "out" / "trace_manifest.parquet").to_pylist()
    assert [(row["batch"], row["row"], row["trace_id"]) for row in rows] == [(0, 0, "short"), (1, 0, "two-turns")]


def test_a_plan_of_other_traces_is_refused(lake, tmp_path):
    """Its batches would be no batches of this run."""
    fill(lake)
    plan(tmp_path, [["short"]], manifest=ADMITTED[:2])
    with pytest.raises(UsageError, match="of other traces than the 3"):
        export(lake, tmp_path)


def test_a_held_out_trace_is_never_written(lake, tmp_path):
    """Even were it admitted."""
    fill(lake, split="holdout")
    with pytest.raises(InputError, match="trace forked: admitted, and held out"):
        export(lake, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake"]


def test_an_erased_trace_is_not_passed_over(lake, tmp_path):
    """A batch without it would be another batch."""
    land_two_turns(lake)
    land(lake, [FORKED])
    admit(lake, {"two-turns": 1.0, "forked": 0.0, "short": 0.0})
    with pytest.raises(UsageError, match="such as short, are no longer in the lake"):
        export(lake, tmp_path)


def test_another_revision_than_the_judged_one_is_not_written(lake, tmp_path):
    """A late call made trace short longer after the verdict."""
    fill(lake)
    land(lake, [(logged([5, 20, 21], [1, 2], trace="short"),)], trace_revision=1)
    export(lake, tmp_path)
    lines = (tmp_path / "out" / "batch-00000.jsonl").read_text().splitlines()
    (short,) = [row for row in map(json.loads, lines) if row["trace_id"] == "short"]
    assert (short["trace_revision"], short["token_ids"]) == (0, [5, 20])


def test_a_run_that_admitted_nothing_is_refused(lake, tmp_path):
    """There is no empty export."""
    with pytest.raises(UsageError, match="run r: no admitted trace"):
        export(lake, tmp_path)


def test_the_manifest_says_what_the_files_are(lake, tmp_path):
    """Run, snapshot, gate, method with its options, counts, digests, and the settings that make it the same method."""
    fill(lake)
    done = export(lake, tmp_path, to="prime-rl", method="reinforce", options={"correction": "ipo"})
    told = manifest_of(tmp_path)
    assert (told["run_id"], told["lake_snapshot"], told["gate_sha256"], told["base_policy"]) == ("r", 7, "0", "v0")
    assert told["method"] == "reinforce"
    assert told["options"]["baseline"] == "batch"
    assert told["settings"] == done.settings
    assert (told["settings"]["loss.type"], told["settings"]["loss.kl_tau"]) == ("ipo", 0.0)
    found = {
        path.relative_to(tmp_path / "out").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert told["files"] == found
    assert sorted(found) == ["rollouts/step_1/rank_0.bin", "trace_manifest.parquet"]


def test_the_same_again_is_left_alone_and_anything_else_is_refused(lake, tmp_path):
    """An export is never mixed with another, nor written over somebody's files."""
    fill(lake)
    assert export(lake, tmp_path).is_new
    assert not export(lake, tmp_path).is_new
    with pytest.raises(UsageError, match="something else already"):
        export(lake, tmp_path, to="verl", method="reinforce")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="something else already"):
        export(lake, tmp_path, folder="file")
    assert (tmp_path / "file").read_text() == "mine"


def test_an_export_that_fails_leaves_nothing(lake, tmp_path, monkeypatch):
    """Not even a folder by another name."""
    fill(lake)
    plan(tmp_path, [["short"], ["two-turns"]])
    write = contents.jsonl.write_batch

    def fail(folder, number, traces):
        if number:
            raise OSError("no space left")
        return write(folder, number, traces)

    monkeypatch.setattr(contents.jsonl, "write_batch", fail)
    with pytest.raises(OSError, match="no space"):
        export(lake, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "run"]


def test_a_folder_that_a_killed_export_left_is_no_export(lake, tmp_path):
    """The next one begins anew."""
    fill(lake)
    (tmp_path / ".out.writing").mkdir()
    (tmp_path / ".out.writing" / "batch-00007.jsonl").write_text("half")
    export(lake, tmp_path)
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["batch-00000.jsonl", "manifest.json", "trace_manifest.parquet"]


def test_a_method_that_the_trainer_does_not_run_is_refused_before_anything_is_written(lake, tmp_path):
    """FlashREINFORCE's gate drops whole traces; prime-rl masks tokens."""
    fill(lake)
    with pytest.raises(UsageError, match="flash_reinforce is not handed to prime-rl"):
        export(lake, tmp_path, to="prime-rl")
    assert not (tmp_path / "out").exists()


def test_ids_are_data_and_never_a_path(lake, tmp_path):
    """They stand in rows; files are named by number alone."""
    evil = "../../../evil\n"
    land(lake, [(logged([5, 6], [1], trace=evil, behavior=-1.0),)], ask_id="../ask")
    admit(lake, {evil: 1.0})
    for to in ("jsonl", "trl", "verl", "prime-rl"):
        options = {"correction": "is" if to == "prime-rl" else "ppo"}
        export(lake, tmp_path, to=to, folder=f"deep/{to}", method="reinforce", options=options)
    files = {path.name for path in (tmp_path / "deep").rglob("*") if path.is_file()}
    expected = {"batch-00000.jsonl", "batch-00000.parquet", "rank_0.bin", "manifest.json", "trace_manifest.parquet"}
    assert files == expected
    assert not list(tmp_path.parent.rglob("*evil*"))
    assert pq.read_table(tmp_path / "deep" / "trl" / "trace_manifest.parquet")["trace_id"].to_pylist() == [evil]


def test_the_order_of_rows_of_the_lake_does_not_matter(lake, tmp_path):
    """The batch is in the plan's order, sequences of a trace in theirs."""
    land_two_turns(lake)
    land(lake, [(SHORT,), FORKED[::-1]])
    admit(lake, {"short": 0.0, "two-turns": 1.0, "forked": 0.0})
    export(lake, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "out" / "batch-00000.jsonl").read_text().splitlines()]
    assert [(row["trace_id"], row["sequence_index"]) for row in lines][:2] == [("forked", 0), ("forked", 1)]
