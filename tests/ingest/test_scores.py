"""Scores in the forms of other systems: the recorded example of each, and what each form may not mean."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from ingest.formats.detect import RecordReader, all_formats, format_named
from ingest.formats.format import keys_of
from ingest.formats.langfuse_score import score_outcome
from ingest.formats.mlflow_assessment import assessment_outcome
from ingest.formats.openinference_feedback import feedback_outcomes
from ingest.formats.otel_evaluation import evaluation_outcome
from ingest.formats.phoenix_annotation import annotation_outcome
from ingest.formats.scores import score_formats
from ingest.formats.webhook import delivery_outcome
from ingest.outcome import Outcome
from ingest.webhooks import WebhookEvent
from ingest.words import USUAL, WordSettings
from schemas.errors import LineError
from schemas.reasons import REASONS
from tests.ingest import score_examples as given

WORDS = WordSettings(labels={"ticket_outcome": {"open": 0, "closed": 1, "resolved": 1}})
REOPENED = WebhookEvent(
    name="ticket_outcome",
    source="desk",
    label="body.current",
    business_key="body.ticket.external_id",
    event_id="body.id",
    event_time="body.time",
)
EVENTS = {"ticket.status_changed": REOPENED}
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def read(document: Any) -> tuple[Outcome, ...]:
    """The outcomes of one line."""
    return read_line(json.dumps(document).encode())


def read_line(line: bytes) -> tuple[Outcome, ...]:
    """The outcomes of one line, read as any line of a file is."""
    return RecordReader(formats=all_formats(WORDS, EVENTS))(line)


def reason_of(document: Any) -> str:
    """Why a line is refused."""
    with pytest.raises(LineError) as caught:
        read(document)
    return caught.value.reason


def said(outcome: Outcome) -> dict[str, Any]:
    """What an outcome states, without what it leaves out."""
    return {name: value for name, value in msgspec.to_builtins(outcome).items() if value is not None}


def test_a_langfuse_score_is_the_word_of_a_program_at_its_last_update():
    """Its API wrote it: traceId, BOOLEAN 1."""
    (outcome,) = read(given.LANGFUSE)
    assert said(outcome) == {
        "event_id": "sc-1",
        "trace_id": TRACE,
        "name": "ticket_outcome",
        "value": 1.0,
        "label": "True",
        "source_kind": "program",
        "source": "langfuse",
        "event_time": "2026-09-22T09:00:01Z",
        "observed_time": "2026-09-22T09:00:01Z",
    }


def test_a_langfuse_score_that_is_updated_is_a_later_event():
    """Same id, another updatedAt: a revision, whichever day it is of."""
    (first,), (second,) = read(given.LANGFUSE), read(given.LANGFUSE | {"value": 0, "updatedAt": "2026-09-22T10:00:00Z"})
    assert (first.event_id, first.value, second.value) == ("sc-1", 1.0, 0.0)
    assert second.event_time > first.event_time
    assert first.item_id != second.item_id


@pytest.mark.parametrize("kind", ["CORRECTION", "TEXT"])
def test_a_correction_is_no_reward(kind):
    """Its value is always 0, and it is none; the line holds nothing to keep."""
    assert read(given.LANGFUSE | {"dataType": kind, "value": 0, "stringValue": "better: no"}) == ()


def test_a_categorical_score_is_worth_what_the_settings_say():
    """Never its own value, which is 0 or the number of a category."""
    score = given.LANGFUSE | {"dataType": "CATEGORICAL", "value": 0, "stringValue": "resolved"}
    assert (read(score)[0].value, read(score)[0].label) == (1.0, "resolved")
    assert reason_of(score | {"stringValue": "unheard of"}) == "bad_value"
    assert reason_of(score | {"stringValue": None}) == "bad_value"
    with pytest.raises(LineError, match=r"logs\.words\.labels\.ticket_outcome"):
        score_outcome(score, USUAL)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"value": "1"}, "bad_value"),
        ({"value": None}, "bad_value"),
        ({"value": 2}, "bad_value"),
        ({"value": True}, "bad_value"),
        ({"dataType": "NUMERIC", "value": True}, "bad_value"),
        ({"dataType": "STARS"}, "bad_field"),
        ({"source": "ORACLE"}, "bad_source_kind"),
        ({"traceId": None}, "no_join_key"),
        ({"updatedAt": None, "timestamp": None}, "bad_time"),
        ({"name": None}, "bad_field"),
    ],
)
def test_a_langfuse_score_that_cannot_be_used_names_its_reason(change, reason):
    """A text is no number, and a boolean is 0 or 1."""
    assert reason_of(given.LANGFUSE | change) == reason


def test_a_session_or_an_observation_is_what_a_langfuse_score_may_be_about():
    """The observation is a span, and so a call."""
    (of_span,) = read(given.LANGFUSE | {"traceId": None, "observationId": SPAN.upper()})
    (of_session,) = read(given.LANGFUSE | {"traceId": None, "sessionId": "sess-9"})
    assert (of_span.call_id, of_session.session_id) == (SPAN, "sess-9")


def test_the_settings_may_say_who_scores_through_an_interface():
    """A thumb of a user comes through the same API as a program's verdict."""
    words = WordSettings(source_kinds={"langfuse/API": "user"})
    assert score_outcome(given.LANGFUSE, words).source_kind == "user"


