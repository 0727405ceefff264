"""`tracemill export` as a user meets it, on a night that was judged and not yet trained."""

import json
import subprocess
import sys

import pytest

from flows import steps
from flows.exports import export_run
from flows.settings import load_settings
from schemas.errors import UsageError
from tests.flows import tiny_night
from train.batch import Batch


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with one judged night under plain REINFORCE with PPO's clip."""
    file = tiny_night.build(tmp_path_factory.mktemp("export") / "desk", num_traces=16)
    method = '[train]\nmethod = "reinforce"\noptions = { correction = "ppo" }'
    file.write_text(file.read_text().replace("[train]", method), encoding="utf-8")
    settings = load_settings(file)
    steps.land(settings)
    run = steps.start(settings, date=tiny_night.NIGHT)
    steps.score(settings, run)
    steps.admit(settings, run)
    return file.parent


def tracemill(*arguments, cwd):
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "flows", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_command_says_what_it_wrote_and_how_to_train_on_it(desk, tmp_path):
    """Folder, counts, and the trainer's settings by its own names."""
    done = tracemill("export", "--to", "trl", "--out", str(tmp_path / "out"), cwd=desk)
    assert (done.returncode, done.stderr) == (0, "")
    assert "of run 2026-11-28" in done.stdout
    assert "epsilon_high = 0.2" in done.stdout
    assert str(tmp_path / "out") in done.stdout
    assert (tmp_path / "out" / "manifest.json").is_file()


def test_a_method_of_another_name_is_refused_in_one_message(desk, tmp_path):
    """prime-rl has no clipped ratio; the way out is named."""
    done = tracemill("export", "--to", "prime-rl", "--out", str(tmp_path / "out"), cwd=desk)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "reinforce is not handed to prime-rl: its correction is 'ppo'" in done.stderr
    assert "--to jsonl" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_trainer_that_there_is_not_is_wrong_usage(desk):
    """The four that there are, are listed."""
    done = tracemill("export", "--to", "openrlhf", cwd=desk)
    assert done.returncode == 2
    assert "verl" in done.stderr


def test_lines_are_read_by_a_loop_of_one_s_own(desk, tmp_path):
    """Every trace that the gate admitted, once, with the run's method beside them."""
    settings = load_settings(desk / "tracemill.toml")
    done = export_run(settings, to="jsonl", run_id=None, out=tmp_path / "out")
    lines = (tmp_path / "out" / "batch-00000.jsonl").read_text().splitlines()
    batch = Batch.from_rows([json.loads(line) for line in lines])
    assert len(batch.trace_ids) == done.num_traces > 0
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["method"] == "reinforce"


def test_the_method_is_that_of_the_run_and_not_of_today(desk, tmp_path):
    """Settings may have changed since."""
    settings = load_settings(desk / "tracemill.toml")
    changed = settings.model_copy(update={"train": settings.train.model_copy(update={"method": "klpo", "options": {}})})
    assert export_run(changed, to="verl", run_id=None, out=tmp_path / "out").method == "reinforce"


def test_it_goes_into_the_folder_of_the_run_if_no_other_is_named(desk):
    """A second time it is found there."""
    settings = load_settings(desk / "tracemill.toml")
    first = export_run(settings, to="verl", run_id=None, out=None)
    assert first.folder.startswith(str(settings.lake.root / "runs"))
    assert (first.is_new, export_run(settings, to="verl", run_id=first.run_id, out=None).is_new) == (True, False)


def test_a_run_that_there_is_not_is_refused(desk):
    """With those that there are; an id is no path."""
    settings = load_settings(desk / "tracemill.toml")
    with pytest.raises(UsageError, match=r"no run '\.\./\.\.'; expected one of: 2026-11-28"):
        export_run(settings, to="jsonl", run_id="../..", out=None)
