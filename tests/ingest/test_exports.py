"""Whole re-exports: what they no longer hold is withdrawn, once, and what they say otherwise is said again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.batch import Placed
from ingest.exports import corrections, is_full_export
from ingest.log_source import ReadOutcome
from ingest.outcome import Outcome, outcome_from
from ingest.outcome_rows import outcome_rows
from ingest.redact import Redactor, RedactSettings
from tests.ingest.score_examples import PLAIN

FILE = "/exports/scores.csv"
NOW = datetime(2026, 12, 1, tzinfo=UTC)
REDACTOR = Redactor(RedactSettings(), b"")
LATER = NOW + timedelta(days=1)


def of(**changes: Any) -> Outcome:
    """An outcome of the fields, changed."""
    return outcome_from({**PLAIN, **changes})


def append(lake, outcomes, uri=FILE) -> None:
    """Land outcomes that the lake does not have."""
    known = set(lake.read("outcomes", columns=["outcome_id"])["outcome_id"].to_pylist())
    placed = [Placed(ReadOutcome(one.item_id, one), uri, 0, "") for one in outcomes if one.item_id not in known]
    with lake.transaction() as transaction:
        transaction.append("outcomes", outcome_rows(placed, REDACTOR, NOW))


def export(lake, *held, uri=FILE, now=NOW) -> list[tuple[str | None, float | None]]:
    """Land a re-export that holds these outcomes; the trace and value of each correction."""
    append(lake, held, uri)
    found = corrections(lake.query, uri, [one.item_id for one in held], now=now)
    assert {(one.event_time, one.observed_time) for one in found} <= {(now, now)}
    append(lake, found, uri)
    return [(one.trace_id, one.value) for one in found]


def current(lake) -> dict[str, float | None]:
    """The word that counts on each trace."""
    rows = lake.read("current_outcomes", columns=["trace_id", "value"]).to_pylist()
    return {row["trace_id"]: row["value"] for row in rows}


def test_a_score_that_vanished_is_withdrawn_once(lake):
    """And comes back when the export holds it again, in the event that it was."""
    first, other = of(), of(trace_id="t2", event_id="e2")
    assert export(lake, first, other) == []
    assert export(lake, other) == [("t1", None)]
    assert current(lake) == {"t1": None, "t2": 1.0}
    assert export(lake, other, now=LATER) == []
    assert export(lake, first, other, now=LATER) == [("t1", 1.0)]
    assert current(lake) == {"t1": 1.0, "t2": 1.0}
    assert export(lake, first, other, now=LATER + timedelta(days=1)) == []


def test_a_score_that_was_written_over_needs_no_correction(lake):
    """The new event is later than the one that is gone."""
    export(lake, of())
    assert export(lake, of(value=0, event_time="2026-11-23T09:00:00Z")) == []
    assert current(lake) == {"t1": 0.0}


def test_a_score_whose_last_event_was_taken_back_has_its_earlier_word_again(lake):
    """1, then 0; the 0 vanishes."""
    earlier, later = of(), of(event_id="e2", value=0, event_time="2026-11-23T09:00:00Z")
    export(lake, earlier, later)
    assert export(lake, earlier) == [("t1", 1.0)]
    assert current(lake) == {"t1": 1.0}


def test_the_word_of_another_file_is_not_taken_back(lake):
    """It landed from there, and there it is still said."""
    append(lake, [of()], "/exports/other.csv")
    export(lake, of(), of(trace_id="t2"))
    assert export(lake, of(trace_id="t2")) == []
    assert current(lake) == {"t1": 1.0, "t2": 1.0}


def test_an_empty_export_withdraws_nothing(lake):
    """It is more likely to have failed."""
    export(lake, of())
    assert export(lake) == []


def test_an_event_without_a_time_is_the_last_word(lake):
    """It was given the time of reading, which nothing in the file can be older than."""
    carrier = outcome_from(PLAIN | {"event_time": None}, needs_time=False)
    assert export(lake, of(value=0), carrier) == []
    assert export(lake, of(value=0), carrier) == []


def test_a_pattern_says_which_files_are_whole_exports():
    """By their whole name."""
    assert is_full_export(FILE, ["/exports/*.csv"])
    assert not is_full_export(FILE, ["/exports/*.json", "scores.csv"])


EVENTS = [
    of(trace_id=f"t{trace}", event_id=f"e{number}", value=number % 2, event_time=f"2026-11-22T0{number}:00:00Z")
    for trace in range(2)
    for number in range(3)
]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(versions=st.lists(st.lists(st.sampled_from(EVENTS), min_size=1, unique_by=id), min_size=1, max_size=3))
def test_after_any_exports_the_lake_says_what_the_last_one_says(lake, versions):
    """Trace by trace: its last event there, or nothing."""
    for held in versions:
        now = max(lake.read("outcomes")["event_time"].to_pylist(), default=NOW) + timedelta(days=1)
        export(lake, *held, now=now)
        last = {one.trace_id: one.value for one in sorted(held, key=lambda one: one.event_time)}
        assert {name: value for name, value in current(lake).items() if value is not None} == last
