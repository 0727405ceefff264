"""Rows of every table, each with the fewest words: what a test does not name has a harmless value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

CLOCK = datetime(2026, 11, 29, tzinfo=UTC)
"""The clock of the test night."""


def hours_before(hours: float) -> datetime:
    """So many hours before the night's clock."""
    return CLOCK - timedelta(hours=hours)


def call(call_id: str, trace_id: str, **changes: Any) -> dict[str, Any]:
    """A call of two prompt tokens and two sampled ones."""
    row = {
        "call_id": call_id,
        "trace_id": trace_id,
        "model": "desk@v109",
        "log_format": "vllm_chat",
        "streamed": False,
        "choice_index": 0,
        "num_choices": 1,
        "prompt_token_ids": [1, 2],
        "token_ids": [3, 4],
        "token_logprobs": [-0.5, -1.0],
        "logprob_kind": "processed",
        "sampling_json": "{}",
        "started_at": hours_before(12),
        "uri": "a.jsonl",
        "byte_offset": int(call_id.strip("c") or 0),
        "line_sha256": f"line-{call_id}",
        "notes": [],
        "ingested_at": CLOCK,
    }
    return row | changes


def span(call_id: str, start: int, end: int, *, owned: bool = True, fault: str | None = None) -> dict[str, Any]:
    """A sampled span."""
    return {"call_id": call_id, "call_index": 0, "start": start, "end": end, "owned": owned, "fault": fault}


def trace(trace_id: str, logprobs: list[float], **changes: Any) -> dict[str, Any]:
    """A sequence of a two-token prompt and one sampled span with these log-probabilities."""
    version = changes.pop("version", "v109")
    num_tokens = 2 + len(logprobs)
    row = {
        "trace_id": trace_id,
        "trace_revision": 0,
        "sequence_index": 0,
        "num_sequences": 1,
        "num_calls": 1,
        "branch_kind": "main",
        "workload": "refund",
        "token_ids": list(range(1, num_tokens + 1)),
        "token_logprobs": [None, None, *logprobs],
        "action_mask": [False, False, *(True for _ in logprobs)],
        "spans": [span(f"c-{trace_id}", 2, num_tokens)],
        "version_spans": [{"policy_version": version, "start": 2, "end": num_tokens}],
        "prompt_length": 2,
        "num_action_tokens": len(logprobs),
        "logprob_kind": "processed",
        "logprob_exact": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "policy_version_min": version,
        "policy_version_max": version,
        "truncated": False,
        "faults": [],
        "started_at": hours_before(12),
        "ended_at": hours_before(12),
        "split": "train",
        "ingested_at": CLOCK,
    }
    return row | changes


def policy(version: str, step: int, state: str, **changes: Any) -> dict[str, Any]:
    """A state of a policy version."""
    row = {
        "policy_version": version,
        "revision": 0,
        "optimizer_step": step,
        "base_uri": "base",
        "state": state,
        "created_at": CLOCK,
        "recorded_at": CLOCK,
    }
    return row | changes


def rescored(trace_id: str, logprobs: list[float | None], drift: float, **changes: Any) -> dict[str, Any]:
    """A sequence under v109, every statistic but the drift that of equal policies."""
    row = {
        "trace_id": trace_id,
        "trace_revision": 0,
        "sequence_index": 0,
        "policy_version": "v109",
        "behavior_version": "v109",
        "logprobs": logprobs,
        "num_action_tokens": sum(value is not None for value in logprobs),
        "mean_bernoulli_kl": drift,
        "mean_abs_log_ratio": 0.0,
        "k1": 0.0,
        "k2": 0.0,
        "k3": 0.0,
        "m2": 0.0,
        "max_ratio": 1.0,
        "sequence_log_ratio": 0.0,
        "run_id": "r1",
        "scored_at": CLOCK,
    }
    return row | changes


