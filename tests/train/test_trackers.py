"""Each tracker by its own library, where that is installed: one run, each update once, nothing asked of a network."""

import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.errors import SettingsError
from train.trackers import Trackers, _flat, open_trackers, require_trackers

HOUSE = Path(__file__).resolve().parents[2]
SETTINGS = {"method": "sao", "lora": {"rank": 16}, "betas": [0.9, 0.999]}
FIGURES = {"loss": -0.5, "num_traces": 4, "moved": True, "account": "in words", "mfu": None, "drift": math.nan}
STEPS = [0, 1, 2, 3]


def needs(name):
    """Skips where the package is not installed; with the optional extra it is."""
    return pytest.mark.skipif(
        importlib.util.find_spec(name) is None, reason=f"{name} is not installed: pip install 'tracemill[{name}]'"
    )


@pytest.fixture(autouse=True)
def _at_home(monkeypatch):
    """No tracker has a server, whatever the environment of the tests."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_MODE", "WANDB_PROJECT", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def figures_of(step):
    """What update `step` came to."""
    return FIGURES | {"loss": -0.5 * step}


def told(folder, name, *, steps, num_done=0, failed=False):
    """Open the tracker as a run would that has so many updates behind it, tell it these, close it."""
    history = [figures_of(step) for step in range(num_done)]
    trackers = open_trackers([name], folder=folder, run_id="r-1", settings=SETTINGS, history=history)
    for step in steps:
        trackers.log(step, figures_of(step))
    trackers.close(failed=failed)
    assert trackers.notes == []


def scalars(folder, name):
    """Steps and values that TensorBoard shows."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


@needs("tensorboard")
def test_tensorboard_shows_each_update_of_a_resumed_run_once(tmp_path):
    """Two updates are kept, the third is lost with the process and made again: four steps, four values."""
    told(tmp_path, "tensorboard", steps=STEPS[:3])
    told(tmp_path, "tensorboard", steps=STEPS[2:], num_done=2)
    assert scalars(tmp_path, "loss") == [(0, 0.0), (1, -0.5), (2, -1.0), (3, -1.5)]
    assert [step for step, _ in scalars(tmp_path, "num_traces")] == STEPS


@needs("tensorboard")
def test_tensorboard_is_told_numbers_alone(tmp_path):
    """Words, nothing and NaN are no curve; true is 1."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    told(tmp_path, "tensorboard", steps=[0])
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == ["loss", "moved", "num_traces"]


def store_of(folder):
    """A client of the local store, and the runs in it."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("tracemill")
    return client, client.search_runs([experiment.experiment_id])


@needs("mlflow")
@pytest.mark.filterwarnings("default")  # MLflow's own tables warn under SQLAlchemy 2.1
def test_mlflow_has_one_run_with_each_update_once(tmp_path):
    """The resumed run is found by its tag, and what it knows already is not told again."""
    told(tmp_path, "mlflow", steps=STEPS[:3], failed=True)
    told(tmp_path, "mlflow", steps=STEPS[2:], num_done=2)
    client, (run,) = store_of(tmp_path)
    assert run.info.status == "FINISHED"
    assert run.data.params == {"method": "sao", "lora.rank": "16", "betas": "[0.9, 0.999]"}
    history = client.get_metric_history(run.info.run_id, "loss")
    assert sorted((each.step, each.value) for each in history) == [(0, 0.0), (1, -0.5), (2, -1.0), (3, -1.5)]
    assert sorted(run.data.metrics) == ["loss", "moved", "num_traces"]


@needs("mlflow")
@pytest.mark.filterwarnings("default")  # MLflow's own tables warn under SQLAlchemy 2.1
def test_mlflow_keeps_runs_apart_and_says_which_failed(tmp_path):
    """Another run of the same folder is another run of the store."""
    told(tmp_path, "mlflow", steps=[0], failed=True)
    open_trackers(["mlflow"], folder=tmp_path, run_id="r-2", settings={}).close()
    _, runs = store_of(tmp_path)
    assert sorted((run.info.run_name, run.info.status) for run in runs) == [("r-1", "FAILED"), ("r-2", "FINISHED")]