def test_an_otel_evaluation_names_its_span_and_its_response():
    """The time in nanoseconds, 2026-09-22 14:13:20; nobody says who scored, so it is a judge."""
    (outcome,) = read(given.OTEL)
    assert said(outcome) == {
        "trace_id": TRACE,
        "call_id": SPAN,
        "response_id": "chatcmpl-ask-41-a1-c2",
        "name": "ticket_outcome",
        "value": 1.0,
        "label": "resolved",
        "source_kind": "judge",
        "source": "otel",
        "event_time": "2026-09-22T14:13:20Z",
        "observed_time": "2026-09-22T14:13:20Z",
    }


def test_otlp_log_lines_hold_evaluations_among_other_events():
    """Two evaluations and one other event of one exporter line; the scope is who scored."""
    other = {"eventName": "gen_ai.user.message", "timeUnixNano": "1790086400000000000", "attributes": []}
    logs = {
        "resourceLogs": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "desk"}}]},
                "scopeLogs": [
                    {"scope": {"name": "checker"}, "logRecords": [given.OTEL, other]},
                    {"logRecords": [given.OTEL | {"timeUnixNano": 1790086400000000001}]},
                ],
            }
        ]
    }
    assert [outcome.source for outcome in read(logs)] == ["checker", "desk"]
    assert read({"resourceLogs": []}) == read(other) == ()


def test_whole_log_lines_are_no_lone_evaluations():
    """Whoever asks for `otel_evaluation` is told that a line of an exporter is not one, and loses no score in silence."""
    lone = format_named("otel_evaluation", all_formats(WORDS, EVENTS))
    assert len(RecordReader(lone)(json.dumps(given.OTEL).encode())) == 1
    lines = {"resourceLogs": [{"scopeLogs": [{"logRecords": [given.OTEL]}]}]}
    with pytest.raises(LineError, match="expected otel_evaluation") as caught:
        RecordReader(lone)(json.dumps(lines).encode())
    assert caught.value.reason == "schema_unknown"


def test_an_evaluation_that_failed_is_no_score():
    """error.type stands where the score would."""
    failed = [one for one in given.OTEL["attributes"] if "score" not in one["key"]]
    failed.append({"key": "error.type", "value": {"stringValue": "timeout"}})
    assert read(given.OTEL | {"attributes": failed}) == ()


@pytest.mark.parametrize(
    ("value", "reason"),
    [({"stringValue": "1"}, "bad_value"), ({"boolValue": True}, "bad_value"), ({"doubleValue": "NaN"}, "bad_value")],
)
def test_the_score_of_an_evaluation_is_a_number(value, reason):
    """A text is none."""
    changed = [
        one | {"value": value} if one["key"].endswith("score.value") else one for one in given.OTEL["attributes"]
    ]
    assert reason_of(given.OTEL | {"attributes": changed}) == reason


def test_a_time_in_nanoseconds_is_exact_or_refused():
    """0 is no time, and then the collector's counts; 1.7e18 has lost its digits."""
    later = evaluation_outcome(given.OTEL | {"timeUnixNano": "0", "observedTimeUnixNano": "1790086401000000000"})
    assert later.event_time == later.observed_time == datetime(2026, 9, 22, 14, 13, 21, tzinfo=UTC)
    for bad in (1.7e18, "soon", True, "-5", "1" * 20):
        assert reason_of(given.OTEL | {"timeUnixNano": bad}) == "bad_time"


def test_a_carrier_span_scores_what_it_links_to():
    """Never its own trace; it has no time, so the time of reading will stand for it."""
    (outcome,) = read(given.CARRIER)
    assert said(outcome) == {
        "trace_id": TRACE,
        "name": "ticket_outcome",
        "value": 1.0,
        "label": "resolved",
        "source_kind": "human",
        "source": "desk",
    }
    assert read(given.CARRIER | {"end_time": "2026-09-22T09:00:00Z"})[0].event_time is not None


