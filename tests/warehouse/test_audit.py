"""Audits select the rows that should not be; none on a healthy lake, each on the fault it is for."""

import pytest

from schemas.tables import TABLES
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
from tests.warehouse.test_views import write
from warehouse import audit, query

FAULTS = {
    "calls_landed_twice": {
        "calls": [call("c1", "t1"), call("c2", "t1", line_sha256="line-c1", uri="b.jsonl")],
        "expected": {"line_sha256": "line-c1", "choice_index": 0, "num_rows": 2, "uris": ["a.jsonl", "b.jsonl"]},
    },
    "calls_without_trace": {
        "calls": [call("c1", "t1"), call("c2", "t2", ingested_at=hours_before(1)), call("c3", "t3")],
        "traces": [trace("t1", [-0.5])],
        "expected": {"call_id": "c2", "trace_id": "t2", "ingested_at": hours_before(1)},
    },
    "current_policy_count": {
        "policies": [policy("v1", 1, "current"), policy("v2", 2, "current"), policy("v3", 3, "retired")],
        "expected": {"num_current": 2, "versions": ["v1", "v2"]},
    },
    "duplicate_keys": {
        "policies": [policy("v1", 1, "current"), policy("v1", 1, "retired")],
        "expected": {"table_name": "policies", "row_key": '{"policy_version":"v1","revision":0}', "num_rows": 2},
    },
    "list_lengths": {
        "traces": [trace("t1", [-0.5])],
        "rescored": [rescored("t1", [None, -0.5], 0.1)],
        "expected": {
            "table_name": "rescored",
            "trace_id": "t1",
            "trace_revision": 0,
            "sequence_index": 0,
            "num_tokens": 3,
            "num_values": 2,
        },
    },
    "orphan_rows": {
        "runs": [run("r1")],
        "verdicts": [verdict("t9", "admitted")],
        "expected": {"table_name": "verdicts", "missing": "trace", "name": "t9", "num_rows": 1},
    },
    "outcomes_without_key": {
        "outcomes": [outcome("o1", "t1", 1.0), outcome("o2", None, 1.0)],
        "expected": {"outcome_id": "o2", "uri": "outcomes.csv"},
    },
    "sequences_missing": {
        "traces": [trace("t1", [-0.5], trace_revision=1)],
        "expected": {"trace_id": "t1", "trace_revision": 0, "num_expected": None, "num_found": 0},
    },
    "source_file_counts": {
        "source_files": [source_file("a.jsonl", 2), source_file("b.jsonl", 0, blank=1)],
        "calls": [call("c1", "t1"), call("c2", "t1"), call("c3", "t1")],
        "expected": {"uri": "a.jsonl", "file_version": None, "what": "lines that landed", "expected": 2, "found": 3},
    },
    "traces_without_calls": {
        "calls": [call("c1", "t1")],
        "traces": [trace("t1", [-0.5], spans=[span("c9", 2, 3)])],
        "expected": {"trace_id": "t1", "call_id": "c9"},
    },
    "trained_without_admission": {
        "verdicts": [verdict("t1", "admitted"), verdict("t2", "quarantined", "too_old")],
        "replays": [replay("t1"), replay("t2")],
        "expected": {"run_id": "r1", "trace_id": "t2", "verdict": "quarantined"},
    },
}


def test_a_healthy_night_passes_every_audit(night):
    """No audit of the small night selects a row."""
    assert [finding for finding in audit.run(night) if finding.num_rows] == []


@pytest.mark.parametrize("name", FAULTS)
def test_an_audit_selects_the_fault_that_it_is_for(lake, name):
    """One offending row among good ones, with what tells where to look."""
    fault = dict(FAULTS[name])
    expected = fault.pop("expected")
    write(lake, **fault)
    assert audit.run_one(lake, name) == (name, 1, expected)


def test_tokens_owned_twice_are_found(lake):
    """Append refuses them; a foreign writer does not, so the audit looks as well."""
    write(lake, traces=[trace("t1", [-0.5], spans=[span("c1", 2, 3)])])
    with lake.exclusive(purpose="test") as connection:
        connection.execute("insert into traces select * replace (1 as sequence_index, 2 as num_sequences) from traces")
    expected = {"trace_id": "t1", "trace_revision": 0, "call_id": "c1", "num_owners": 2}
    assert audit.run_one(lake, "span_ownership") == ("span_ownership", 1, expected)


def test_the_ledger_is_compared_with_the_rejects_of_each_reading(lake):
    """A reject without its reading, and a reading without its reject."""
    write(lake, source_files=[source_file("a", 0, rejects=1)], rejects=[reject("b", 0)])
    assert audit.run_one(lake, "source_file_counts").num_rows == 2


def test_every_kind_of_missing_thing_is_found(lake):
    """Traces, policies and runs that rows refer to and that are not there."""
    write(
        lake,
        policies=[policy("v1", 1, "current", parent_version="v0")],
        rescored=[rescored("t9", [None], 0.1, policy_version="v9")],
        replays=[replay("t9")],
        verdicts=[verdict("t9", "admitted")],
    )
    rows = lake.query("audits/orphan_rows").to_pylist()
    assert {(row["table_name"], row["missing"], row["name"]) for row in rows} == {
        ("policies", "policy", "v0"),
        ("rescored", "trace", "t9"),
        ("rescored", "policy", "v9"),
        ("replays", "trace", "t9"),
        ("replays", "run", "r1"),
        ("verdicts", "trace", "t9"),
        ("verdicts", "run", "r1"),
    }


def test_every_table_with_a_key_is_audited_for_it():
    """The audit of keys names each table with the columns of its declared key."""
    text = query.load("audits/duplicate_keys").text
    for table in TABLES:
        assert f"from {table.name}\ngroup by {', '.join(table.key)}\nhaving" in text, table.name


def test_policies_without_a_current_one_are_found(lake):
    """A lake with policies serves one of them."""
    write(lake, policies=[policy("v1", 1, "retired", recorded_at=CLOCK)])
    assert audit.run_one(lake, "current_policy_count").example == {"num_current": 0, "versions": None}
