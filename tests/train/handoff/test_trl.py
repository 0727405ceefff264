"""The rows that TRL's AsyncGRPOTrainer takes."""

import pyarrow.parquet as pq

from tests.train.handoff.handed import three
from train.handoff.carried import carried
from train.handoff.trl import SCHEMA, write_batch
from train.methods.baselines import Reinforce

# TRL 1.16.0, trl/experimental/async_grpo/async_rollout_worker.py: class RolloutSample, and the types that
# _AsyncRolloutLoop._score_group gives its arrays. `enqueued_at` is the worker's own clock.
FIELDS = [
    "prompt",
    "completion",
    "input_ids",
    "completion_mask",
    "old_log_probs",
    "advantage",
    "model_version",
    "group_id",
    "metrics",
]


def written(folder):
    """The rows of a batch, read back."""
    return pq.read_table(write_batch(folder, 0, carried(three(ask="refund"), Reinforce(), "token_mean")))


def test_the_columns_are_the_fields_of_a_rollout_sample(tmp_path):
    """With the number types of TRL's own worker."""
    assert written(tmp_path).schema == SCHEMA
    assert SCHEMA.names == FIELDS
    types = {
        name: str(SCHEMA.field(name).type.value_type) for name in ("input_ids", "completion_mask", "old_log_probs")
    }
    assert types == {"input_ids": "int64", "completion_mask": "int64", "old_log_probs": "float"}


def test_a_row_is_a_sequence_with_the_prompt_in_it(tmp_path):
    """Both turns are in the mask, the tool between them is not; every sequence of an ask has one group."""
    table = written(tmp_path)
    first = table.slice(0, 1).to_pylist()[0]
    assert first["input_ids"] == [5, 6, 7, 8, 9, 10]
    assert first["completion_mask"] == [0, 0, 1, 1, 0, 1]
    assert first["old_log_probs"] == [0, 0, -0.5, -0.25, 0, -1.5]
    assert (first["model_version"], first["metrics"]) == (0, {"reward": 1.0})
    assert table["group_id"].to_pylist() == [0] * 4
