"""TRL: the rollout samples of its AsyncGRPOTrainer, the one trainer of TRL that takes logged tokens as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from train.handoff.carried import Carried

_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))

SCHEMA = pa.schema(
    [
        ("prompt", _MESSAGES),
        ("completion", _MESSAGES),
        ("input_ids", pa.list_(pa.int64())),
        ("completion_mask", pa.list_(pa.int64())),
        ("old_log_probs", pa.list_(pa.float32())),
        ("advantage", pa.float64()),
        ("model_version", pa.int64()),
        ("group_id", pa.int64()),
        ("metrics", pa.struct([("reward", pa.float64())])),
    ]
)
"""The fields of `RolloutSample` in TRL 1.16.0, trl/experimental/async_grpo/async_rollout_worker.py, with the types that
its worker gives them. The texts are empty: TRL logs them, and tokens are never made of them."""


def write_batch(folder: Path, number: int, rows: Sequence[Carried]) -> Path:
    """Write batch `number` as one Parquet file, a row a sequence."""
    path = folder / f"batch-{number:05d}.parquet"
    pq.write_table(pa.Table.from_pylist([rollout_sample(row) for row in rows], schema=SCHEMA), path)
    return path


def rollout_sample(row: Carried) -> dict[str, Any]:
    """One sequence as the fields of a RolloutSample.

    Where the mask is 0 stand the 0.0 that TRL's own worker writes there: it reads no such entry.
    """
    sequence = row.sequence
    return {
        "prompt": [],
        "completion": [],
        "input_ids": sequence.token_ids.tolist(),
        "completion_mask": sequence.action_mask.astype(np.int64).tolist(),
        "old_log_probs": np.where(sequence.action_mask, sequence.behavior_logprobs, np.float32(0.0)),
        "advantage": row.advantage,
        "model_version": 0,
        "group_id": row.group,
        "metrics": {"reward": row.trace.reward},
    }
