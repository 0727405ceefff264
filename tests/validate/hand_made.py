"""Traces, calls, outcomes and policies made by hand, each with one thing changed."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from schemas.call import CALLS
from schemas.policy import POLICIES
from schemas.trace import TRACES
from validate.gate import ValidateSettings
from validate.night import Night
from validate.rewards import RewardSettings
from validate.traces import traces_of
from validate.versions import policies_of

AS_OF = datetime(2026, 11, 29, tzinfo=UTC)
AS_OF_US = int(AS_OF.timestamp()) * 1_000_000
LOGPROBS = (-0.5, -0.25, -1.5)
REWARD = RewardSettings(name="solved", source_kind="program")
SETTINGS = ValidateSettings(reward=REWARD)

DRIFT_SCHEMA = pa.schema(
    [
        ("trace_id", pa.string()),
        ("policy_version", pa.string()),
        ("behavior_version", pa.string()),
        ("is_complete", pa.bool_()),
        ("mean_bernoulli_kl", pa.float64()),
        ("mean_abs_log_ratio", pa.float64()),
    ]
)
SCORED_SCHEMA = pa.schema(
    [
        ("trace_id", pa.string()),
        ("trace_revision", pa.int32()),
        ("sequence_index", pa.int32()),
        ("logprobs", pa.list_(pa.float32())),
    ]
)
OUTCOME_SCHEMA = pa.schema(
    [
        ("trace_id", pa.string()),
        ("name", pa.string()),
        ("source_kind", pa.string()),
        ("source", pa.string()),
        ("scorer_version", pa.string()),
        ("value", pa.float64()),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("first_observed_time", pa.timestamp("us", tz="UTC")),
        ("num_events", pa.int64()),
        ("is_conflict", pa.bool_()),
        ("is_ambiguous", pa.bool_()),
    ]
)


def sequence(trace_id, **changes):
    """One sequence of a good trace: two prompt tokens and three sampled ones, ended 48 hours before the clock."""
    logprobs = list(changes.pop("logprobs", LOGPROBS))
    mask = changes.pop("mask", [True] * len(logprobs))
    version = changes.pop("version", "v2")
    hours = changes.pop("hours", 48.0)
    length = 2 + len(logprobs)
    ended = AS_OF - timedelta(hours=hours)
    row = {
        "trace_id": trace_id,
        "trace_revision": 0,
        "sequence_index": 0,
        "num_sequences": 1,
        "num_calls": 1,
        "branch_kind": "main",
        "user_hash": f"user of {trace_id}",
        "workload": "desk",
        "token_ids": [1, 2, *range(10, 10 + len(logprobs))],
        "token_logprobs": [None, None, *logprobs],
        "action_mask": [False, False, *mask],
        "spans": [{"call_id": f"call of {trace_id}", "call_index": 0, "start": 2, "end": length, "owned": True}],
        "version_spans": [{"policy_version": version, "start": 2, "end": length}],
        "prompt_length": 2,
        "num_action_tokens": sum(mask),
        "logprob_kind": "processed",
        "logprob_exact": True,
        "truncated": False,
        "faults": [],
        "started_at": ended - timedelta(minutes=1),
        "ended_at": ended,
        "split": "train",
        "ingested_at": ended,
        "schema_version": 1,
    }
    return row | changes


def traces(*rows):
    """The traces of these sequences."""
    return traces_of(pa.Table.from_pylist(list(rows), schema=TRACES.schema))


def call(trace_id, **changes):
    """The one call of a good trace."""
    row = {
        "call_id": f"call of {trace_id}",
        "trace_id": trace_id,
        "response_id": f"response of {trace_id}",
        "logprob_kind": "processed",
        "sampling_json": "{}",
        "started_at": AS_OF - timedelta(hours=48),
        "ingested_at": AS_OF,
    }
    return row | changes


def calls(*rows):
    """A table of calls with the columns that are read of them."""
    names = ["call_id", "trace_id", "response_id", "started_at", "ingested_at"]
    return pa.Table.from_pylist(list(rows), schema=pa.schema([CALLS.schema.field(name) for name in names]))


def outcome(trace_id, value, **changes):
    """The latest word of a program on a trace, given 40 hours before the clock."""
    time = AS_OF - timedelta(hours=changes.pop("hours", 40.0))
    row = {
        "trace_id": trace_id,
        "name": "solved",
        "source_kind": "program",
        "source": "checker",
        "value": value,
        "event_time": time,
        "first_observed_time": time,
        "num_events": 1,
        "is_conflict": False,
        "is_ambiguous": False,
    }
    return row | changes


def outcomes(*rows):
    """What `validate/outcomes_as_of` gives."""
    return pa.Table.from_pylist(list(rows), schema=OUTCOME_SCHEMA)


def policy(version, step, **changes):
    """One registered policy version."""
    row = {
        "policy_version": version,
        "revision": 0,
        "optimizer_step": step,
        "parent_version": None,
        "base_uri": "base",
        "run_id": None,
        "state": "retired",
        "created_at": AS_OF,
        "recorded_at": AS_OF,
        "schema_version": 1,
    }
    return row | changes


def policies(*rows):
    """The registered versions; by default v1 at step 1, v2 at step 3, and v3 at step 4, which is current."""
    standard = (policy("v1", 1), policy("v2", 3), policy("v3", 4, state="current"))
    return policies_of(pa.Table.from_pylist(list(rows or standard), schema=POLICIES.schema))


def drift(trace_id, kl, **changes):
    """The drift of a trace of v2 under v3."""
    row = {
        "trace_id": trace_id,
        "policy_version": "v3",
        "behavior_version": "v2",
        "is_complete": True,
        "mean_bernoulli_kl": kl,
        "mean_abs_log_ratio": 0.01,
    }
    return row | changes


def drifts(*rows):
    """Rows of `trace_drift`."""
    return pa.Table.from_pylist(list(rows), schema=DRIFT_SCHEMA)


def scored(*rows):
    """Log-probabilities under the current policy: (trace, logprobs) pairs."""
    dicts = [
        {"trace_id": trace_id, "trace_revision": 0, "sequence_index": 0, "logprobs": logprobs}
        for trace_id, logprobs in rows
    ]
    return pa.Table.from_pylist(dicts, schema=SCORED_SCHEMA)


def night(rows, *, call_rows=None, outcome_rows=None, drift_rows=None, **changes):
    """A night of these sequences; what is not given is good: a call, a reward of 1 and a drift of 0.001 each."""
    ids = sorted({row["trace_id"] for row in rows})
    found = traces(*rows)
    parts = {
        "traces": found,
        "calls": calls(*(call_rows if call_rows is not None else map(call, ids))),
        "outcomes": outcomes(*(outcome_rows if outcome_rows is not None else (outcome(name, 1.0) for name in ids))),
        "policies": policies(),
        "drifts": drifts(*(drift_rows if drift_rows is not None else (drift(name, 0.001) for name in ids))),
        "scored": scored(),
        "is_trained": np.zeros(found.num_traces, bool),
    }
    return Night(**(parts | changes))