@needs("mlflow")
@pytest.mark.filterwarnings("default")  # MLflow's own tables warn under SQLAlchemy 2.1
def test_mlflow_is_told_where_its_own_variable_says(tmp_path, monkeypatch):
    """A store of the team is not replaced by a file of ours."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'team.db'}")
    told(tmp_path, "mlflow", steps=[0])
    assert (tmp_path / "team.db").is_file()
    assert not (tmp_path / "mlflow" / "mlflow.db").exists()


@needs("wandb")
@pytest.mark.parametrize("dies", [False, True])
def test_wandb_is_offline_and_a_resumed_run_is_whole(dies, tmp_path):
    """No account, no server: one offline run, with each update once, whether the first process ended or was killed."""
    program = (
        "import os, sys, pathlib\n"
        "from tests.train.test_trackers import open_trackers, figures_of, SETTINGS\n"
        "history = [figures_of(step) for step in range(int(sys.argv[2]))]\n"
        "opened = open_trackers(['wandb'], folder=pathlib.Path(sys.argv[1]), run_id='r-1', settings=SETTINGS, history=history)\n"
        "for step in range(int(sys.argv[2]), int(sys.argv[3])): opened.log(step, figures_of(step))\n"
        "os.kill(os.getpid(), 9) if sys.argv[4] == 'True' else opened.close()\n"
    )
    home = {name: str(tmp_path / "home") for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR")}
    environment = {**os.environ, "PYTHONPATH": str(HOUSE), **home}
    for done, end, last in ((0, 3, dies), (2, 4, False)):
        command = [sys.executable, "-c", program, str(tmp_path), str(done), str(end), str(last)]
        assert subprocess.run(command, check=False, env=environment).returncode == (-9 if last else 0)
    (path,) = (tmp_path / "wandb").rglob("run-r-1.wandb")
    assert wandb_steps(path) == STEPS


def wandb_steps(path):
    """The steps of the history records of an offline run: a LevelDB log, whose blocks of 32 KiB hold parts of records."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, held, steps = path.read_bytes(), 7, b"", []
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # what is left of the block is padding
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        held = (held if kind in {3, 4} else b"") + data[at + 7 : at + 7 + length]
        at += 7 + length
        record = Record()
        if kind in {1, 4}:
            record.ParseFromString(held)
            steps += [record.history.step.num] if record.HasField("history") else []
    return steps


def test_a_missing_package_is_refused_with_the_command_that_mends_it(monkeypatch):
    """Before anything is trained."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"package wandb is not installed.*pip install 'tracemill\[wandb\]'"):
        require_trackers(["wandb"])


def test_no_library_is_imported_unless_it_is_chosen(tmp_path):
    """The module, and a run without trackers, load none of the three."""
    program = (
        "import sys, pathlib, train.trackers as t\n"
        "t.open_trackers([], folder=pathlib.Path(sys.argv[1]), run_id='r', settings={}).log(0, {'loss': 1.0})\n"
        "assert not {'mlflow', 'wandb', 'tensorboard', 'torch'} & set(sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(HOUSE)}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, env=environment)
    assert list(tmp_path.iterdir()) == []


class _Deaf:
    """A tracker whose disk is full at the second update."""

    errors = (OSError,)

    def __init__(self):
        self.steps = []

    def log(self, step, numbers):  # noqa: ARG002 - the tracker's signature
        if step == 1:
            raise OSError("disk full")
        self.steps.append(step)

    def close(self, *, failed):  # noqa: ARG002 - the tracker's signature
        raise AssertionError("a dropped tracker is not closed")


def test_a_tracker_that_fails_is_dropped_and_the_run_goes_on():
    """One note says which, when and why; the rest of the updates is for the others."""
    deaf = _Deaf()
    trackers = Trackers({"mlflow": deaf})
    for step in STEPS:
        trackers.log(step, FIGURES)
    trackers.close()
    assert deaf.steps == [0]
    assert trackers.notes == [
        "mlflow could not be told of update 1 (disk full), nor of those after it; metrics.jsonl has all"
    ]


def test_settings_have_dotted_names_and_values_as_json():
    """Text stays text, so that it is not shown in quotes."""
    assert _flat(SETTINGS) == {"method": "sao", "lora.rank": "16", "betas": "[0.9, 0.999]"}
