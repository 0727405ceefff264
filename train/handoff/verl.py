"""verl: the columns of a DataProto that its actor is updated with, one Parquet file a batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from train.handoff.carried import Carried

SCHEMA = pa.schema(
    [
        ("prompts", pa.list_(pa.int64())),
        ("responses", pa.list_(pa.int64())),
        ("response_mask", pa.list_(pa.int64())),
        ("rollout_log_probs", pa.list_(pa.float32())),
        ("token_level_scores", pa.list_(pa.float32())),
        ("advantages", pa.list_(pa.float32())),
        ("uid", pa.string()),
    ]
)
"""The names and types of verl 0.9.1: AgentLoopOutput.as_dict in verl/experimental/agent_loop/agent_loop.py, and what
RayPPOTrainer.fit adds, verl/trainer/ppo/ray_trainer.py. Not padded: verl pads prompts to the left, responses to the
right, when they become a DataProto."""


def write_batch(folder: Path, number: int, rows: Sequence[Carried]) -> Path:
    """Write batch `number` as one Parquet file, a row a sequence."""
    path = folder / f"batch-{number:05d}.parquet"
    pq.write_table(pa.Table.from_pylist([row_of(row, number) for row in rows], schema=SCHEMA), path)
    return path


def row_of(row: Carried, number: int) -> dict[str, Any]:
    """One sequence: the prompt up to its first action, the rest a response in which tools keep a mask of 0.

    The reward stands on the last action token, since verl's estimators pass over what lies off the mask. Off the mask
    stand 0.0, as verl's agent loops write them.
    """
    sequence = row.sequence
    actions = np.flatnonzero(sequence.action_mask)
    start, last = int(actions[0]), int(actions[-1])
    mask = sequence.action_mask[start:]
    scores = np.zeros(len(mask), dtype=np.float32)
    scores[last - start] = row.trace.reward
    return {
        "prompts": sequence.token_ids[:start].tolist(),
        "responses": sequence.token_ids[start:].tolist(),
        "response_mask": mask.astype(np.int64).tolist(),
        "rollout_log_probs": np.where(mask, sequence.behavior_logprobs[start:], np.float32(0.0)),
        "token_level_scores": scores,
        "advantages": np.where(mask, np.float32(row.advantage), np.float32(0.0)),
        "uid": f"{number}-{row.group}",
    }
