"""A run of training: from admitted traces to a new version, once, and on from wherever it was stopped."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from peft import AutoPeftModelForCausalLM
from pydantic import ValidationError

from schemas.errors import CheckpointError, SettingsError, TrainingError, UsageError
from tests.train import night
from tests.train.logged import (
    NOW,
    admit,
    forked_traces,
    land,
    model_settings,
    plain_action_logprobs,
    plain_model,
    served_by,
)
from train import new_version, run
from train.learner import Learner
from train.registry import current_policy, policies, policy, register
from train.replay import CriticSettings, LoraSettings, TrainReport, TrainSettings, train
from train.sequences import SEQUENCE_COLUMNS, sequences_from_table
from warehouse.lake import Lake

WEIGHTS = Path("run/policy/adapter_model.safetensors")


@pytest.fixture(scope="session")
def finished(tmp_path_factory, prepared, tiny_folder):
    """The same, trained without a break; read only."""
    root = tmp_path_factory.mktemp("finished") / "root"
    shutil.copytree(prepared, root)
    with Lake.open(root / "lake") as lake:
        return root, night.replay(lake, root, tiny_folder)


def _die(*_arguments, **_named):
    raise KeyboardInterrupt


def _rows(lake):
    return lake.read("replays", order_by=["step", "trace_id", "sequence_index"]).to_pylist()


def test_a_run_reports_what_it_did(finished):
    """Three updates of four traces, two traces left, a version three steps on."""
    _, report = finished
    assert (report.num_updates, report.num_steps, report.num_traces, report.num_left) == (3, 3, 12, 2)
    assert (report.policy_version, report.parent_version, report.num_in_trust) == ("v4", "v1", 12)
    assert "traces in trust" in report.last_update
    assert "v4 from v1" in str(report)


def test_the_new_version_is_a_candidate(finished):
    """It is registered with its parent, step, run and weights; the parent stays current."""
    root, report = finished
    with Lake.open(root / "lake") as lake:
        row = policy(lake, "v4")
        assert (row.state, row.parent_version, row.optimizer_step, row.run_id) == ("candidate", "v1", 4, "r")
        assert row.checkpoint_uri == report.checkpoint_uri
        assert current_policy(lake).policy_version == "v1"


def test_replays_has_each_sequence_once(finished):
    """Twelve traces of two sequences; the lag grows with the updates of the run."""
    with Lake.open(finished[0] / "lake") as lake:
        rows = _rows(lake)
    assert len(rows) == len({(row["trace_id"], row["sequence_index"]) for row in rows}) == 24
    assert [row["policy_lag"] for row in rows[::8]] == [0, 1, 2]
    assert {row["method"] for row in rows} == {"flash_reinforce"}


def test_the_first_update_is_on_policy(finished):
    """v1 wrote the traces and v1 is trained, so the drift of the first batch is rounding and that of the others is not."""
    with Lake.open(finished[0] / "lake") as lake:
        drift = [max(row["drift"] for row in _rows(lake) if row["step"] == step) for step in range(3)]
    assert drift[0] < 1e-9
    assert min(drift[1:]) > 1e-7


def test_metrics_have_a_line_for_each_update(finished):
    """And the last one carries the account that the report prints."""
    root, report = finished
    lines = [json.loads(line) for line in (root / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines] == [0, 1, 2]
    assert lines[-1]["account"] == report.last_update
    assert all(line["moved"] and line["grad_norm"] > 0 for line in lines)


def test_the_folder_loads_as_it_is(finished):
    """The folder alone names base and adapter to peft, and it scores what was trained."""
    root, report = finished
    model = AutoPeftModelForCausalLM.from_pretrained(report.checkpoint_uri)
    with Lake.open(root / "lake") as lake:
        sequence = sequences_from_table(lake.read("traces", columns=SEQUENCE_COLUMNS))[0]
    with torch.no_grad():
        scored = plain_action_logprobs(model, sequence)
    drifted = float((scored - torch.from_numpy(sequence.action_logprobs)).abs().mean())
    assert drifted > 1e-3
    assert report.reload_difference < 2e-5


def test_the_folder_says_what_it_was_trained_on(finished):
    """Card and manifest name the run, the parent and the traces."""
    folder = Path(finished[1].checkpoint_uri)
    card = (folder / "README.md").read_text()
    assert "# v4" in card
    assert "| parent version | v1 |" in card
    manifest = pq.read_table(folder / "trace_manifest.parquet")
    assert manifest.num_rows == 24
    assert set(manifest["step"].to_pylist()) == {0, 1, 2}


def test_a_finished_run_is_only_reported(finished, tiny_folder):
    """The same command again trains nothing and says the same."""
    root, report = finished
    before = (root / WEIGHTS).stat().st_mtime_ns
    with Lake.open(root / "lake") as lake:
        assert night.replay(lake, root, tiny_folder) == report
        assert len(policies(lake)) == 3
    assert (root / WEIGHTS).stat().st_mtime_ns == before


def _sao(root, tiny_folder, *, run_id="r", **changes):
    """Train the night with a critic that warms up on one batch."""
    settings = night.SETTINGS.model_copy(
        update={"method": "sao", "options": {}, "critic": CriticSettings(warmup_updates=1), **changes}
    )
    with Lake.open(root / "lake") as lake:
        return night.replay(lake, root, tiny_folder, settings=settings)


def test_a_method_of_groups_trains_on_asks_that_were_tried_several_times(root, tiny_folder):
    """Fourteen traces of three asks, in batches of whole asks; the same traces without asks are refused."""
    settings = night.SETTINGS.model_copy(update={"method": "grpo", "options": {}})
    with Lake.open(root / "lake") as lake:
        with pytest.raises(UsageError, match="14 admitted traces of 0 asks: each alone with its ask"):
            night.replay(lake, root, tiny_folder, settings=settings)
        traces = lake.read("traces").to_pylist()
        for number, row in enumerate(traces):
            row |= {"trace_revision": 1, "ask_id": f"ask{number // 2 % 3}"}
        with lake.transaction() as transaction:
            transaction.append("traces", traces)
        rewards = {name: number % 5 / 4 for number, name in enumerate(sorted({row["trace_id"] for row in traces}))}
        admit(lake, rewards, run_id="asks", revision=1)
        report = train(
            lake,
            model=night.settings_of(root, tiny_folder),
            settings=settings,
            run_id="asks",
            run_folder=root / "asks",
            now=NOW,
        )
        assert report.num_steps == report.num_updates == 3
        asks = {row["trace_id"]: row["ask_id"] for row in traces}
        steps = {(asks[row["trace_id"]], row["step"]) for row in _rows(lake)}
    assert len({ask for ask, _ in steps}) == len(steps)


def test_a_critic_is_kept_with_the_policy_that_it_belongs_to(root, tiny_folder):
    """One batch for the critic alone, two updates, and a folder that the next night goes on with."""
    report = _sao(root, tiny_folder)
    assert (report.num_updates, report.num_steps, report.num_in_trust) == (3, 2, 8)
    assert report.notes == ("the critic has learned from 3 batches; the policy waited for it in 1 of 3",)
    facts = json.loads((root / "critics" / "sao" / report.policy_version / "critic.json").read_text())
    assert facts == {"num_updates": 3, "value_range": None, "hidden_size": 32, "trunk": "shared"}


def test_a_kept_critic_does_not_warm_up_again(root, tiny_folder):
    """The next run of the same parent has it from the first batch on."""
    report = _sao(root, tiny_folder, critic=CriticSettings(warmup_updates=99))
    assert report.policy_version is None
    assert "no update moved the policy, so there is no new version" in report.notes
    shutil.rmtree(root / "run")
    with Lake.open(root / "lake") as lake:
        assert {row["in_trust"] for row in _rows(lake)} == {False}
    again = _sao(root, tiny_folder)
    assert again.num_steps == 3
    assert again.notes[0] == "the critic has learned from 6 batches; the policy waited for it in 0 of 3"


@pytest.mark.slow
@pytest.mark.parametrize("die_at", [1, 2])
def test_kill_minus_nine_and_the_same_command_again(die_at, root, finished, tiny_folder):
    """Killed after an update that was not checkpointed yet, the run ends with the very bytes of an unbroken one."""
    command = [sys.executable, "-m", "tests.train.night", str(root), str(tiny_folder), str(die_at)]
    died = subprocess.run(command, capture_output=True, check=False, timeout=300)
    assert died.returncode == -9, died.stderr.decode()
    with Lake.open(root / "lake") as lake:
        assert len({row["step"] for row in _rows(lake)}) == die_at - 1
        report = night.replay(lake, root, tiny_folder)
        assert len(_rows(lake)) == 24
    assert (root / WEIGHTS).read_bytes() == (finished[0] / WEIGHTS).read_bytes()
    assert report.last_update == finished[1].last_update
    assert report.notes == ((f"went on after update {die_at - 2}, where it had been stopped",) if die_at > 1 else ())


PLACES = {
    "save_checkpoint": run,
    "export_policy": new_version,
    "largest_reload_difference": new_version,
    "keep_critic": run,
}


@pytest.mark.parametrize("place", ["save_checkpoint", "export_policy", "largest_reload_difference"])
def test_a_run_that_dies_between_two_commits_doubles_nothing(place, root, finished, tiny_folder, monkeypatch):
    """Whatever was written last, the next call finds it and does the rest once."""
    module = PLACES[place]
    original = getattr(module, place)

    def die(*arguments, **named):
        original(*arguments, **named)
        raise KeyboardInterrupt

    with Lake.open(root / "lake") as lake:
        with monkeypatch.context() as patch:
            patch.setattr(module, place, die)
            with pytest.raises(KeyboardInterrupt):
                night.replay(lake, root, tiny_folder)
        night.replay(lake, root, tiny_folder)
        assert len(_rows(lake)) == 24
        assert [row.policy_version for row in policies(lake)] == ["v0", "v1", "v4"]
    assert (root / WEIGHTS).read_bytes() == (finished[0] / WEIGHTS).read_bytes()


@pytest.mark.parametrize("place", ["save_checkpoint", "export_policy", "keep_critic"])
def test_a_run_with_a_critic_that_dies_goes_on_to_the_same_policy_and_critic(
    place, root, tmp_path, tiny_folder, monkeypatch
):
    """Bit for bit those of a run that was never stopped; its batches are not learned from twice."""
    straight = tmp_path / "straight"
    shutil.copytree(root, straight)
    expected = _sao(straight, tiny_folder)
    module = PLACES[place]
    original = getattr(module, place)

    def die(*arguments, **named):
        original(*arguments, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, place, die)
        with pytest.raises(KeyboardInterrupt):
            _sao(root, tiny_folder)
    report = _sao(root, tiny_folder)
    assert report.notes[-1] == expected.notes[-1]
    kept = Path("critics/sao") / report.policy_version / "critic.safetensors"
    for file in (WEIGHTS, kept):
        assert (root / file).read_bytes() == (straight / file).read_bytes()


def test_a_version_that_was_not_registered_yet_is_registered(root, tiny_folder, monkeypatch):
    """A kill between the report and the policies leaves a version that the next call registers."""
    with Lake.open(root / "lake") as lake:
        with monkeypatch.context() as patch:
            patch.setattr(new_version.NewVersion, "register", lambda *_: None)
            night.replay(lake, root, tiny_folder)
        assert [row.policy_version for row in policies(lake)] == ["v0", "v1"]
        night.replay(lake, root, tiny_folder)
        assert [row.policy_version for row in policies(lake)] == ["v0", "v1", "v4"]


def test_other_settings_do_not_go_on_with_a_run(root, tiny_folder, monkeypatch):
    """A half-finished run belongs to the settings that it was begun with."""
    with Lake.open(root / "lake") as lake:
        with monkeypatch.context() as patch:
            patch.setattr(new_version, "export_policy", _die)
            with pytest.raises(KeyboardInterrupt):
                night.replay(lake, root, tiny_folder)
        with pytest.raises(UsageError, match="other training settings"):
            night.replay(lake, root, tiny_folder, settings=night.SETTINGS.model_copy(update={"seed": 1}))


def test_rewards_that_teach_nothing_make_no_version(root, tiny_folder):
    """With every trace out of trust nothing moves, and the report says so instead of naming a copy of the parent."""
    closed = night.SETTINGS.model_copy(update={"options": {"trust": 0.0}})
    with Lake.open(root / "lake") as lake:
        report = night.replay(lake, root, tiny_folder, settings=closed)
        assert (report.policy_version, report.num_steps, report.num_updates) == (None, 0, 3)
        assert "no update moved the policy" in str(report)
        assert len(policies(lake)) == 2
        assert len(_rows(lake)) == 24


def test_a_number_that_is_not_finite_leaves_the_last_good_checkpoint(root, tiny_folder, monkeypatch):
    """The run stops with a fault; what was checkpointed before stays."""
    original = Learner.learn

    def overflow(self, number, *arguments):
        if number == 1:
            next(iter(self.parameters.values())).data.fill_(float("nan"))
        return original(self, number, *arguments)

    monkeypatch.setattr(Learner, "learn", overflow)
    with Lake.open(root / "lake") as lake, pytest.raises(TrainingError, match="logprobs nan"):
        night.replay(lake, root, tiny_folder)
    assert [path.name for path in (root / "run" / "checkpoints").iterdir()] == ["000001"]


def test_a_policy_without_an_adapter_gets_one(tmp_path, empty_root, tiny_folder):
    """Training from the base makes a LoRA of the settings' shape."""
    shutil.copytree(empty_root, tmp_path / "lake")
    model = model_settings(tiny_folder)
    settings = night.SETTINGS.model_copy(update={"lora": LoraSettings(rank=2, alpha=4.0, targets=("q_proj",))})
    with Lake.open(tmp_path / "lake") as lake:
        register(lake, model, now=NOW)
        traces = served_by(plain_model(tiny_folder), forked_traces(num=4), version="v0")
        land(lake, traces)
        admit(lake, {trace[0].trace_id: float(number % 2) for number, trace in enumerate(traces)})
        report = train(lake, model=model, settings=settings, run_id="r", run_folder=tmp_path / "run", now=NOW)
    stated = json.loads((Path(report.checkpoint_uri) / "adapter_config.json").read_text())
    assert (stated["r"], stated["lora_alpha"], stated["target_modules"]) == (2, 4.0, ["q_proj"])
    assert report.policy_version == "v1"


