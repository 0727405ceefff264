"""What is read of spans as Phoenix's REST interface and the SDK's own JSON write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ingest.formats import phoenix_span
from ingest.outcome import Outcome
from schemas.errors import LineError
from tests.ingest.tracing_made import ASKED, CALLED, CHAT, SPAN, TRACE, payload, read


def made(**changes: Any) -> dict[str, Any]:
    """A span of Phoenix around the reference's attributes."""
    attributes = {k: v for k, v in payload("openinference.span_attributes").items() if k != "openinference.span.kind"}
    return {
        "name": "llm",
        "context": {"trace_id": TRACE, "span_id": SPAN},
        "span_kind": "LLM",
        "parent_id": None,
        "start_time": "2026-09-21T14:13:20.100+00:00",
        "end_time": "2026-09-21T14:13:20.420+00:00",
        "status_code": "OK",
        "attributes": attributes,
        "events": [],
        **changes,
    }


def test_a_span_of_phoenix_is_a_call():
    """Its kind stands beside its attributes."""
    (call,) = read(made())
    assert (call.trace_id, call.span_id, call.log_format) == (TRACE, SPAN, "phoenix_span")
    assert call.started_at == datetime(2026, 9, 21, 14, 13, 20, 100_000, tzinfo=UTC)
    assert (call.messages_json, call.reply_text) == (ASKED, CALLED)


def test_nested_attributes_are_read_alike():
    """Phoenix nests what was dotted, and keeps lists."""
    call = {"tool_call": {"id": "call_1", "function": {"name": "lookup", "arguments": '{"order":41}'}}}
    nested = {
        "llm": {
            "model_name": "toy",
            "input_messages": [{"message": {"role": "user", "content": "refund 41?"}}],
            "output_messages": [{"message": {"role": "assistant", "tool_calls": [call]}}],
        },
        "openinference": {"span": {"kind": "LLM"}},
    }
    (found,) = read(made(attributes=nested, span_kind=None))
    assert (found.model, found.messages_json, found.reply_text) == ("toy", ASKED, CALLED)


def test_ids_with_0x_before_them_are_the_same_ids():
    """The SDK's own JSON writes them so; its attributes may be of any dialect."""
    context = {"trace_id": f"0x{TRACE}", "span_id": f"0x{SPAN}"}
    (call,) = read(made(context=context, attributes=CHAT, span_kind=None))
    assert (call.trace_id, call.span_id, call.reply_text) == (TRACE, SPAN, "Refunded.")


def test_a_span_that_carries_feedback_is_an_outcome():
    """It is of the span that it links to, not of its own trace."""
    carrier = payload_of_feedback()
    (outcome,) = phoenix_span.format_of().read(json.dumps({**made(), **carrier}).encode()) or ()
    assert isinstance(outcome, Outcome)
    assert (outcome.trace_id, outcome.value) == (TRACE, 1.0)


def payload_of_feedback() -> dict[str, Any]:
    """The fields by which a span carries a score for another."""
    return {
        "context": {"trace_id": "f" * 32, "span_id": "1" * 16},
        "span_kind": "UNKNOWN",
        "links": [{"context": {"trace_id": TRACE, "span_id": SPAN}}],
        "attributes": {
            "trace.annotations.0.annotation.name": "ticket_outcome",
            "trace.annotations.0.annotation.score": 1.0,
            "trace.annotations.0.annotation.annotator_kind": "HUMAN",
        },
    }


@pytest.mark.parametrize(("kind", "status"), [("CHAIN", "OK"), ("TOOL", "OK"), (None, "ERROR")])
def test_other_spans_hold_no_call(kind: str | None, status: str):
    """Other kinds, and a failure without a kind."""
    assert read(made(span_kind=kind, status_code=status)) == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"context": {"trace_id": "t-41", "span_id": SPAN}}, "bad_trace_id"),
        ({"context": 7}, "bad_field"),
        ({"attributes": []}, "bad_field"),
        ({"start_time": "2026-09-21T14:13:20"}, "bad_time"),
        ({"start_time": True}, "bad_time"),
    ],
)
def test_a_span_that_cannot_be_read_is_a_reject(changes: dict[str, Any], reason: str):
    """Each with its reason."""
    with pytest.raises(LineError) as caught:
        read(made(**changes))
    assert caught.value.reason == reason
