"""A run that is killed at random moments, again and again, is the run that nobody killed."""

import os
import random
import shutil
import signal
import time

import pytest

from tests.train import night
from warehouse.lake import Lake

NUM_KILLS = 20
FILES = ("run/policy/adapter_model.safetensors", "run/policy/trace_manifest.parquet")


def _replay(root, base):
    """The night, its traces read twice: six updates."""
    settings = night.SETTINGS.model_copy(update={"passes": 2})
    with Lake.open(root / "lake") as lake:
        return night.replay(lake, root, base, settings=settings)


def _in_a_process(root, base, *, seconds):
    """Replay in a child that is killed after so many seconds; True where it ended before that."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _replay(root, base)
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0
            return True
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _state(lake):
    rows = lake.read("replays", order_by=["step", "trace_id", "sequence_index"]).to_pylist()
    updates = lake.read("updates", order_by=["step"]).drop_columns(["tokens_per_second", "mfu"]).to_pylist()
    versions = lake.read("policies", columns=["policy_version", "state"], order_by=["policy_version"]).to_pylist()
    return rows, updates, versions


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_twenty_kills_at_random_change_nothing(tmp_path, prepared, tiny_folder):
    """The same bytes of weights and manifest and the same rows in the lake, however often and wherever it died."""
    chance = random.Random(20261201)  # noqa: S311 - no secret
    straight = tmp_path / "straight"
    shutil.copytree(prepared, straight)
    begun = time.monotonic()
    assert _in_a_process(straight, tiny_folder, seconds=600)
    whole = time.monotonic() - begun
    num_kills, number = 0, 0
    while num_kills < NUM_KILLS:
        root = tmp_path / f"killed-{number}"
        shutil.copytree(prepared, root)
        number += 1
        # Short lives, so that a run dies several times before it ends.
        while not _in_a_process(root, tiny_folder, seconds=chance.uniform(0.1, 0.9) * whole):
            num_kills += 1
        for file in FILES:
            assert (root / file).read_bytes() == (straight / file).read_bytes()
        with Lake.open(root / "lake") as ours, Lake.open(straight / "lake") as theirs:
            assert _state(ours) == _state(theirs)
