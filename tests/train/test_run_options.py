"""What a run does on request: whole models, reuse of traces, an end by the clock, and what stops it unasked."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from transformers import AutoModelForCausalLM

from tests.train import night
from tests.train.logged import NOW, admit, plain_action_logprobs
from train.alarms import AlarmSettings
from train.checkpoint import latest_checkpoint
from train.deadline import first_moment
from train.learner import Learner
from train.policy import Policy
from train.registry import policies, policy, weights_of
from train.replay import CriticSettings, TrainSettings, train
from warehouse.lake import Lake


def settings_of(**changes):
    """The night's settings with these changes, validated."""
    return TrainSettings(**{**night.SETTINGS.model_dump(), **changes})


def replay(root, base, *, clock=None, **changes):
    """Train the night under changed settings."""
    with Lake.open(root / "lake") as lake:
        return night.replay(lake, root, base, settings=settings_of(**changes), clock=clock)


def test_every_weight_is_trained_from_the_parents_adapter_on(root, tiny_folder):
    """The version is a whole model that plain transformers loads; its parent's adapter is in it; all weights moved."""
    report = replay(root, tiny_folder, weights="full")
    assert report.reload_difference < 1e-5
    trained = AutoModelForCausalLM.from_pretrained(report.checkpoint_uri, dtype=torch.float32)
    base = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
    for (name, ours), (_, theirs) in zip(trained.named_parameters(), base.named_parameters(), strict=True):
        assert not torch.equal(ours, theirs), name
    assert "All weights over" in (Path(report.checkpoint_uri) / "README.md").read_text()


def test_a_whole_version_is_scored_and_trained_on_as_any_other(root, tiny_folder):
    """The registry finds its weights; an adapter that is trained on it lies over it, not over the base."""
    report = replay(root, tiny_folder, weights="full")
    model = night.settings_of(root, tiny_folder)
    with Lake.open(root / "lake") as lake:
        row = policy(lake, report.policy_version)
        weights = weights_of(model, row, policies(lake))
        assert (weights.base, weights.adapter) == (Path(report.checkpoint_uri), None)
        loaded = Policy.load(model.base)
        loaded.become(weights)
        current = [
            {**each.as_row(), "revision": 1, "state": "retired"} for each in policies(lake) if each.state == "current"
        ]
        with lake.transaction() as transaction:
            transaction.append("policies", [*current, {**row.as_row(), "revision": 1, "state": "current"}])
        admit(lake, {f"trace-{number}": number % 2 for number in range(8)}, run_id="next")
        child = train(lake, model=model, settings=night.SETTINGS, run_id="next", run_folder=root / "next", now=NOW)
        found = weights_of(model, policy(lake, child.policy_version), policies(lake))
    assert (found.base, found.adapter) == (weights.base, Path(child.checkpoint_uri))
    assert child.reload_difference < 1e-5


@pytest.mark.parametrize("weights", ["lora", "full"])
def test_a_run_goes_on_bit_for_bit_whatever_is_trained(weights, root, tmp_path, tiny_folder, monkeypatch):
    """Stopped before its last update and taken up again: the bytes of an unbroken run."""
    straight = tmp_path / "straight"
    shutil.copytree(root, straight)
    expected = replay(straight, tiny_folder, weights=weights)
    original = Learner.learn

    def stop(self, number, *arguments):
        if number == 2:
            raise KeyboardInterrupt
        return original(self, number, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "learn", stop)
        with pytest.raises(KeyboardInterrupt):
            replay(root, tiny_folder, weights=weights)
    report = replay(root, tiny_folder, weights=weights)
    assert report.notes == ("went on after update 1, where it had been stopped",)
    for file in Path(expected.checkpoint_uri).glob("*.safetensors"):
        assert (Path(report.checkpoint_uri) / file.name).read_bytes() == file.read_bytes()


def test_recomputed_activations_change_no_bit(root, tmp_path, tiny_folder):
    """They are the same numbers again."""
    other = tmp_path / "other"
    shutil.copytree(root, other)
    kept, made_again = replay(root, tiny_folder), replay(other, tiny_folder, activation_checkpointing=True)
    file = "adapter_model.safetensors"
    assert (Path(kept.checkpoint_uri) / file).read_bytes() == (Path(made_again.checkpoint_uri) / file).read_bytes()


def test_passes_and_steps_read_traces_again_and_say_so(root, tiny_folder):
    """Three batches, twice in a row each, and all of that twice: twelve updates on twelve traces, and their drift."""
    report = replay(root, tiny_folder, passes=2, steps_per_batch=2)
    assert (report.num_updates, report.num_traces, report.num_left) == (12, 12, 2)
    assert any("3 batches were read up to 4 times: mean drift" in note for note in report.notes)
    with Lake.open(root / "lake") as lake:
        visits = lake.query("questions/reuse").to_pylist()
    assert visits


def test_the_clock_ends_a_run_with_what_it_has(root, tiny_folder):
    """At 05:30 two updates are done: they make a version, and the third batch stays admissible."""
    times = iter([NOW, NOW + timedelta(hours=5), NOW + timedelta(hours=5, minutes=30)])
    report = replay(root, tiny_folder, stop_at="05:30", clock=lambda: next(times))
    assert (report.policy_version, report.num_updates, report.num_traces, report.num_left) == ("v3", 2, 8, 6)
    assert "stopped at 2026-11-29 05:30 UTC after 2 of 3 updates" in report.notes[0]