def test_a_run_without_admitted_traces_is_refused(root, tiny_folder):
    """There is nothing to plan."""
    with Lake.open(root / "lake") as lake:
        model = night.settings_of(root, tiny_folder)
        with pytest.raises(UsageError, match="no admitted trace"):
            train(lake, model=model, settings=night.SETTINGS, run_id="other", run_folder=root / "x", now=NOW)


def test_an_export_of_other_weights_is_refused(root, tiny_folder, monkeypatch):
    """The parent's adapter under the new version's name; on a resumed run too, whose policy is its checkpoint's."""
    original = new_version.export_policy
    monkeypatch.setattr(new_version, "export_policy", lambda _, *rest, **named: original(root / "v1", *rest, **named))
    with Lake.open(root / "lake") as lake:
        for _ in range(2):
            with pytest.raises(CheckpointError, match="off what was trained"):
                night.replay(lake, root, tiny_folder)
        assert [row.policy_version for row in policies(lake)] == ["v0", "v1"]


def test_an_unknown_option_of_the_method_is_refused(root, tiny_folder):
    """Before anything is trained, with the options that there are."""
    wrong = night.SETTINGS.model_copy(update={"options": {"trsut": 1.0}})
    with Lake.open(root / "lake") as lake, pytest.raises(SettingsError, match="'trsut'"):
        night.replay(lake, root, tiny_folder, settings=wrong)
    assert not (root / "run").exists()


