"""Training in two processes: the run of one, and what becomes of it when one of them dies."""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from schemas.errors import TrainingError, UsageError
from schemas.progress import silent
from tests.train import night
from tests.train.logged import NOW
from train.launch import Job, train_in_ranks
from train.replay import TrainReport
from warehouse.lake import Lake

METHODS = {
    "every weight": {"method": "flash_reinforce", "options": {"trust": 10.0}, "weights": "full"},
    "an adapter and a critic": {"method": "sao", "options": {}, "critic": {"warmup_updates": 1}},
}


def job_of(root, base, **settings):
    """The night's job for two processes, with small packs: several a rank, and not equally many."""
    # Validated, unlike a copy of settings with an update.
    stated = {**night.SETTINGS.model_dump(), "token_budget": 70, "processes": 2, **settings}
    return Job(
        lake_root=root / "lake",
        model=night.settings_of(root, base),
        settings=type(night.SETTINGS)(**stated),
        run_id="r",
        run_folder=root / "run",
        now=NOW,
    )


def weights_of(root):
    """Every tensor of the new version."""
    return load_file(next((root / "run" / "policy").glob("*model.safetensors")))


def figures_of(root):
    """Loss, norm of the gradient and critic's loss of each update: what a factor in a sum over ranks would show in.

    An AdamW step hides it: it is the same for a gradient that is twice as large.
    """
    lines = (root / "run" / "metrics.jsonl").read_text().splitlines()
    names = ("loss", "grad_norm", "critic_loss")
    told = [{name: figures.get(name) for name in names} for figures in map(json.loads, lines)]
    return [value for figures in told for value in figures.values() if value is not None]


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("every weight", marks=pytest.mark.soak), "an adapter and a critic"])
def test_two_ranks_train_what_one_process_trains(name, root, tmp_path, tiny_folder):
    """The same updates, weights and rows, to the rounding of sums in another order."""
    alone = tmp_path / "one"
    shutil.copytree(root, alone)
    job = job_of(root, tiny_folder, **METHODS[name])
    with Lake.open(alone / "lake") as lake:
        expected = night.replay(lake, alone, tiny_folder, settings=job.settings)
    report = train_in_ranks(job, silent)
    assert (report.policy_version, report.num_steps) == (expected.policy_version, expected.num_steps)
    ours, theirs = weights_of(root), weights_of(alone)
    assert ours.keys() == theirs.keys()
    for key, tensor in theirs.items():
        # An AdamW step is the rate, 1e-3, in the direction of a sign: what is under 1e-5 of it is rounding.
        assert float((ours[key] - tensor).abs().max()) < 2e-5, key
    assert figures_of(root) == pytest.approx(figures_of(alone), rel=1e-4, abs=1e-6)
    with Lake.open(root / "lake") as lake:
        assert lake.read("replays", columns=["step"]).num_rows == 24


@pytest.mark.soak
def test_a_rank_that_dies_ends_the_run_and_a_rerun_finishes_it(root, tmp_path, tiny_folder, monkeypatch):
    """The message names the rank; the checkpoint stays; what comes out is what an unbroken run makes, bit for bit."""
    straight = tmp_path / "straight"
    shutil.copytree(root, straight)
    train_in_ranks(job_of(straight, tiny_folder), silent)
    with monkeypatch.context() as patch:
        patch.setenv("TRACEMILL_TEST_DIES", "1 1")
        patch.setattr("train.launch.WORKER", "tests.train.dying_worker")
        with pytest.raises(
            TrainingError, match=r"2 processes ended with code 1 \(rank 1 ended with -9\).*a rerun goes on"
        ):
            train_in_ranks(job_of(root, tiny_folder), silent)
    assert (root / "run" / "checkpoints").is_dir()
    report = train_in_ranks(job_of(root, tiny_folder), silent)
    assert "went on after update" in str(report)
    file = "run/policy/adapter_model.safetensors"
    assert (root / file).read_bytes() == (straight / file).read_bytes()


@pytest.mark.soak
def test_an_error_of_a_rank_is_told_as_it_is(root, tiny_folder):
    """Its kind and its sentence, not the traceback of a subprocess."""
    job = job_of(root, tiny_folder, method="grpo", options={})
    with pytest.raises(UsageError, match="each alone with its ask"):
        train_in_ranks(job, silent)


STARTER = """
import sys
from pathlib import Path
from schemas.progress import silent
from train.launch import Job, train_in_ranks
train_in_ranks(Job.load(Path(sys.argv[1])), silent)
"""


def _running(path):
    """Processes that have this path among their arguments, the one that started them left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
            if str(path).encode() in arguments and STARTER.encode() not in arguments:
                found.append(int(folder.name))
    return found


def _until(is_so, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.1)
    return is_so()


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends orphans on Linux alone")
def test_no_rank_outlives_who_started_it(root, tiny_folder):
    """However it went: ranks that train on would write beside those of a rerun."""
    path = job_of(root, tiny_folder, passes=50, max_updates=1000).save()
    parent = subprocess.Popen([sys.executable, "-c", STARTER, str(path)], stderr=subprocess.DEVNULL)
    try:
        assert _until(lambda: (root / "run" / "checkpoints").is_dir() and len(_running(path)) >= 3)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert _until(lambda: not _running(path))


def test_a_job_survives_its_file(root, tiny_folder):
    """Every rank reads what the first one was told."""
    job = job_of(root, tiny_folder)
    assert Job.load(job.save()) == job


def test_a_report_says_where_it_stopped():
    """`stopped` is told with the figures."""
    report = TrainReport(
        run_id="r",
        policy_version=None,
        parent_version="v1",
        method="sao",
        num_updates=1,
        num_steps=0,
        num_traces=4,
        num_in_trust=0,
        num_left=0,
        checkpoint_uri=None,
        last_update="",
        reload_difference=None,
        stopped="too far",
    )
    assert "not to be proposed: too far" in str(report)
