"""A batch of what a night admitted, out of the lake: the log's numbers beside those of one policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schemas.errors import UsageError
from train.batch import Batch

if TYPE_CHECKING:
    from warehouse.lake import Lake


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeBatch:
    """The admitted traces that a policy has scored, and how many it has not."""

    batch: Batch
    num_not_scored: int
    """Admitted traces left out, because the policy has not scored each of their sequences."""


def batch_from_lake(lake: Lake, *, run_id: str, policy_version: str) -> LakeBatch:
    """The batch of the traces that run admitted, `logprobs` being those of that policy.

    Groups are the asks, where every trace has one; keys the workloads; policy lags those of the verdicts. Refused when
    nothing was admitted, or nothing admitted was scored.
    """
    rows = lake.query("train/admitted_batch", run_id=run_id, policy_version=policy_version).to_pylist()
    not_scored = {row["trace_id"] for row in rows if row["logprobs"] is None}
    num_admitted = len({row["trace_id"] for row in rows})
    if len(not_scored) == num_admitted:
        raise UsageError(
            f"run {run_id}: {num_admitted} traces admitted, none of them scored by {policy_version}; expected some; "
            f"rescore, then validate again"
        )
    chosen = [row for row in rows if row["trace_id"] not in not_scored]
    optional = {
        "group": _if_all(row["ask_id"] for row in chosen),
        "key": _if_all(row["workload"] for row in chosen),
        "policy_lag": _if_all(row["policy_lag"] for row in chosen),
    }
    plain = [
        {name: row[name] for name in _PLAIN} | {name: column[at] for name, column in optional.items() if column}
        for at, row in enumerate(chosen)
    ]
    return LakeBatch(batch=Batch.from_rows(plain), num_not_scored=len(not_scored))


_PLAIN = ("trace_id", "sequence_index", "reward", "action_mask", "behavior_logprobs", "logprobs")


def _if_all(values: Any) -> list[Any] | None:
    """The values, unless one is missing: a field of a batch stands in every row or in none."""
    column = list(values)
    return None if None in column else column
