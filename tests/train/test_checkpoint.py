"""Checkpoints: whole or not there, and enough to go on bit for bit."""

import pyarrow as pa
import pytest
import torch

from schemas.errors import CheckpointError
from tests.train.logged import facts, forked_traces, plain_model, save_random_adapter, served_by
from train.checkpoint import latest_checkpoint, restore, save_checkpoint
from train.learner import Learner
from train.methods import FlashReinforce
from train.methods.baselines import RAE
from train.optimization import Optimization
from train.policy import Policy

ROWS = pa.table({"trace_id": ["a", "b"]})


def _learner(base, adapter, method=None):
    policy = Policy.load(base)
    policy.use(adapter)
    optimization = Optimization(
        learning_rate=1e-2,
        schedule="constant",
        warmup_updates=0,
        num_updates=9,
        betas=(0.9, 0.99),
        weight_decay=0.1,
        max_grad_norm=1.0,
    )
    return Learner(policy, method or FlashReinforce(trust=10.0), optimization, 1000)


@pytest.fixture
def adapter(tiny_folder, tmp_path):
    """The adapter that is trained on."""
    return save_random_adapter(tmp_path / "a", tiny_folder, seed=1)


@pytest.fixture
def traces(tiny_folder):
    """Six traces that the base wrote."""
    return served_by(plain_model(tiny_folder), forked_traces(), version="v0")


def _learn(learner, traces, numbers):
    rewards = {trace[0].trace_id: float(number % 2) for number, trace in enumerate(traces)}
    return [learner.learn(number, traces, facts(rewards)) for number in numbers][-1]


def test_a_restored_learner_goes_on_bit_for_bit(tiny_folder, adapter, traces, tmp_path):
    """Two updates, a checkpoint, two more: the same weights as four in a row, momentum included."""
    straight = _learner(tiny_folder, adapter)
    _learn(straight, traces, range(4))
    stopped = _learner(tiny_folder, adapter)
    _learn(stopped, traces, range(2))
    saved = save_checkpoint(stopped, tmp_path / "run", history=[{"update": 0}, {"update": 1}], replays=ROWS)
    resumed = _learner(tiny_folder, saved.folder)
    restore(resumed, saved)
    _learn(resumed, traces, range(2, 4))
    assert all(torch.equal(weight, resumed.parameters[name]) for name, weight in straight.parameters.items())


def test_without_its_optimizer_it_would_not(tiny_folder, adapter, traces, tmp_path):
    """The test above can fail: with fresh moments the weights come out otherwise."""
    straight = _learner(tiny_folder, adapter)
    _learn(straight, traces, range(2))
    saved = save_checkpoint(straight, tmp_path / "run", history=[{}, {}], replays=ROWS)
    _learn(straight, traces, range(2, 4))
    resumed = _learner(tiny_folder, saved.folder)
    _learn(resumed, traces, range(2, 4))
    assert any(not torch.equal(weight, resumed.parameters[name]) for name, weight in straight.parameters.items())


def test_random_numbers_go_on_where_they_were(tiny_folder, adapter, tmp_path):
    """The generator's state is part of the checkpoint."""
    learner = _learner(tiny_folder, adapter)
    torch.manual_seed(5)
    torch.rand(3)
    saved = save_checkpoint(learner, tmp_path / "run", history=[{}], replays=ROWS)
    expected = torch.rand(4)
    torch.manual_seed(99)
    restore(learner, saved)
    assert torch.equal(torch.rand(4), expected)


def test_a_method_with_a_memory_gets_it_back(tiny_folder, adapter, traces, tmp_path):
    """A running baseline goes on from where it was."""
    learner = _learner(tiny_folder, adapter, RAE())
    _learn(learner, traces, range(2))
    assert learner.method.state
    saved = save_checkpoint(learner, tmp_path / "run", history=[{}, {}], replays=ROWS)
    resumed = _learner(tiny_folder, saved.folder, RAE())
    restore(resumed, saved)
    assert dict(resumed.method.state) == dict(learner.method.state)


def test_the_latest_whole_checkpoint_counts(tiny_folder, adapter, tmp_path):
    """One without its marker, and one that was being written, are passed over."""
    learner = _learner(tiny_folder, adapter)
    for number in range(1, 4):
        save_checkpoint(learner, tmp_path, history=[{"update": at} for at in range(number)], replays=ROWS)
    (tmp_path / "000003" / "COMPLETE").unlink()
    (tmp_path / ".000009.writing").mkdir()
    found = latest_checkpoint(tmp_path)
    assert found.cursor == 2
    assert [figures["update"] for figures in found.history] == [0, 1]
    assert found.replays.equals(ROWS)


def test_older_checkpoints_are_dropped(tiny_folder, adapter, tmp_path):
    """Disk does not grow with the number of updates."""
    learner = _learner(tiny_folder, adapter)
    for number in range(1, 6):
        save_checkpoint(learner, tmp_path, history=[{}] * number, replays=ROWS, num_kept=3)
    assert sorted(path.name for path in tmp_path.glob("0*")) == ["000003", "000004", "000005"]


def test_no_folder_is_no_checkpoint(tmp_path):
    """A run that was never begun has nothing to go on from."""
    assert latest_checkpoint(tmp_path / "nothing") is None


def test_nothing_in_it_is_a_pickle(tiny_folder, adapter, traces, tmp_path):
    """Only safetensors, JSON, Parquet and an empty marker."""
    learner = _learner(tiny_folder, adapter)
    _learn(learner, traces, range(1))
    saved = save_checkpoint(learner, tmp_path, history=[{}], replays=ROWS)
    assert {path.suffix for path in saved.folder.iterdir()} == {".safetensors", ".json", ".parquet", ""}


def test_the_state_of_another_adapter_is_refused(tiny_folder, adapter, traces, tmp_path):
    """Moments of weights that are not there belong to another run."""
    learner = _learner(tiny_folder, adapter)
    _learn(learner, traces, range(1))
    saved = save_checkpoint(learner, tmp_path / "run", history=[{}], replays=ROWS)
    other = save_random_adapter(tmp_path / "other", tiny_folder, seed=1, targets=("o_proj",))
    with pytest.raises(CheckpointError, match="no weight that is trained here"):
        restore(_learner(tiny_folder, other), saved)


def test_a_damaged_state_is_refused(tiny_folder, adapter, tmp_path):
    """The message names the file and the way out."""
    learner = _learner(tiny_folder, adapter)
    saved = save_checkpoint(learner, tmp_path, history=[{}], replays=ROWS)
    (saved.folder / "optimizer.safetensors").write_bytes(b"no")
    with pytest.raises(CheckpointError, match="cannot be read"):
        restore(learner, saved)
