"""What is read of OTLP/JSON lines, whatever the dialect of their attributes."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ingest.call import Call, identity
from ingest.outcome import Outcome
from schemas.errors import LineError
from tests.ingest.tracing_made import (
    ASKED,
    CALLED,
    CHAT,
    SPAN,
    TOLD,
    TRACE,
    attributes,
    is_toy,
    otlp,
    payload,
    read,
    recorded,
    span,
    valued,
)

EVALUATION = {
    "gen_ai.evaluation.name": "ticket_outcome",
    "gen_ai.evaluation.score.value": 1.0,
}


def test_the_example_is_a_call_of_text():
    """Ids, session, times to the microsecond, parameters, texts, response id and counts."""
    (call,) = read(payload("otlp_genai.line"))
    assert (call.trace_id, call.span_id, call.session_id) == (TRACE, SPAN, "sess-9")
    assert (call.model, call.engine, call.response_id) == ("toy", "vllm", "chatcmpl-ask-41-a1-c1")
    assert call.started_at == datetime(2026, 9, 21, 14, 13, 20, 100_000, tzinfo=UTC)
    assert call.ended_at == datetime(2026, 9, 21, 14, 13, 20, 420_000, tzinfo=UTC)
    assert (call.messages_json, call.reply_text, call.finish_reason) == (ASKED, CALLED, "tool_calls")
    assert (call.sampling, call.num_completion_tokens, call.token_ids) == ({"temperature": 1.0}, 4, None)


@pytest.mark.parametrize("part", ["resourceSpans", "scopeSpans", "spans"])
def test_a_line_may_be_any_level_of_a_trace(part: str):
    """TracesData, one ResourceSpans, or one span."""
    line = otlp(span(CHAT))
    inner = {"resourceSpans": line, "scopeSpans": line["resourceSpans"][0], "spans": span(CHAT)}[part]
    (call,) = read(inner)
    assert call.reply_text == "Refunded."


@pytest.mark.parametrize(
    ("trace_id", "span_id"),
    [
        (TRACE.upper(), SPAN.upper()),
        (base64.b64encode(bytes.fromhex(TRACE)).decode(), base64.b64encode(bytes.fromhex(SPAN)).decode()),
    ],
)
def test_ids_are_spelled_alike(trace_id: str, span_id: str):
    """Hex of any case and the base64 of protobuf's JSON are one id."""
    (call,) = read(otlp(span(CHAT, traceId=trace_id, spanId=span_id)))
    assert (call.trace_id, call.span_id) == (TRACE, SPAN)


@pytest.mark.parametrize("trace_id", ["t-41", TRACE[:-1], TRACE + "00", "0" * 32, 7, [1, 2]])
def test_an_id_that_is_none_is_a_reject(trace_id: Any):
    """Neither 16 bytes in hex nor in base64, or all zero."""
    with pytest.raises(LineError) as caught:
        read(otlp(span(CHAT, traceId=trace_id)))
    assert caught.value.reason == "bad_trace_id"


@pytest.mark.parametrize("start", [1790000000100000123, "1790000000100000123"])
def test_nanoseconds_are_exact_as_text_and_as_number(start: Any):
    """A float parse would lose the low digits."""
    (call,) = read(otlp(span(CHAT, startTimeUnixNano=start)))
    assert call.started_at == datetime(2026, 9, 21, 14, 13, 20, 100_000, tzinfo=UTC)


def test_a_time_of_zero_is_no_time():
    """Protobuf's default stands for what was not set."""
    (call,) = read(otlp(span(CHAT, startTimeUnixNano="0")))
    assert (call.started_at, call.ended_at is None) == (None, False)


def test_one_line_with_many_spans_gives_many_calls():
    """And spans of other kinds give none."""
    other = span({"gen_ai.operation.name": "execute_tool"}, spanId="b7ad6b7169203333")
    found = read(otlp(span(CHAT), span(CHAT, spanId="b7ad6b7169203332"), other))
    assert [call.span_id for call in found] == [SPAN, "b7ad6b7169203332"]
    assert len({identity(call) for call in found}) == 2
    assert read(otlp(other)) == ()


def test_dropped_attributes_are_noted():
    """What is missing may have been there."""
    (call,) = read(otlp(span(CHAT, droppedAttributesCount=3)))
    assert "attributes_dropped" in call.notes


def test_a_failed_span_without_a_reply_holds_no_call():
    """Nothing was sampled; one that failed after its reply did."""
    asked = {name: value for name, value in CHAT.items() if name != "gen_ai.output.messages"}
    assert read(otlp(span(asked, status={"code": 2}))) == ()
    (call,) = read(otlp(span(CHAT, status={"code": "STATUS_CODE_ERROR"})))
    assert call.reply_text == "Refunded."


def test_a_span_whose_content_was_not_captured_is_a_call_without_text():
    """Capture is off by default; the call joins by its response id."""
    asked = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "toy", "gen_ai.response.id": "r-1"}
    (call,) = read(otlp(span(asked)))
    assert (call.reply_text, call.response_id, call.notes) == (None, "r-1", ("text_not_logged",))