def test_a_report_is_read_back(finished, tmp_path):
    """JSON keeps all of it."""
    finished[1].save(tmp_path / "report.json")
    assert TrainReport.load(tmp_path / "report.json") == finished[1]


def test_a_batch_of_one_trace_is_refused():
    """Its own reward would be its baseline."""
    with pytest.raises(ValidationError, match="batch_size"):
        TrainSettings(batch_size=1)


def test_a_policy_that_its_last_update_threw_away_makes_no_version(root, tiny_folder):
    """No gate sees the policy after its last step; a rate far too high is caught all the same."""
    wild = night.SETTINGS.model_copy(update={"learning_rate": 1e4, "max_updates": 1})
    with Lake.open(root / "lake") as lake:
        with pytest.raises(TrainingError, match="learning_rate"):
            night.replay(lake, root, tiny_folder, settings=wild)
        assert [row.state for row in policies(lake)].count("candidate") == 0


def test_a_name_that_another_run_has_taken_is_given_up(root, tiny_folder, monkeypatch):
    """Killed before it was registered, the version gets the next free name; no name means two versions."""
    with Lake.open(root / "lake") as lake:
        with monkeypatch.context() as patch:
            patch.setattr(new_version.NewVersion, "register", lambda *_: None)
            night.replay(lake, root, tiny_folder)
        other = {**policy(lake, "v1").as_row(), "policy_version": "v4", "optimizer_step": 4, "run_id": "n2"}
        with lake.transaction() as transaction:
            transaction.append("policies", [{**other, "state": "candidate", "revision": 0}])
        report = night.replay(lake, root, tiny_folder)
        assert report.policy_version == "v4.2"
        assert [(row.policy_version, row.run_id) for row in policies(lake)][-2:] == [("v4", "n2"), ("v4.2", "r")]
    assert "# v4.2" in (Path(report.checkpoint_uri) / "README.md").read_text()


