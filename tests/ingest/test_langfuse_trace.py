"""What is read of Langfuse's traces and observations."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.call import Call, identity
from ingest.formats import langfuse_trace
from ingest.outcome import Outcome
from schemas.errors import LineError
from tests.ingest.tracing_made import ASKED, CALLED, SPAN, TRACE, is_toy, payload, read, recorded

SCORE = {
    "id": "sc-1",
    "traceId": TRACE,
    "name": "ticket_outcome",
    "value": 1,
    "dataType": "NUMERIC",
    "source": "API",
    "timestamp": "2026-09-22T09:00:00Z",
}


def made(**changes: Any) -> dict[str, Any]:
    """The reference's export with changes of its one observation."""
    document = payload("langfuse_trace.export")
    document["observations"][0].update(changes)
    return document


def test_the_example_is_a_call_of_text():
    """Its id, session, user, ask, times, parameters and texts; Langfuse has no field for tokens."""
    (call,) = read(made())
    assert (call.trace_id, call.span_id, call.session_id, call.user) == (TRACE, SPAN, "sess-9", "u-1")
    assert (call.ask_id, call.model, call.log_format) == ("ask-41", "toy", "langfuse_trace")
    assert call.started_at == datetime(2026, 9, 21, 14, 13, 20, 100_000, tzinfo=UTC)
    assert (call.messages_json, call.reply_text) == (ASKED, CALLED)
    assert (call.token_ids, call.num_prompt_tokens, call.num_completion_tokens) == (None, 6, 4)


def test_a_number_spelled_as_a_text_is_a_number_and_an_unset_one_is_unknown():
    """Langfuse spells 1 as "1"; "None" and "inf" say that nothing was set."""
    given = {"temperature": "0.7", "top_k": "40", "seed": "None", "max_tokens": "inf", "stop": "7"}
    (call,) = read(made(modelParameters=given))
    assert call.sampling == {"temperature": 0.7, "top_k": 40, "stop": "7"}
    assert call.notes == ()


@pytest.mark.parametrize("text", ["1,0", "0x1", "1_0", "hot", "٣", "1e999", "01", " 1"])
def test_a_text_that_spells_no_number_is_no_parameter(text: str):
    """Nothing is guessed: the parameter is unknown, and that is noted."""
    (call,) = read(made(modelParameters={"temperature": text}))
    assert call.sampling == {}
    assert call.notes == ("parameter_unreadable",)


def test_a_whole_answer_in_the_output_keeps_its_tokens():
    """An application that stores the raw response keeps ids and log-probabilities."""
    whole = payload("vllm_chat.response")
    (call,) = read(made(output=json.dumps(whole)))
    assert is_toy(call)
    assert (call.response_id, call.log_format, call.span_id) == (whole["id"], "langfuse_trace", SPAN)


def test_other_observations_hold_no_call():
    """Spans, tools and agents are not calls of a model."""
    assert read(made(type="TOOL")) == ()


def test_the_api_object_with_observations_inside_is_read_alike():
    """The API puts observations into the trace, the export beside it."""
    document = made()
    within = {**document["trace"], "observations": document["observations"]}
    assert read(within) == read(document)


def test_an_observation_that_stands_in_both_places_is_read_once():
    """The one beside the trace has its texts; the one within has none."""
    document = made()
    document["trace"]["observations"] = [{**document["observations"][0], "input": None, "output": None}]
    (call,) = read(document)
    assert call.reply_text == CALLED


def test_ids_in_the_place_of_observations_say_nothing():
    """The list of traces names its observations and scores only."""
    document = {**payload("langfuse_trace.export")["trace"], "observations": ["o-1"], "scores": ["s-1"]}
    assert read(document) == ()


def test_an_observation_alone_is_a_call():
    """An export by observation has no trace around it."""
    observation = {**made()["observations"][0], "sessionId": "sess-9"}
    (call,) = read(observation)
    assert (call.trace_id, call.session_id, call.reply_text) == (TRACE, "sess-9", CALLED)


def test_scores_of_a_trace_are_outcomes():
    """With or without observations; a score of its own names its trace itself."""
    document = {
        "trace": made()["trace"],
        "observations": [],
        "scores": [SCORE],
    }
    (outcome,) = read(document)
    assert isinstance(outcome, Outcome)
    assert (outcome.trace_id, outcome.name, outcome.value) == (TRACE, "ticket_outcome", 1.0)
    (call, scored) = read({**made(), "scores": [SCORE]})
    assert isinstance(call, Call)
    assert scored == outcome


def test_two_generations_of_equal_text_are_two_calls():
    """They are two spans, though request and reply are the same."""
    document = made()
    document["observations"].append({**document["observations"][0], "id": "b7ad6b7169203332"})
    one, other = read(document)
    assert identity(one) != identity(other)


def test_a_failed_generation_holds_no_call():
    """Nothing was sampled."""
    assert read(made(level="ERROR", output=None)) == ()


def test_an_unnamed_model_is_noted():
    """A generation need not say which model it was."""
    (call,) = read(made(model=None))
    assert (call.model, "model_unknown" in call.notes) == ("", True)


def test_a_time_without_a_zone_is_a_reject():
    """Nobody knows whose local time it is."""
    with pytest.raises(LineError) as caught:
        read(made(startTime="2026-09-21T14:13:20"))
    assert caught.value.reason == "bad_time"


def test_what_langfuse_itself_wrote_is_read():
    """Two generations, of which one keeps the whole answer, and a tool that is none."""
    first, second, tool, _ = recorded("langfuse.jsonl")
    (whole,) = read(first)
    assert is_toy(whole)
    assert (whole.sampling, whole.ask_id, whole.session_id) == ({"temperature": 1, "top_p": 1}, "ask-41", "sess-9")
    (text,) = read(second)
    assert (text.reply_text, text.token_ids) == ("Refunded.", None)
    assert read(tool) == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("input", "output", "modelParameters", "usageDetails", "metadata", "model", "startTime", "id", "level")


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_observation_is_a_call_or_a_reject(changes: dict[str, Any]):
    """Whatever an application puts into the fields, nothing crashes."""
    line = json.dumps(made(**changes)).encode()
    try:
        records = langfuse_trace.format_of().read(line)
    except LineError:
        return
    assert records is not None
