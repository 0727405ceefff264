"""What each source had said by the run's clock: revisions, withdrawals and keys that several traces share."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.warehouse.rows import CLOCK, call, hours_before, outcome, trace
from warehouse.lake import Lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Traces t1 to t3: of ask a1, of ask a2 and of ask a2."""
    with Lake.create(tmp_path_factory.mktemp("asked") / "lake") as made:
        with made.transaction() as transaction:
            asks = {"t1": "a1", "t2": "a2", "t3": "a2"}
            transaction.append("traces", [trace(name, [-1.0], ask_id=ask) for name, ask in asks.items()])
            transaction.append("calls", [call("c1", "t1", response_id="r1")])
            transaction.append("outcomes", EVENTS)
        yield made


def of_ask(outcome_id, ask, value, hours, **changes):
    """A score that names an ask."""
    time = hours_before(hours)
    return outcome(outcome_id, None, value, business_key=ask, event_time=time, observed_time=time, **changes)


EVENTS = [
    of_ask("o1", "a1", 1.0, 9),
    outcome("o2", None, 0.0, response_id="r1", event_time=hours_before(8), observed_time=hours_before(8)),
    of_ask("o3", "a2", 1.0, 7),
    of_ask("o4", "a2", 0.0, 6),
    outcome("o5", "t2", 1.0, source="checker"),
    of_ask("o6", "a2", 1.0, 7, source="other"),
    of_ask("o7", "a2", None, 6, source="other"),
    of_ask("o8", "a2", 1.0, 7, name="csat"),
]


def said(lake, events=None, shared=None, as_of=CLOCK):
    """What the query says, by trace, name and source."""
    tables = {
        "events": lake.read("joined_outcomes") if events is None else events,
        "shared": lake.read("shared_keys") if shared is None else shared,
    }
    rows = lake.query("validate/outcomes_as_of", tables, as_of=as_of).to_pylist()
    names = ("value", "num_events", "is_ambiguous")
    return {(row["trace_id"], row["name"], row["source"]): tuple(row[name] for name in names) for row in rows}


@pytest.mark.parametrize("hours", [(8, 5), (5, 8)])
def test_events_without_a_time_that_differ_are_a_conflict_whenever_they_were_read(lake, hours):
    """The one that was read last has no more weight than the other."""
    events = [
        outcome(name, "t1", value, source="untimed", event_time=hours_before(hour), observed_time=hours_before(hour))
        for name, value, hour in zip(("a.untimed", "b.untimed"), (1.0, 0.0), hours, strict=True)
    ]
    named = [{**one, "key_kind": "exact", "key": "t1", "num_traces": 1} for one in events]
    tables = {"events": pa.Table.from_pylist(named), "shared": lake.read("shared_keys")}
    (row,) = lake.query("validate/outcomes_as_of", tables, as_of=CLOCK).to_pylist()
    assert (row["is_conflict"], row["num_events"]) == (True, 2)


def test_a_shared_key_marks_each_of_its_traces_and_is_attached_to_none(lake):
    """The two scores of ask a2 count once, under no trace; t2 keeps its own score, t3 has none."""
    found = said(lake)
    assert found["t1", "refund_correct", "checker"] == (0.0, 2, False)
    assert found["t2", "refund_correct", "checker"] == (1.0, 1, True)
    assert found["t3", "refund_correct", "checker"] == (None, 0, True)
    assert found[None, "refund_correct", "checker"] == (0.0, 2, True)


def test_a_shared_score_that_was_withdrawn_marks_nothing(lake):
    """The other source took its word on ask a2 back."""
    found = said(lake)
    assert found[None, "refund_correct", "other"] == (None, 2, True)
    assert ("t2", "refund_correct", "other") not in found
    before = said(lake, as_of=hours_before(6.5))
    assert before["t2", "refund_correct", "other"] == (None, 0, True)


def test_a_shared_score_of_another_name_is_a_row_of_its_own(lake):
    """It does not touch the reward's."""
    assert said(lake)["t3", "csat", "checker"] == (None, 0, True)


def test_every_event_counts_once(lake):
    """However many traces it may be about."""
    assert sum(num_events for _, num_events, _ in said(lake).values()) == len(EVENTS)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_order_of_events_says_the_same(lake, data):
    """State comes from the times of events, never from their order."""
    events, shared = lake.read("joined_outcomes"), lake.read("shared_keys")
    order = data.draw(st.permutations(range(events.num_rows)))
    other = data.draw(st.permutations(range(shared.num_rows)))
    assert said(lake, events.take(pa.array(order)), shared.take(pa.array(other))) == said(lake, events, shared)
