"""What is read of the rows of litellm-ducklake-sink."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.call import named
from ingest.line import Line
from schemas.errors import LineError
from tests.ingest.tracing_made import ASKED, is_toy, payload, read, recorded

RESPONSE = json.dumps(payload("litellm_standard.payload")["response"])


def kept(messages: str | None = ASKED, response: str | None = RESPONSE, payload_bytes: int | None = None) -> Any:
    """A row of `llm_payloads`; its size is that of its texts unless stated."""
    size = len((messages or "").encode()) + len((response or "").encode())
    return {
        "request_id": "chatcmpl-ask-41-a1-c1",
        "request_day": "2026-09-21",
        "messages": messages,
        "response": response,
        "payload_bytes": size if payload_bytes is None else payload_bytes,
    }


def request(**changes: Any) -> dict[str, Any]:
    """A row of `llm_requests`."""
    return {
        "request_id": "chatcmpl-ask-41-a1-c1",
        "request_day": "2026-09-21",
        "request_ts": "2026-09-21 14:13:20.1",
        "end_user_id": None,
        "model_group": "support-agent",
        "deployment_model": "toy",
        "provider": "hosted_vllm",
        "prompt_tokens": 6,
        "completion_tokens": 4,
        "spend": 0.0,
        "cache_hit": False,
        "status": "success",
        "error_type": None,
        **changes,
    }


def test_a_payload_is_the_toy_call():
    """The response is a text that holds the whole answer."""
    (call,) = read(kept())
    assert is_toy(call)
    assert (call.model, call.messages_json, call.log_format) == ("toy", ASKED, "litellm_ducklake")


def test_both_rows_of_a_call_fall_into_one_trace():
    """Neither names a trace, so the response's id stands for it."""
    calls = [named(read(row)[0], Line(0, 0, b"")) for row in (kept(), request())]
    assert {call.trace_id for call in calls} == {"chatcmpl-ask-41-a1-c1"}


def test_a_cut_response_is_a_reject():
    """Its JSON ends in the middle, and nothing says what is missing."""
    with pytest.raises(LineError, match="payload_max_bytes") as caught:
        read(kept(response=RESPONSE[:200], payload_bytes=len(RESPONSE) + len(ASKED)))
    assert caught.value.reason == "payload_cut"


def test_cut_messages_are_left_out_and_noted():
    """The response is whole, so the call has all but its messages."""
    (call,) = read(kept(messages=ASKED[:20], payload_bytes=len(RESPONSE) + len(ASKED)))
    assert is_toy(call)
    assert call.messages_json is None
    assert "payload_truncated" in call.notes


def test_a_request_without_its_payload_is_a_call_without_text():
    """Payloads are off unless somebody turns them on."""
    (call,) = read(request())
    assert (call.model, call.num_completion_tokens, call.reply_text) == ("toy", 4, None)
    assert "text_not_logged" in call.notes


def test_a_failed_request_is_a_reject():
    """It has an error in the place of a reply."""
    with pytest.raises(LineError, match="Timeout") as caught:
        read(request(status="failure", error_type="Timeout"))
    assert caught.value.reason == "no_choices"


def test_a_payload_without_a_response_is_a_reject():
    """There is nothing to keep."""
    with pytest.raises(LineError) as caught:
        read(kept(response=None))
    assert caught.value.reason == "no_choices"


def test_what_the_sink_itself_made_is_read():
    """A request's row is a call without text, a payload's is the toy call, a cut one is a reject."""
    asked, whole, cut = recorded("litellm_ducklake.jsonl")
    (bare,) = read(asked)
    assert (bare.model, bare.response_id, bare.reply_text) == ("toy@v7", "chatcmpl-ask-41-a1-c1", None)
    (call,) = read(whole)
    assert is_toy(call)
    with pytest.raises(LineError) as caught:
        read(cut)
    assert caught.value.reason == "payload_cut"