def test_feedback_of_a_span_names_the_call_and_nested_attributes_are_the_same():
    """An EVALUATOR span with `evaluations`, as Phoenix nests it."""
    nested = {"evaluations": [{"evaluation": {"name": "ok", "score": 1, "annotator_kind": "LLM"}}]}
    flat = {
        "evaluations.0.evaluation.name": "ok",
        "evaluations.0.evaluation.score": 1,
        "evaluations.0.evaluation.annotator_kind": "LLM",
    }
    links = [{"traceId": TRACE, "spanId": SPAN}]
    (one,), (other,) = (feedback_outcomes(attributes, links, 1790086400) for attributes in (nested, flat))
    assert one == other
    assert (one.trace_id, one.call_id, one.source_kind, one.source) == (TRACE, SPAN, "judge", "openinference")


def test_feedback_goes_by_one_link():
    """None or two say nothing, and a session is named by its attribute."""
    assert reason_of(given.CARRIER | {"links": []}) == "no_join_key"
    assert reason_of(given.CARRIER | {"links": given.CARRIER["links"] * 2}) == "no_join_key"
    of_session = {
        name.replace("trace.", "session.", 1): value for name, value in given.CARRIER["attributes"].items()
    } | {"session.id": "sess-9"}
    (outcome,) = read(given.CARRIER | {"attributes": of_session})
    assert (outcome.session_id, outcome.trace_id) == ("sess-9", None)


def test_a_score_of_feedback_is_a_number():
    """The convention forbids texts there."""
    attributes = given.CARRIER["attributes"] | {"trace.annotations.0.annotation.score": "1"}
    assert reason_of(given.CARRIER | {"attributes": attributes}) == "bad_value"


def test_a_phoenix_annotation_is_revised_by_its_name_span_and_identifier():
    """The identifier is who scored; taken away, score and label withdraw what was said."""
    (outcome,) = read(given.PHOENIX)
    assert said(outcome) == {
        "event_id": "U3BhbjoxOjI=",
        "call_id": SPAN,
        "name": "ticket_outcome",
        "value": 1.0,
        "label": "resolved",
        "source_kind": "human",
        "source": "desk",
        "event_time": "2026-09-22T09:00:00Z",
        "observed_time": "2026-09-22T09:00:00Z",
    }
    cleared = annotation_outcome(given.PHOENIX | {"result": None, "updated_at": "2026-09-23T09:00:00Z"})
    assert (cleared.value, cleared.label, cleared.event_time.day) == (None, None, 23)
    assert reason_of(given.PHOENIX | {"annotator_kind": "ORACLE"}) == "bad_source_kind"


def test_an_overridden_assessment_is_withdrawn_a_moment_before_the_one_that_overrides_it():
    """They have one time, and the later word must be the new one."""
    (old,), (new,) = (read(assessment) for assessment in given.MLFLOW)
    assert said(new) == {
        "event_id": "a-2",
        "trace_id": TRACE,
        "name": "ticket_outcome",
        "value": 0.0,
        "source_kind": "human",
        "source": "desk",
        "event_time": "2026-09-24T09:00:00Z",
        "observed_time": "2026-09-24T09:00:00Z",
    }
    assert (old.event_id, old.value) == ("a-1", None)
    assert (new.event_time - old.event_time).microseconds == 1


@pytest.mark.parametrize(
    "change",
    [
        {"feedback": {"value": None, "error": {"error_code": "TIMEOUT"}}},
        {"error": {"error_code": "TIMEOUT"}},
        {"feedback": None, "expectation": {"value": 1.0}},
    ],
)
def test_an_error_or_an_expectation_is_no_score(change):
    """The line holds nothing to keep, and nothing is withdrawn."""
    assessment = {**given.MLFLOW[1], **change}
    if "expectation" in change:
        del assessment["feedback"]
    assert read(assessment) == ()


@pytest.mark.parametrize(
    ("value", "expected"), [(1, 1.0), (0.25, 0.25), (True, 1.0), ("resolved", 1.0), ("1", "bad_value")]
)
def test_a_text_in_an_assessment_is_a_label(value, expected):
    """Even one of digits; lists, objects and nothing are refused."""
    assessment = given.MLFLOW[1] | {"feedback": {"value": value}}
    assert (reason_of(assessment) if isinstance(expected, str) else read(assessment)[0].value) == expected
    for bad in ([1], {"a": 1}, None):
        assert reason_of(given.MLFLOW[1] | {"feedback": {"value": bad}}) == "bad_value"


def test_an_assessment_in_its_python_form_has_times_in_milliseconds():
    """last_update_time_ms, as `to_dictionary` writes it."""
    assessment = {name: value for name, value in given.MLFLOW[1].items() if not name.endswith("_time")}
    outcome = assessment_outcome(assessment | {"last_update_time_ms": 1790240400000})
    assert outcome.event_time == datetime(2026, 9, 24, 9, tzinfo=UTC)