def test_the_next_time_that_it_is_so_late():
    """Today if it is still to come, else tomorrow."""
    noon = NOW.replace(hour=12)
    assert first_moment("12:01", noon) == noon + timedelta(minutes=1)
    assert first_moment("12:00", noon) == noon + timedelta(days=1)
    assert first_moment(None, noon) is None


@pytest.mark.parametrize("said", ["24:00", "5:30", "05:60", "05:30:00", "noon"])
def test_what_is_no_time_of_day_is_refused(said):
    """Hours and minutes with two digits each."""
    with pytest.raises(ValidationError, match="stop_at"):
        settings_of(stop_at=said)


RUNAWAY = {
    "learning_rate": 5e-3,
    "passes": 4,
    "alarms": AlarmSettings(window=2, off=("entropy", "in_trust"), largest_added_drift=2e-4),
}
"""Fast enough to be beyond that bound after some updates, and slow enough not to be chaotic."""


def test_a_run_that_runs_away_is_stopped_where_it_was_good(root, tiny_folder):
    """The version is that of the checkpoint before, its manifest ends there, and the report says why."""
    report = replay(root, tiny_folder, **RUNAWAY)
    assert "mean drift was" in report.stopped
    good = report.num_updates
    assert 0 < good < latest_checkpoint(root / "run" / "checkpoints").cursor < 12
    if good:
        import pyarrow.parquet as pq

        assert (
            max(pq.read_table(Path(report.checkpoint_uri) / "trace_manifest.parquet")["step"].to_pylist()) == good - 1
        )
    else:
        assert report.policy_version is None


def test_a_stopped_run_is_only_reported_when_it_is_asked_again(root, tiny_folder):
    """The alarm is part of its report; nothing is trained a second time."""
    assert replay(root, tiny_folder, **RUNAWAY) == replay(root, tiny_folder, **RUNAWAY)


def test_a_run_that_was_killed_after_the_alarm_comes_to_the_same(root, tmp_path, tiny_folder):
    """Its last checkpoint is beyond the alarm, which sounds again."""
    straight = tmp_path / "straight"
    shutil.copytree(root, straight)
    expected = replay(straight, tiny_folder, **RUNAWAY)
    replay(root, tiny_folder, **RUNAWAY)
    (root / "run" / "report.json").unlink()
    again = replay(root, tiny_folder, **RUNAWAY)
    assert (again.stopped, again.num_updates) == (expected.stopped, expected.num_updates)


def test_bfloat16_is_told_with_its_noise_beside_the_trust(root, tiny_folder):
    """Figures of rounding alone, on the first traces of the run."""
    model = night.settings_of(root, tiny_folder).model_copy(update={"dtype": "bfloat16"})
    with Lake.open(root / "lake") as lake:
        report = train(lake, model=model, settings=settings_of(), run_id="r", run_folder=root / "run", now=NOW)
    assert "in bfloat16 rounding alone is a drift of" in report.notes[0]
    assert report.notes[0].endswith("the trust bound is 10")


def test_a_critic_is_looked_at_on_traces_that_are_held_out(root, tiny_folder):
    """Four held-out traces with a reward: before and after, and none of them is trained on."""
    with Lake.open(root / "lake") as lake:
        rows = lake.read("verdicts").to_pylist()[:4]
        held = [
            {**row, "run_id": "sao", "verdict": "quarantined", "stage": "holdout", "reasons": ["heldout"]}
            for row in rows
        ]
        rest = lake.read("verdicts").to_pylist()[4:]
        with lake.transaction() as transaction:
            transaction.append("verdicts", [*held, *({**row, "run_id": "sao"} for row in rest)])
        report = train(
            lake,
            model=night.settings_of(root, tiny_folder),
            settings=settings_of(method="sao", options={}, critic=CriticSettings(warmup_updates=1)),
            run_id="sao",
            run_folder=root / "sao",
            now=NOW,
        )
        trained = set(lake.read("replays", where={"run_id": "sao"})["trace_id"].to_pylist())
    assert any("on 4 held-out traces the critic explains" in note for note in report.notes)
    assert not trained & {row["trace_id"] for row in held}


@pytest.mark.parametrize("trunk", ["shared", "own"])
def test_a_value_model_of_its_own_learns_and_is_kept(trunk, root, tiny_folder):
    """Its adapter moves with its head, the policy's trunk does not, and the folder holds what it is."""
    critic = CriticSettings(warmup_updates=0, trunk=trunk, learning_rate=1e-2)
    report = replay(root, tiny_folder, method="sao", options={}, critic=critic)
    from safetensors.torch import load_file

    kept = load_file(root / "critics" / "sao" / report.policy_version / "critic.safetensors")
    moved = [name for name, tensor in kept.items() if "lora_B" in name and "/" not in name and bool(tensor.any())]
    assert bool(moved) == (trunk == "own")
    assert report.num_steps == 3


def test_a_trained_version_loads_and_scores_as_it_did(root, tiny_folder):
    """Every sequence of the night under the folder that was written, by plain transformers."""
    report = replay(root, tiny_folder, weights="full")
    plain = AutoModelForCausalLM.from_pretrained(report.checkpoint_uri, dtype=torch.float32).eval()
    from tests.train.logged import forked_traces
    from train.packing import make_pack

    sequence = forked_traces()[0][0]
    with torch.no_grad():
        ours = Policy.load(Path(report.checkpoint_uri)).score(make_pack([sequence])).logprobs
        torch.testing.assert_close(ours, plain_action_logprobs(plain, sequence), atol=1e-5, rtol=0)
