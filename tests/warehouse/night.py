"""One small night, small enough to add up by hand.

    trace   written by   ended before the clock   action tokens   drift under v109    reward   verdict
    t1      v109         12 h                     2               0 (canary)          1        admitted, trained at step 0 and 1
    t2      v108         24 h                     2               0.002               0        admitted, trained at step 0
    t3      v108         36 h                     1 + 3           (0.001 + 3*0.005)/4 = 0.004   1   quarantined: drift_over_trust
    t4      v100         72 h                     1               not rescored        none     pending: reward_pending
    t5      unknown      48 h                     0               not rescored        none     quarantined: no_behavior_logprobs

v109 is current, at optimizer step 109; v110 is a candidate that run r1 made from it, v111 one that grew from v110.
t2 has an earlier revision 0 with other tokens. Run r0, one night before, judged t1 and t4.
File a.jsonl was read twice: its cut last line (offset 90) landed at the second reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.warehouse.rows import (
    CLOCK,
    call,
    hours_before,
    outcome,
    policy,
    reject,
    replay,
    rescored,
    run,
    source_file,
    span,
    trace,
    verdict,
)

if TYPE_CHECKING:
    from warehouse.lake import Lake


def fill(lake: Lake) -> None:
    """Write the night's rows, one transaction a table."""
    for table, rows in (
        ("source_files", _source_files()),
        ("rejects", [reject("a.jsonl", 50), reject("a.jsonl", 90, "truncated_tail"), reject("b.jsonl", 0, "bad_time")]),
        ("calls", _calls()),
        ("traces", _traces()),
        ("traces", _revised()),
        ("outcomes", _outcomes()),
        ("policies", _policies()),
        ("rescored", _rescored()),
        ("verdicts", _verdicts()),
        ("runs", _runs()),
        ("replays", _replays()),
    ):
        with lake.transaction() as transaction:
            transaction.append(table, rows)


def _source_files() -> list[dict[str, object]]:
    return [
        source_file("a.jsonl", 4, duplicates=1, rejects=2, blank=1, bytes_read=90),
        source_file("a.jsonl", 1, file_version=1, bytes_read=120),
        source_file("b.jsonl", 1, rejects=1),
        source_file("outcomes.csv", 11, content_kind="outcomes"),
    ]


def _calls() -> list[dict[str, object]]:
    shared = {"policy_version": "v108", "started_at": hours_before(36)}
    return [
        call("c1", "t1", policy_version="v109", response_id="x1"),
        call("c2", "t2", policy_version="v108"),
        call("c3", "t3", token_ids=[3], token_logprobs=[-0.7], **shared),
        call("c4", "t3", token_ids=[7, 8, 9], token_logprobs=[-0.1, -9999.0, -0.3], **shared),
        call(
            "c5", "t4", token_ids=[3], token_logprobs=[-0.2, -0.3], started_at=hours_before(72), policy_version="v100"
        ),
        call("c6", "t5", token_logprobs=None, started_at=hours_before(48), uri="b.jsonl"),
    ]


def _traces() -> list[dict[str, object]]:
    third = {"version": "v108", "num_sequences": 2, "num_calls": 2, "user_hash": "u2", "ended_at": hours_before(36)}
    return [
        trace("t1", [-0.5, -1.0], spans=[span("c1", 2, 4)], user_hash="u1"),
        trace("t2", [-0.9], version="v108", spans=[span("c2", 2, 3)]),
        trace("t3", [-0.7], spans=[span("c3", 2, 3)], **third),
        trace("t3", [-0.1, -0.2, -0.3], spans=[span("c4", 2, 5)], sequence_index=1, branch_kind="fork", **third),
        trace(
            "t4",
            [-0.2],
            version="v100",
            spans=[span("c5", 2, 3)],
            ended_at=hours_before(72),
            split="holdout",
            workload="chat",
            truncated=True,
        ),
        trace(
            "t5",
            [],
            token_ids=[1, 2, 3, 4],
            token_logprobs=[None] * 4,
            action_mask=[False] * 4,
            spans=[span("c6", 2, 4, fault="no_behavior_logprobs")],
            faults=["no_behavior_logprobs"],
            version=None,
            version_spans=[],
            ended_at=hours_before(48),
            temperature=None,
            user_hash="u1",
        ),
    ]


