"""One score event: its number, its label, its keys and its identity."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.outcome import JOIN_KEYS, Outcome, outcome_from
from ingest.words import WordSettings
from schemas.errors import LineError
from tests.ingest.score_examples import PLAIN

WORDS = WordSettings(labels={"refund_correct": {"yes": 1, "no": 0}})


def of(**changes: Any) -> Outcome:
    """The outcome of the fields, changed."""
    return outcome_from({**PLAIN, **changes}, WORDS)


def reason_of(**changes: Any) -> str:
    """Why the fields, changed, are refused."""
    with pytest.raises(LineError) as caught:
        of(**changes)
    return caught.value.reason


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1.0), (0.25, 0.25), (True, 1.0), (False, 0.0), ("1", 1.0), (" 0.5 ", 0.5), ("TRUE", 1.0), ("-2e1", -20.0)],
)
def test_a_value_is_a_number_or_a_truth(value, expected):
    """Spelled as JSON or as text."""
    assert of(value=value).value == expected


@pytest.mark.parametrize("value", [[1], {}, "0,5", "1_000", "nan", "inf", "1e999", "0x1", "\u0661", 10**400, 1e309])
def test_what_is_no_finite_number_is_refused(value):
    """Python would read some of these texts as numbers."""
    assert reason_of(value=value) == "bad_value"


def test_a_label_is_worth_what_the_settings_say():
    """As the value or beside a value that is not there; a stated number is kept."""
    assert (of(value="yes").value, of(value="yes").label) == (1.0, "yes")
    without = {name: value for name, value in PLAIN.items() if name != "value"}
    assert outcome_from({**without, "label": "no"}, WORDS).value == 0.0
    assert (of(value=0.5, label="unheard of").value, of(value=0.5, label="x").label) == (0.5, "x")
    for refused in ({"value": "maybe"}, {"value": None, "label": "maybe"}, {"value": "yes", "name": "other"}):
        assert reason_of(**refused) == "bad_value"


def test_only_null_or_blank_withdraws():
    """A value that is not there says nothing."""
    assert of(value=None).value is of(value=" ").value is None
    with pytest.raises(LineError, match="missing"):
        outcome_from({name: value for name, value in PLAIN.items() if name != "value"})


def test_any_one_key_joins():
    """A call, a response, a session or an ask is as good as a trace; numbers are names too."""
    for key in JOIN_KEYS:
        assert getattr(of(**{"trace_id": None, key: 41}), key) == "41"
    assert reason_of(trace_id="") == "no_join_key"


@pytest.mark.parametrize("value", [1.7, True, ["t1"], {}])
def test_a_number_with_a_fraction_and_a_truth_are_no_names(value):
    """Nothing is coerced."""
    assert reason_of(trace_id=value) == "bad_field"


def test_identity_is_what_was_said():
    """Not when it reached us."""
    assert of().item_id == of(observed_time="2026-11-23T00:00:00Z").item_id
    assert of().item_id == of(event_time="2026-11-22T10:00:00+01:00").item_id
    others = [
        {"value": 0},
        {"event_id": "e2"},
        {"source": "x"},
        {"event_time": "2026-11-22T09:00:01Z"},
        {"value": None},
        {"session_id": "x"},
        {"label": "x"},
    ]
    assert len({of(**other).item_id for other in [{}, *others]}) == 8


def test_identity_is_the_label_and_not_what_it_is_worth():
    """A number that is stated otherwise tomorrow makes no second event of a second delivery."""
    other = WordSettings(labels={"refund_correct": {"yes": 0.5}})
    for fields in ({"value": "yes"}, {"value": None, "label": "yes"}):
        assert outcome_from(PLAIN | fields, other).value == 0.5
        assert outcome_from(PLAIN | fields, other).item_id == of(**fields).item_id == of(value="yes").item_id
    assert len({of(**one).item_id for one in ({"value": "yes"}, {"value": "no"}, {"value": 1, "label": "yes"})}) == 3


def test_an_event_without_a_time_says_so_in_its_identity():
    """Views take those that differ for a conflict."""
    timeless = outcome_from(PLAIN | {"event_time": None, "label": "x"}, needs_time=False)
    assert timeless.item_id.endswith(".untimed")
    assert "untimed" not in of().item_id


def test_an_event_without_a_time_is_refused_unless_its_form_has_none():
    """Its identity does not wait for the time of reading."""
    assert reason_of(event_time=None) == reason_of(event_time="") == reason_of(event_time=True) == "bad_time"
    timeless = [outcome_from(PLAIN | {"event_time": None}, needs_time=False) for _ in range(2)]
    assert timeless[0].event_time is timeless[0].observed_time is None
    assert timeless[0].item_id == timeless[1].item_id


@given(
    st.dictionaries(
        st.sampled_from([*PLAIN, "label", "session_id"]), st.none() | st.text() | st.integers() | st.floats()
    )
)
def test_any_fields_are_an_outcome_or_a_reason(changes):
    """Nothing else comes of them."""
    reason, value = None, None
    try:
        value = of(**changes).value
    except LineError as error:
        reason = error.reason
    assert reason in {None, "bad_value", "bad_field", "bad_time", "no_join_key", "bad_source_kind"}
    assert value is None or abs(value) < float("inf")
