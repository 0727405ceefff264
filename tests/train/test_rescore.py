"""Rescoring: under the current policy, newest first; each version under itself; once, whatever happens."""

import shutil

import numpy as np
import pytest
from peft import PeftModel

from schemas.errors import CheckpointError
from tests.train.logged import (
    NOW,
    forked_traces,
    land,
    logged,
    model_settings,
    plain_model,
    save_random_adapter,
    served_by,
)
from train import rescore as module
from train.registry import PolicySettings, register
from train.rescore import RescoreSettings, rescore
from train.scoring import rescored_row

SETTINGS = RescoreSettings(token_budget=100)


@pytest.fixture
def night(lake, tiny_folder, tmp_path):
    """Six traces of the base and one current adapter, v1, as settings and lake."""
    adapter = save_random_adapter(tmp_path / "v1", tiny_folder, seed=1, scale=0.1)
    model = model_settings(tiny_folder, [adapter])
    register(lake, model, now=NOW)
    land(lake, served_by(plain_model(tiny_folder), forked_traces(), version="v0"))
    return lake, model


def _run(night, settings=SETTINGS, **arguments):
    lake, model = night
    return rescore(lake, model=model, settings=settings, run_id="r", now=NOW, **arguments)


def test_traces_scored_by_those_who_wrote_them_are_at_the_floor(night):
    """The canary: weights and logs belong together, so the drift is rounding."""
    (canary,) = _run(night).canaries
    assert (canary.policy_version, canary.behavior_version, canary.num_traces) == ("v0", "v0", 6)
    assert canary.mean_abs_log_ratio < 1e-5
    assert canary.mean_bernoulli_kl < 1e-8


def test_the_current_policy_has_moved_from_them(night):
    """Under other weights the same traces drift, and the table counts them."""
    (drift,) = _run(night).drifts
    assert (drift.policy_version, drift.behavior_version, drift.num_traces) == ("v1", "v0", 6)
    assert drift.mean_bernoulli_kl > 1e-3
    assert drift.share_over_trust > 0.5


def test_wrong_weights_are_far_from_the_floor(lake, tiny_folder, tmp_path):
    """The canary of a version whose folder holds another's adapter is no rounding."""
    right, wrong = (save_random_adapter(tmp_path / name, tiny_folder, seed=seed) for seed, name in enumerate("ab"))
    model = model_settings(tiny_folder, [wrong])
    register(lake, model, now=NOW)
    wrote = PeftModel.from_pretrained(plain_model(tiny_folder), str(right))
    land(lake, served_by(wrote, forked_traces(), version="v1"))
    (canary,) = _run((lake, model)).canaries
    assert canary.mean_abs_log_ratio > 1e-2


def test_a_second_call_finds_nothing_to_do(night):
    """Scores are made once, and the report is the same but for what was done."""
    first, second = _run(night), _run(night)
    assert (first.num_scored, second.num_scored) == (12, 0)
    assert first.drifts == second.drifts
    assert night[0].read("rescored").num_rows == 24


def test_the_newest_traces_come_first(night):
    """With room for two, the two that ended last are scored and four wait."""
    report = _run(night, RescoreSettings(max_traces=2, canary_traces=0))
    scored = set(night[0].read("rescored")["trace_id"].to_pylist())
    assert scored == {"trace-0", "trace-1"}
    assert report.num_waiting == 4
    assert "4 traces wait" in str(report)


def test_the_canary_takes_the_same_traces_again(night):
    """Which traces are sampled depends on their ids alone, so a second night adds none."""
    few = RescoreSettings(max_traces=0, canary_traces=2)
    assert _run(night, few).num_scored == 2
    assert _run(night, few).num_scored == 0


def test_a_run_that_dies_keeps_what_it_had_scored(night, monkeypatch):
    """Scores are committed as they come; the next run does the rest and doubles none."""
    monkeypatch.setattr(module, "APPEND_TRACES", 1)

    def die(stage, done, total, unit, note=""):
        if stage == "rescore v1" and done > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(night, progress=die)
    kept = night[0].read("rescored").num_rows
    assert 12 < kept < 24
    _run(night)
    keys = night[0].read("rescored", columns=["trace_id", "sequence_index", "policy_version"]).to_pylist()
    assert len(keys) == len({tuple(key.values()) for key in keys}) == 24