def _revised() -> list[dict[str, object]]:
    return [
        trace(
            "t2",
            [-0.5, -1.0],
            trace_revision=1,
            version="v108",
            spans=[span("c2", 2, 4)],
            user_hash="u1",
            ended_at=hours_before(24),
            logprob_kind="raw",
        )
    ]


def _outcomes() -> list[dict[str, object]]:
    judge = {"source_kind": "judge", "source": "judge-small", "name": "refund_ok"}
    human = {"source_kind": "human", "source": "rater-0", "name": "refund_ok"}
    return [
        outcome("o1", None, 1.0, response_id="x1"),
        outcome("o2", "t2", 1.0, event_time=hours_before(20)),
        outcome("o3", "t2", 0.0),
        outcome("o4", "t3", 1.0, event_time=hours_before(30)),
        outcome("o5", "t1", 1.0, **judge),
        outcome("o6", "t2", 1.0, **judge),
        outcome("o7", "t3", 0.0, **judge),
        outcome("o8", "t1", 1.0, **human),
        outcome("o9", "t2", 0.0, **human),
        outcome("o10", "t3", 0.0, **human),
        outcome("o11", None, 1.0, business_key="order-1"),
    ]


def _policies() -> list[dict[str, object]]:
    return [
        policy("v100", 100, "retired"),
        policy("v108", 108, "current", parent_version="v100"),
        policy("v108", 108, "retired", parent_version="v100", revision=1),
        policy("v109", 109, "current", parent_version="v108"),
        policy("v110", 110, "candidate", parent_version="v109", run_id="r1"),
        policy("v111", 111, "held", parent_version="v110", run_id="r2"),
    ]


def _rescored() -> list[dict[str, object]]:
    old = {"behavior_version": "v108"}
    return [
        rescored("t1", [None, None, -0.5, -1.0], 0.0, max_ratio=1.0),
        rescored(
            "t2",
            [None, None, -0.4, -1.2],
            0.002,
            trace_revision=1,
            mean_abs_log_ratio=0.15,
            m2=0.025,
            sequence_log_ratio=-0.1,
            **old,
        ),
        rescored("t2", [None, None, -0.9], 0.9, **old),
        rescored("t3", [None, None, -0.6], 0.001, mean_abs_log_ratio=0.1, m2=0.01, sequence_log_ratio=0.1, **old),
        rescored(
            "t3",
            [None, None, -0.3, -0.3, -2.3],
            0.005,
            sequence_index=1,
            mean_abs_log_ratio=0.5,
            m2=0.03,
            max_ratio=1.2,
            sequence_log_ratio=-0.2,
            **old,
        ),
    ]


def _verdicts() -> list[dict[str, object]]:
    before = {"run_id": "r0", "decided_at": hours_before(24)}
    return [
        verdict("t1", "pending", "reward_pending", stage="reward", **before),
        verdict("t4", "pending", "reward_pending", stage="reward", **before),
        verdict("t1", "admitted", reward=1.0, policy_lag=0, drift=0.0),
        verdict("t2", "admitted", reward=0.0, policy_lag=1, drift=0.002, trace_revision=1),
        verdict("t3", "quarantined", "drift_over_trust", stage="staleness", reward=1.0, policy_lag=1, drift=0.004),
        verdict("t4", "pending", "reward_pending", "not_rescored", stage="reward", policy_lag=9),
        verdict("t5", "quarantined", "no_behavior_logprobs", stage="structure"),
    ]


def _runs() -> list[dict[str, object]]:
    ended = {"decision": "go", "new_policy": "v110", "ended_at": hours_before(-0.5), "base_policy": "v109"}
    return [
        run("r0", as_of=hours_before(24), started_at=hours_before(24), night="2026-11-27", decision="skipped"),
        run("r1", state="started"),
        run("r1", revision=1, started_at=CLOCK, **ended),
    ]


def _replays() -> list[dict[str, object]]:
    return [
        replay("t1"),
        replay("t1", step=1, drift=0.001, replayed_at=hours_before(-0.1)),
        replay("t2", reward=0.0, trace_revision=1, policy_lag=1, drift=0.002),
    ]