def test_a_webhook_is_mapped_by_the_settings():
    """The label open is worth 0; the business key, the id and the time stand in the body."""
    (outcome,) = read(given.WEBHOOK)
    assert said(outcome) == {
        "event_id": "evt-77",
        "business_key": "ask-41",
        "name": "ticket_outcome",
        "value": 0.0,
        "label": "open",
        "word": "open",
        "source_kind": "webhook",
        "source": "desk",
        "event_time": "2026-09-24T09:00:00Z",
        "observed_time": "2026-09-24T09:00:00Z",
    }


def test_a_delivery_that_comes_again_is_the_same_event():
    """Another attempt has another timestamp and signature, and the same webhook-id."""
    event = REOPENED.model_copy(update={"event_id": "headers.webhook-id"})
    again = {**given.WEBHOOK, "headers": {"webhook-id": "msg_2", "webhook-timestamp": "1790269999"}}
    first, second = (delivery_outcome(one, {"ticket.status_changed": event}, WORDS) for one in (given.WEBHOOK, again))
    assert first.event_id == "msg_2"
    assert first.item_id == second.item_id


@pytest.mark.parametrize(
    "body", [{"type": "ticket.created"}, {}, None, [], "x", 1, {"type": ["ticket.status_changed"]}]
)
def test_an_event_of_a_type_that_is_not_mapped_holds_nothing(body):
    """It is no fault of the sender's."""
    assert read({**given.WEBHOOK, "body": body}) == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"current": "waiting"}, "bad_value"),
        ({"current": None}, "bad_value"),
        ({"current": ["open"]}, "bad_field"),
        ({"ticket": {}}, "no_join_key"),
        ({"ticket": None}, "no_join_key"),
        ({"time": None}, "bad_time"),
        ({"time": "2026-09-24 09:00"}, "bad_time"),
    ],
)
def test_a_delivery_without_what_its_mapping_needs_is_refused(change, reason):
    """A field that is not there is no value that was withdrawn."""
    assert reason_of({**given.WEBHOOK, "body": given.WEBHOOK["body"] | change}) == reason
    for path in ("body.rating", "body.rating.stars", "body.ticket.id.stars", "body.ticket.0"):
        rated = REOPENED.model_copy(update={"label": None, "value": path})
        with pytest.raises(LineError, match="value is missing"):
            delivery_outcome(given.WEBHOOK, {"ticket.status_changed": rated})


def test_each_example_is_claimed_by_one_form():
    """So the order of the forms decides nothing between them."""
    documents = [given.LANGFUSE, given.OTEL, given.CARRIER, given.PHOENIX, *given.MLFLOW, given.WEBHOOK, given.PLAIN]
    for document in documents:
        keys = keys_of(json.dumps(document).encode())
        assert [known.claims(keys) for known in score_formats(WORDS, EVENTS)].count(True) == 1


@pytest.mark.parametrize("line", [b'{"value":1}', b'{"a":NaN}', b"{}", b'[{"name":1}]', b"7"])
def test_json_of_no_form_says_so(line):
    """And names the forms that there are."""
    with pytest.raises(LineError) as caught:
        read_line(line)
    assert caught.value.reason == "schema_unknown"


@pytest.mark.parametrize("name", ["LANGFUSE", "PHOENIX", "PLAIN"])
def test_a_key_that_stands_twice_is_refused_in_every_form(name):
    """Nothing says which value counts."""
    line = json.dumps(getattr(given, name)).encode()[:-1] + b',"name":"x"}'
    with pytest.raises(LineError) as caught:
        read_line(line)
    assert caught.value.reason == "duplicate_key"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
EXAMPLES = (given.LANGFUSE, given.OTEL, given.CARRIER, given.PHOENIX, *given.MLFLOW, given.WEBHOOK, given.PLAIN)


def places(document: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything within a document."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [*([here] if here else []), *(path for key, value in inner for path in places(value, (*here, key)))]


@settings(max_examples=400, deadline=None)
@hypothesis.given(st.data())
def test_whatever_stands_in_a_field_the_line_is_outcomes_or_a_reject(data):
    """Any one place of any example, replaced by any JSON."""
    document = json.loads(json.dumps(data.draw(st.sampled_from(EXAMPLES))))
    *path, last = data.draw(st.sampled_from(places(document)))
    parent = document
    for key in path:
        parent = parent[key]
    parent[last] = data.draw(JSON)
    try:
        outcomes = read(document)
    except LineError as error:
        assert error.reason in REASONS  # noqa: PT017 - most lines are none
        return
    assert all(outcome.value is None or abs(outcome.value) < float("inf") for outcome in outcomes)


def test_a_number_in_a_path_is_a_place_in_a_list():
    """The second of the ratings."""
    event = REOPENED.model_copy(update={"label": None, "value": "body.ratings.1.stars"})
    delivery = {**given.WEBHOOK, "body": given.WEBHOOK["body"] | {"ratings": [{"stars": 1}, {"stars": 4}]}}
    assert delivery_outcome(delivery, {"ticket.status_changed": event}).value == 4.0
