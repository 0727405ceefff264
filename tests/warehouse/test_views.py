"""Each view on the small night of tests/warehouse/night.py, and on the cases that it does not have."""

import pytest

from tests.warehouse.rows import (
    CLOCK,
    call,
    hours_before,
    outcome,
    policy,
    reject,
    rescored,
    run,
    source_file,
    span,
    trace,
    verdict,
)
from warehouse import query
from warehouse.versions import views


def rows(lake, name, *columns, where=None):
    """Rows of a view as tuples, in the order of its first column."""
    return [tuple(row.values()) for row in lake.read(name, columns=columns, where=where, order_by=columns).to_pylist()]


def write(lake, **tables):
    """Append rows to several tables in one transaction."""
    with lake.transaction() as transaction:
        for table, new in tables.items():
            transaction.append(table, new)


def test_current_traces_are_those_of_the_highest_revision(night):
    """t2's first revision is superseded, all sequences of t3 are there."""
    found = rows(night, "current_traces", "trace_id", "trace_revision", "sequence_index", "num_action_tokens")
    assert found == [
        ("t1", 0, 0, 2),
        ("t2", 1, 0, 2),
        ("t3", 0, 0, 1),
        ("t3", 0, 1, 3),
        ("t4", 0, 0, 1),
        ("t5", 0, 0, 0),
    ]


def test_current_policies_and_runs_are_the_latest_revisions(night):
    """v108 was current once; r1 has ended."""
    assert rows(night, "current_policies", "policy_version", "state") == [
        ("v100", "retired"),
        ("v108", "retired"),
        ("v109", "current"),
        ("v110", "candidate"),
        ("v111", "held"),
    ]
    assert rows(night, "current_runs", "run_id", "state", "decision") == [
        ("r0", "done", "skipped"),
        ("r1", "done", "go"),
    ]
    assert rows(night, "current_policy", "policy_version", "optimizer_step") == [("v109", 109)]


def test_the_clock_is_that_of_the_run_started_last(night):
    """Ages are measured from the night's clock."""
    assert rows(night, "current_clock", "as_of") == [(CLOCK,)]


def test_the_latest_event_of_a_source_is_its_word(night):
    """A revision supersedes, a response id leads to its trace, and a business key without a map to none."""
    found = rows(
        night, "current_outcomes", "outcome_id", "trace_id", "value", "is_conflict", where={"source_kind": "program"}
    )
    assert found == [("o1", "t1", 1.0, False), ("o3", "t2", 0.0, False), ("o4", "t3", 1.0, False)]


@pytest.mark.parametrize(
    ("values", "conflict"), [((1.0, 0.0), True), ((1.0, None), True), ((1.0, 1.0), False), ((None, None), False)]
)
def test_events_of_one_time_that_disagree_are_a_conflict(lake, values, conflict):
    """A withdrawn score beside a score disagrees too."""
    first, second = values
    late = {"event_time": hours_before(1)}
    write(
        lake,
        outcomes=[outcome("o0", "t1", 0.5), outcome("o1", "t1", first, **late), outcome("o2", "t1", second, **late)],
    )
    assert rows(lake, "current_outcomes", "outcome_id", "is_conflict") == [("o2", conflict)]


def test_an_event_that_leads_to_two_traces_scores_none(lake):
    """A response id of two traces is a conflict, not a join."""
    write(
        lake,
        calls=[call("c1", "t1", response_id="x"), call("c2", "t2", response_id="x"), call("c3", "t3")],
        outcomes=[outcome("o1", None, 1.0, response_id="x"), outcome("o2", None, 1.0, call_id="c3")],
    )
    assert rows(lake, "current_outcomes", "outcome_id", "trace_id") == [("o2", "t3")]


TRACE = "0af7651916cd43dd8448eb211c80319c"
SPELLINGS = (
    TRACE.upper(),
    "0af76519-16cd-43dd-8448-eb211c80319c",
    f"tr-{TRACE}",
    "CvdlGRbNQ92ESOshHIAxnA==",
    f"0x{TRACE}",
)


def joined(lake, *columns):
    """Where each outcome leads."""
    return rows(lake, "joined_outcomes", "outcome_id", *columns)


@pytest.mark.parametrize("logged", [TRACE, *SPELLINGS])
def test_a_trace_id_joins_in_every_spelling(lake, logged):
    """And the trace keeps the one of the log."""
    write(
        lake,
        traces=[trace(logged, [-1.0])],
        outcomes=[outcome(f"o{n}", name, 1.0) for n, name in enumerate((TRACE, *SPELLINGS))],
    )
    assert joined(lake, "trace_id", "num_traces") == [(f"o{n}", logged, 1) for n in range(6)]