def verdict(trace_id: str, kind: str, *reasons: str, **changes: Any) -> dict[str, Any]:
    """A verdict of run r1."""
    row = {
        "run_id": "r1",
        "trace_id": trace_id,
        "trace_revision": 0,
        "verdict": kind,
        "reasons": list(reasons),
        "stage": "trained",
        "age_hours": 12.0,
        "gate_sha256": "gate",
        "decided_at": CLOCK,
    }
    return row | changes


def outcome(outcome_id: str, trace_id: str | None, value: float | None, **changes: Any) -> dict[str, Any]:
    """A program's score of a trace."""
    row = {
        "outcome_id": outcome_id,
        "trace_id": trace_id,
        "name": "refund_correct",
        "value": value,
        "source_kind": "program",
        "source": "checker",
        "scorer_version": "1",
        "event_time": hours_before(6),
        "observed_time": hours_before(6),
        "uri": "outcomes.csv",
        "byte_offset": 0,
        "line_sha256": f"line-{outcome_id}",
        "ingested_at": CLOCK,
    }
    return row | changes


def run(run_id: str, **changes: Any) -> dict[str, Any]:
    """A state of a run."""
    row = {
        "run_id": run_id,
        "revision": 0,
        "kind": "nightly",
        "night": "2026-11-28",
        "state": "done",
        "settings_json": "{}",
        "settings_sha256": "settings",
        "code_version": "0.1.0",
        "as_of": CLOCK,
        "started_at": CLOCK,
    }
    return row | changes


def replay(trace_id: str, **changes: Any) -> dict[str, Any]:
    """A sequence in the first update of run r1."""
    row = {
        "run_id": "r1",
        "step": 0,
        "trace_id": trace_id,
        "trace_revision": 0,
        "sequence_index": 0,
        "method": "FlashReinforce",
        "policy_lag": 0,
        "reward": 1.0,
        "advantage": 0.5,
        "drift": 0.0,
        "in_trust": True,
        "mean_ratio": 1.0,
        "max_ratio": 1.0,
        "masked_share": 0.0,
        "positive_mass": 0.5,
        "negative_mass": 0.0,
        "replayed_at": CLOCK,
    }
    return row | changes


def update(step: int, **changes: Any) -> dict[str, Any]:
    """An update of run r1 that moved the policy, of a method without a critic."""
    row = {
        "run_id": "r1",
        "step": step,
        "method": "FlashReinforce",
        "moved": True,
        "is_critic_warming_up": False,
        "num_traces": 4,
        "num_in_trust": 3,
        "in_trust_share": 0.75,
        "mean_drift": 0.001,
        "masked_token_share": 0.25,
        "loss": -0.5,
        "grad_norm": 2.0,
        "learning_rate": 1e-5,
        "mean_entropy": 0.6,
        "mean_surprise": 0.5,
        "num_tokens": 200,
        "num_slots": 50,
        "tokens_per_second": 100.0,
        "replayed_at": CLOCK,
    }
    return row | changes


def source_file(
    uri: str, landed: int, duplicates: int = 0, rejects: int = 0, blank: int = 0, **changes: Any
) -> dict[str, Any]:
    """A reading of a file, its lines the sum of their states."""
    row = {
        "uri": uri,
        "file_version": 0,
        "content_kind": "calls",
        "bytes_read": 100,
        "content_sha256": "content",
        "size_on_disk": 100,
        "num_lines": landed + duplicates + rejects + blank,
        "num_landed": landed,
        "num_duplicates": duplicates,
        "num_rejects": rejects,
        "num_blank": blank,
        "notes": [],
        "ingested_at": CLOCK,
    }
    return row | changes


def reject(uri: str, byte_offset: int, reason: str = "bad_json", **changes: Any) -> dict[str, Any]:
    """A line that was rejected."""
    row = {
        "uri": uri,
        "file_version": 0,
        "byte_offset": byte_offset,
        "num_bytes": 10,
        "line_sha256": f"line-{byte_offset}",
        "reason": reason,
        "message": "not JSON",
        "first_bytes": "<html>",
        "ingested_at": CLOCK,
    }
    return row | changes