def test_checkpoints_without_their_plan_are_refused(root, tiny_folder, monkeypatch):
    """Another plan, perhaps from another parent, is not what they were made by."""
    with Lake.open(root / "lake") as lake:
        with monkeypatch.context() as patch:
            patch.setattr(new_version, "export_policy", _die)
            with pytest.raises(KeyboardInterrupt):
                night.replay(lake, root, tiny_folder)
        (root / "run" / "plan.json").unlink()
        with pytest.raises(UsageError, match=r"plan\.json: not there, and the run has checkpoints"):
            night.replay(lake, root, tiny_folder)


@pytest.mark.parametrize("name", ["plan.json", "report.json", "checkpoints/000003/state.json"])
@pytest.mark.parametrize("content", ["{}", '{"batches"'])
def test_a_damaged_file_of_a_run_says_what_to_do(name, content, root, finished, tiny_folder):
    """Cut, empty or of another shape: the message names the file and the way out."""
    shutil.copytree(finished[0], root, dirs_exist_ok=True)
    if name != "report.json":
        (root / "run" / "report.json").unlink()
    (root / "run" / name).write_text(content)
    with Lake.open(root / "lake") as lake, pytest.raises(CheckpointError, match=r"cannot be read .* (remove|restore)"):
        night.replay(lake, root, tiny_folder)


@pytest.mark.parametrize("name", ["lm_head", "embed_tokens"])
def test_an_adapter_of_the_head_or_the_embedding_is_refused_with_the_settings(name):
    """Scoring reads both from the base."""
    with pytest.raises(ValidationError, match="the head and the embedding are read from the base"):
        LoraSettings(targets=(name,))