def test_a_trace_id_that_is_written_alike_is_no_conflict(lake):
    """Two traces of one id in two spellings are told apart by the spelling; a third spelling is of either."""
    write(
        lake,
        traces=[trace(TRACE, [-1.0]), trace(TRACE.upper(), [-2.0])],
        outcomes=[outcome("o1", TRACE, 1.0), outcome("o2", TRACE.upper(), 1.0), outcome("o3", f"tr-{TRACE}", 1.0)],
    )
    assert joined(lake, "trace_id", "num_traces") == [("o1", TRACE, 1), ("o2", TRACE.upper(), 1), ("o3", None, 2)]


@pytest.mark.parametrize("stated", ["b7ad6b7169203331", "0xb7ad6b7169203331", "B7AD6B7169203331", "t61rcWkgMzE="])
def test_a_span_id_is_a_name_of_its_call(lake, stated):
    """In every spelling; our own call id is another name."""
    write(
        lake,
        calls=[call("c1", "t1", span_id="b7ad6b7169203331"), call("c2", "t2")],
        outcomes=[outcome("o1", None, 1.0, call_id=stated), outcome("o2", None, 1.0, call_id="c2")],
    )
    assert joined(lake, "trace_id", "key_kind") == [("o1", "t1", "call"), ("o2", "t2", "call")]


def test_a_session_or_an_ask_joins_while_it_has_one_trace(lake):
    """s1 and a1 have one, s2 and a2 have two: of those nothing is attached."""
    keys = [("t1", "s1", "a1"), ("t2", "s2", "a2"), ("t3", "s2", "a2")]
    write(
        lake,
        traces=[trace(name, [-1.0], session_id=session, ask_id=ask) for name, session, ask in keys],
        outcomes=[
            outcome("o1", None, 1.0, session_id="s1"),
            outcome("o2", None, 1.0, business_key="a1"),
            outcome("o3", None, 1.0, session_id="s2"),
            outcome("o4", None, 1.0, business_key="a2"),
            outcome("o5", None, 1.0, session_id="s2", business_key="a1"),
            outcome("o6", None, 1.0, session_id="s9"),
        ],
    )
    assert joined(lake, "trace_id", "key_kind", "num_traces") == [
        ("o1", "t1", "session", 1),
        ("o2", "t1", "ask", 1),
        ("o3", None, "session", 2),
        ("o4", None, "ask", 2),
        ("o5", "t1", "ask", 1),
        ("o6", None, None, 0),
    ]
    assert rows(lake, "shared_keys", "kind", "key", "trace_id") == [
        ("ask", "a2", "t2"),
        ("ask", "a2", "t3"),
        ("session", "s2", "t2"),
        ("session", "s2", "t3"),
    ]
    assert rows(lake, "current_outcomes", "trace_id") == [("t1",)]


def test_a_score_of_a_trace_that_is_not_here_waits_and_never_goes_to_another_of_its_ask(lake):
    """A lost trace's score is not its neighbour's; a call or response that it names is as precise as its trace."""
    write(
        lake,
        calls=[call("c1", "t1", response_id="r1")],
        traces=[trace("t1", [-1.0], ask_id="a1", session_id="s1")],
        outcomes=[
            outcome("o1", "lost", 1.0, business_key="a1", session_id="s1"),
            outcome("o2", "elsewhere", 1.0, response_id="r1"),
            outcome("o3", "t1", 1.0, response_id="unheard of"),
        ],
    )
    assert joined(lake, "trace_id", "key_kind", "num_traces") == [
        ("o1", "lost", None, 0),
        ("o2", "t1", "response", 1),
        ("o3", "t1", "exact", 1),
    ]


def test_a_key_that_only_an_earlier_revision_had_joins_nothing(lake):
    """The current revision of t1 is of another ask."""
    write(
        lake,
        traces=[trace("t1", [-1.0], ask_id="a1"), trace("t1", [-1.0], ask_id="a2", trace_revision=1)],
        outcomes=[outcome("o1", None, 1.0, business_key="a1"), outcome("o2", None, 1.0, business_key="a2")],
    )
    assert joined(lake, "trace_id") == [("o1", None), ("o2", "t1")]