def test_a_trace_that_was_half_scored_is_completed(night):
    """One of its two sequences is there already, from whatever run; it is not written again."""
    lake, _ = night
    half = rescored_row(forked_traces()[0][0], np.full(8, -1.0, dtype=np.float32))
    with lake.transaction() as transaction:
        transaction.append("rescored", [{**half, "policy_version": "v1", "run_id": "other", "scored_at": NOW}])
    _run(night, RescoreSettings(canary_traces=0))
    rows = lake.read("rescored", where={"trace_id": "trace-0"}, order_by=["sequence_index"]).to_pylist()
    assert [(row["sequence_index"], row["run_id"]) for row in rows] == [(0, "other"), (1, "r")]


@pytest.mark.parametrize(
    "changes",
    [
        {"faults": ["len_mismatch"]},
        {"logprob_exact": False},
        {"logprob_kind": "raw", "temperature": 0.7},
        {"temperature": None},
    ],
)
def test_what_has_no_exact_logprob_is_not_scored(changes, lake, tiny_folder):
    """A fault, a cut support, raw numbers at a temperature, or an unknown one leave nothing to compare with."""
    model = model_settings(tiny_folder)
    register(lake, model, now=NOW)
    land(lake, served_by(plain_model(tiny_folder), forked_traces(num=1), version="v0"), **changes)
    report = _run((lake, model))
    assert (report.num_scored, report.num_waiting) == (0, 0)


def test_a_note_does_not_keep_a_trace_out(lake, tiny_folder):
    """Reasons that only tell something are no faults."""
    model = model_settings(tiny_folder)
    register(lake, model, now=NOW)
    land(lake, served_by(plain_model(tiny_folder), forked_traces(num=1), version="v0"), faults=["clock_skew"])
    assert _run((lake, model)).num_scored == 1


def test_foreign_tokens_and_overlong_traces_are_noted(lake, tiny_folder):
    """What the model cannot read is counted and left, not a crash."""
    model = model_settings(tiny_folder)
    register(lake, model, now=NOW)
    land(lake, [(logged([5, 64, 6], [2], trace="foreign", version="v0"),)])
    land(lake, [(logged([5] * 200, [199], trace="long", version="v0"),)])
    report = _run((lake, model))
    assert report.num_scored == 0
    assert any("1 traces not scored: they have token ids of 64" in note for note in report.notes)
    assert any("longer than the 128 positions" in note for note in report.notes)


def test_traces_that_the_model_cannot_read_take_no_place(lake, tiny_folder):
    """Foreign and long ones came last and their hashes come first; the room for one trace is for the one that fits."""
    model = model_settings(tiny_folder)
    register(lake, model, now=NOW)
    fitting = [logged([5, 6, 7], [2], trace="a", version="v0")]
    # sha256("b") begins 3e23 and sha256("e") 3f79, before the ca97 of sha256("a").
    unfit = [logged([5, 64, 6], [2], trace="b", version="v0"), logged([5] * 200, [199], trace="e", version="v0")]
    land(lake, [(sequence,) for sequence in (*unfit, *fitting)])
    report = _run((lake, model), RescoreSettings(max_traces=1, canary_traces=1))
    assert lake.read("rescored")["trace_id"].to_pylist() == ["a"]
    assert (report.canaries[0].num_traces, report.num_waiting) == (1, 0)
    assert [note[:23] for note in report.notes] == ["1 traces not scored: th", "1 traces not scored: lo"]
    again = _run((lake, model), RescoreSettings(max_traces=1, canary_traces=1))
    assert (again.num_scored, again.notes) == (0, report.notes)


def test_the_trust_of_the_figures_is_the_caller_s(night):
    """The share over trust is counted with what is handed over."""
    shares = [_run(night, trust=trust).drifts[0].share_over_trust for trust in (0.0, 1e9)]
    assert shares == [1.0, 0.0]


def test_an_old_version_whose_weights_are_gone_is_noted(night, tmp_path, tiny_folder):
    """Its canary is not measured; the night goes on."""
    lake, model = night
    old = save_random_adapter(tmp_path / "old", tiny_folder, seed=5)
    more = model.model_copy(
        update={"policies": (*model.policies, PolicySettings(version="old", optimizer_step=0, adapter=old))}
    )
    register(lake, more, now=NOW)
    land(lake, served_by(plain_model(tiny_folder), forked_traces(num=1, name="old"), version="old"))
    shutil.rmtree(old)
    report = _run((lake, more))
    assert any("canary of old not measured" in note for note in report.notes)
    assert report.num_waiting == 0


def test_a_current_version_whose_weights_are_gone_is_refused(night):
    """Nothing can be scored without them."""
    lake, model = night
    shutil.rmtree(model.policies[1].adapter)
    with pytest.raises(CheckpointError, match="v1"):
        _run((lake, model))