def test_an_evaluation_event_on_a_span_is_an_outcome():
    """It is of the span that it stands on."""
    event = {
        "name": "gen_ai.evaluation.result",
        "timeUnixNano": "1790086400000000000",
        "attributes": attributes(EVALUATION),
    }
    call, outcome = read(otlp(span(CHAT, events=[event])))
    assert isinstance(call, Call)
    assert isinstance(outcome, Outcome)
    assert (outcome.trace_id, outcome.value) == (TRACE, 1.0)


def test_evaluation_events_among_log_records_are_outcomes():
    """As exporters of logs write them."""
    record = {
        "eventName": "gen_ai.evaluation.result",
        "timeUnixNano": "1790086400000000000",
        "traceId": TRACE,
        "spanId": SPAN,
        "attributes": attributes(EVALUATION),
    }
    (outcome,) = read({"resourceLogs": [{"scopeLogs": [{"scope": {"name": "judge"}, "logRecords": [record]}]}]})
    assert (outcome.trace_id, outcome.value, outcome.source) == (TRACE, 1.0, "judge")


def logged(*records: dict[str, Any]) -> list[dict[str, Any]]:
    """Log records of one resource, about the one span."""
    told = [{"traceId": TRACE, "spanId": SPAN, **record} for record in records]
    return [{"scopeLogs": [{"logRecords": told}]}]


ASK = {"eventName": "gen_ai.user.message", "body": valued({"content": "refund 41?"})}
ANSWER = {
    "eventName": "gen_ai.choice",
    "body": valued({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Refunded."}}),
}


def test_message_records_join_the_span_that_stands_in_their_line():
    """A collector may write both into one line."""
    bare = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "toy"}
    (call,) = read({**otlp(span(bare)), "resourceLogs": logged(ASK, ANSWER)})
    assert (call.messages_json, call.reply_text, call.finish_reason) == (ASKED, "Refunded.", "stop")


def test_message_records_without_their_span_are_a_reject():
    """Nothing says which model answered; the reason says how to put the messages onto the span."""
    with pytest.raises(LineError) as caught:
        read({"resourceLogs": logged(ASK, ANSWER)})
    assert caught.value.reason == "orphan_event"


def test_message_records_of_other_spans_are_noted_on_the_calls_of_the_line():
    """Messages of a call whose span stands elsewhere are of no use here, and are not lost in silence."""
    bare = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "toy"}
    other = {**ASK, "spanId": "c" * 16}
    (call,) = read({**otlp(span(bare)), "resourceLogs": logged(ASK, ANSWER, other)})
    assert (call.reply_text, call.notes) == ("Refunded.", ("orphan_messages",))
    (call,) = read({**otlp(span(bare)), "resourceLogs": logged(ASK, ANSWER)})
    assert call.notes == ()


def test_a_key_that_stands_twice_is_a_reject():
    """Nothing says which of two values counts."""
    twice = span(CHAT)
    twice["attributes"] += attributes({"gen_ai.request.model": "other"})
    with pytest.raises(LineError) as caught:
        read(otlp(twice))
    assert caught.value.reason == "duplicate_key"


@pytest.mark.parametrize("broken", [{"resourceSpans": {}}, {"resourceSpans": [{"scopeSpans": [7]}]}, {"scopeLogs": 1}])
def test_a_line_of_another_shape_is_a_reject(broken: dict[str, Any]):
    """A list that is no list of objects."""
    with pytest.raises(LineError) as caught:
        read(broken)
    assert caught.value.reason == "bad_field"


def test_what_the_sdk_wrote_in_the_current_conventions_is_read():
    """The span and its event of details tell of one call, and are one call."""
    (line,) = recorded("opentelemetry_current.spans.jsonl")
    (call,) = read(line)
    assert (call.model, call.engine, call.messages_json, call.reply_text) == ("toy@v7", "vllm", TOLD, CALLED)
    assert call.sampling == {"temperature": 1.0, "top_p": 1.0, "top_k": 40}
    (event,) = recorded("opentelemetry_current.logs.jsonl")
    (told,) = read(event)
    assert identity(told) == identity(call)


def test_what_the_sdk_wrote_in_the_events_of_2024_is_read():
    """The span has no text, its messages are in another file; both in one line are the whole."""
    (spans,), (logs,) = (recorded(f"opentelemetry_events.{kind}.jsonl") for kind in ("spans", "logs"))
    (call,) = read(spans)
    assert (call.reply_text, call.response_id) == (None, "chatcmpl-ask-41-a1-c1")
    (whole,) = read({**json.loads(spans), **json.loads(logs)})
    assert (whole.messages_json, whole.reply_text, whole.finish_reason) == (TOLD, CALLED, "tool_calls")


def test_what_openinference_wrote_keeps_the_tokens():
    """Its `output.value` is the server's whole answer, of a stream too; the agent's own span is no call."""
    whole, streamed, agent = recorded("openinference.spans.jsonl")
    (call,) = read(whole)
    assert is_toy(call)
    assert (call.log_format, call.session_id, call.user, call.ask_id) == ("otlp", "sess-9", "u-1", "ask-41")
    (stream,) = read(streamed)
    assert (stream.reply_text, len(stream.token_logprobs or b"")) == ("Refunded.", 8)
    assert read(agent) == ()