def test_names_of_traces_and_of_outcomes_meet_in_one_spelling(lake):
    """Each once, whoever has it; only the exact name is as it was written."""
    write(lake, traces=[trace(f"tr-{TRACE}", [-1.0])], outcomes=[outcome("o1", TRACE.upper(), 1.0)])
    assert rows(lake, "key_spellings", "kind", "key", "trace_id", "outcome_id") == [
        ("exact", TRACE.upper(), None, "o1"),
        ("exact", f"tr-{TRACE}", f"tr-{TRACE}", None),
        ("trace", TRACE, f"tr-{TRACE}", None),
        ("trace", TRACE, None, "o1"),
    ]


def test_a_vanished_score_is_a_revision_to_none(lake):
    """The latest event has no value, and that is the word that counts."""
    write(lake, outcomes=[outcome("o1", "t1", 1.0), outcome("o2", "t1", None, event_time=hours_before(1))])
    assert rows(lake, "current_outcomes", "outcome_id", "value") == [("o2", None)]


def test_a_cut_last_line_that_was_read_again_is_no_reject_any_more(night):
    """a.jsonl's tail landed at the second reading; the line counts once."""
    assert rows(night, "current_rejects", "uri", "byte_offset", "reason") == [
        ("a.jsonl", 50, "bad_json"),
        ("b.jsonl", 0, "bad_time"),
    ]
    counts = ("uri", "num_readings", "num_lines", "num_landed", "num_duplicates", "num_rejects", "num_blank")
    assert rows(night, "current_source_files", *counts) == [
        ("a.jsonl", 2, 8, 5, 1, 1, 1),
        ("b.jsonl", 1, 2, 1, 0, 1, 0),
        ("outcomes.csv", 1, 11, 11, 0, 0, 0),
    ]


def test_a_file_that_was_rewritten_has_the_rejects_of_its_last_reading(lake):
    """Read again from the start, a line is rejected once, not twice."""
    write(
        lake,
        source_files=[
            source_file("a", 0, rejects=2, bytes_read=100),
            source_file("a", 0, rejects=1, file_version=1, notes=["file_changed"], bytes_read=100),
        ],
        rejects=[reject("a", 0), reject("a", 40), reject("a", 0, file_version=1)],
    )
    assert rows(lake, "current_rejects", "file_version", "byte_offset") == [(1, 0)]


def test_the_latest_verdict_is_that_of_the_latest_clock(night):
    """t1 was pending the night before."""
    assert rows(night, "latest_verdicts", "trace_id", "run_id", "verdict") == [
        ("t1", "r1", "admitted"),
        ("t2", "r1", "admitted"),
        ("t3", "r1", "quarantined"),
        ("t4", "r1", "pending"),
        ("t5", "r1", "quarantined"),
    ]


def test_of_two_runs_with_one_clock_the_one_started_later_counts(lake):
    """The same night again, with other settings."""
    write(
        lake,
        runs=[run("b", started_at=hours_before(0)), run("a", started_at=hours_before(-1))],
        verdicts=[verdict("t1", "quarantined", "too_old", run_id="b"), verdict("t1", "admitted", run_id="a")],
    )
    assert rows(lake, "latest_verdicts", "run_id", "verdict") == [("a", "admitted")]


def test_drift_is_weighted_by_tokens_over_the_sequences_of_a_trace(night):
    """t3: one token at 0.001 and three at 0.005 make 0.004; t2's superseded revision does not count."""
    found = rows(night, "trace_drift", "trace_id", "num_action_tokens", "is_complete", "max_ratio", "mean_bernoulli_kl")
    assert [row[:4] for row in found] == [("t1", 2, True, 1.0), ("t2", 2, True, 1.0), ("t3", 4, True, 1.2)]
    assert [row[4] for row in found] == pytest.approx([0.0, 0.002, (0.001 + 3 * 0.005) / 4], rel=1e-12)
    sums = rows(night, "trace_drift", "trace_id", "sequence_log_ratio", "mean_abs_log_ratio")
    assert [row[1] for row in sums] == pytest.approx([0.0, -0.1, -0.1], rel=1e-12)
    assert [row[2] for row in sums] == pytest.approx([0.0, 0.15, (0.1 + 3 * 0.5) / 4], rel=1e-12)


def fork(trace_id, second):
    """Two sequences of one trace: one sampled token in the first, those given in the second."""
    first = trace(trace_id, [-0.5], num_sequences=2)
    return [first, second | {"trace_id": trace_id, "num_sequences": 2, "sequence_index": 1}]


def test_a_trace_with_a_sequence_unscored_has_no_current_drift(lake):
    """Half a trace's drift is not its drift; a sequence without action tokens needs no score."""
    empty = trace("-", [], spans=[], version_spans=[])
    write(
        lake,
        traces=[*fork("t1", empty), *fork("t2", trace("other", [-0.7]))],
        policies=[policy("v109", 109, "current")],
        rescored=[rescored("t1", [None, None, -0.5], 0.001), rescored("t2", [None, None, -0.5], 0.001)],
    )
    assert rows(lake, "trace_drift", "trace_id", "is_complete") == [("t1", True), ("t2", False)]
    assert rows(lake, "current_drift", "trace_id", "policy_lag") == [("t1", 0)]


def test_a_summary_has_one_row_for_each_trace(night):
    """Tokens of all sequences are added; an unknown version is null."""
    assert rows(night, "trace_summaries", "trace_id", "num_sequences", "num_action_tokens", "behavior_version") == [
        ("t1", 1, 2, "v109"),
        ("t2", 1, 2, "v108"),
        ("t3", 2, 4, "v108"),
        ("t4", 1, 1, "v100"),
        ("t5", 1, 0, None),
    ]


def test_a_trace_of_two_versions_has_no_behavior_version(lake):
    """Mixed is not one of them, wherever the other stands: weights may be rolled back within a trace."""

    def spans(*versions):
        return [{"policy_version": name, "start": 2 + at, "end": 3 + at} for at, name in enumerate(versions)]

    def of(trace_id, *versions, **changes):
        ends = {"policy_version_min": versions[0], "policy_version_max": versions[-1]}
        return trace(trace_id, [-0.5] * len(versions), version_spans=spans(*versions), **ends, **changes)

    unused = {"num_sequences": 2, "sequence_index": 1, "branch_kind": "abandoned"}
    write(
        lake,
        traces=[
            of("t1", "v109", "v110"),
            of("t2", "v109", "v109"),
            of("t3", "v109", "v110", "v109"),
            of("t4", "v109", None, "v109"),
            of("t5", "v109", num_sequences=2),
            of("t5", "v110", spans=[span("c2", 2, 3)], **unused),
            of("t6", None),
        ],
    )
    found = rows(lake, "trace_summaries", "trace_id", "behavior_version", "policy_version_min", "policy_version_max")
    assert found == [
        ("t1", None, "v109", "v110"),
        ("t2", "v109", "v109", "v109"),
        ("t3", None, "v109", "v109"),
        ("t4", None, "v109", "v109"),
        ("t5", "v109", "v109", "v109"),
        ("t6", None, None, None),
    ]


@pytest.mark.parametrize("values", [(1.0, 0.0), (0.0, 1.0)])
def test_scores_without_a_time_that_differ_are_a_conflict_whenever_they_were_read(lake, values):
    """Nobody knows which was given last; a score with a time that is later decides, one that is earlier does not."""
    first, second = values
    untimed = [
        outcome("a.untimed", "t1", first, event_time=hours_before(8)),
        outcome("b.untimed", "t1", second, event_time=hours_before(5)),
    ]
    write(lake, outcomes=[*untimed, outcome("c", "t1", 0.5, event_time=hours_before(6))])
    assert rows(lake, "current_outcomes", "outcome_id", "is_conflict") == [("b.untimed", True)]
    write(lake, outcomes=[outcome("d", "t1", 0.5, event_time=hours_before(1))])
    assert rows(lake, "current_outcomes", "outcome_id", "is_conflict") == [("d", False)]


def test_the_status_of_a_trace_joins_what_is_known(night):
    """Lag, verdict, drift and updates of each trace, in one row."""
    columns = ("trace_id", "policy_lag", "verdict", "reason", "num_updates", "drift")
    found = rows(night, "trace_status", *columns)
    assert [row[:5] for row in found] == [
        ("t1", 0, "admitted", None, 2),
        ("t2", 1, "admitted", None, 1),
        ("t3", 1, "quarantined", "drift_over_trust", 0),
        ("t4", 9, "pending", "reward_pending", 0),
        ("t5", None, "quarantined", "no_behavior_logprobs", 0),
    ]
    assert [row[5] for row in found[:3]] == pytest.approx([0.0, 0.002, 0.004], rel=1e-12)
    assert [row[5] for row in found[3:]] == [None, None]


def test_a_view_has_the_columns_that_its_header_names(night):
    """The header of each view is its documentation."""
    for folder in ("staging", "marts"):
        for name in query.names(folder):
            declared = [column for column, _ in query.load(name).columns if column != "*"]
            found = night.read(name.split("/")[1]).column_names
            assert found[-len(declared) :] == declared if declared else found, name


def test_views_are_created_after_what_they_read(lake):
    """trace_status comes after every view that it joins."""
    order = views()
    assert order.index("trace_status") > max(
        order.index(name) for name in ("trace_summaries", "current_drift", "latest_verdicts")
    )
