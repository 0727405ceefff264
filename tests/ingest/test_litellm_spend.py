"""What is read of rows of LiteLLM's spend logs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.errors import LineError
from tests.ingest.tracing_made import ASKED, is_toy, payload, read

CUT = "The refund of or... (litellm_truncated skipped 5000 chars. See the docs) ...der 41."


def row(**changes: Any) -> dict[str, Any]:
    """A row of the table with the toy call's response."""
    return {
        "request_id": "chatcmpl-ask-41-a1-c1",
        "call_type": "acompletion",
        "api_key": "88dc28",
        "spend": 0.0,
        "total_tokens": 10,
        "prompt_tokens": 6,
        "completion_tokens": 4,
        "startTime": "2026-09-21T14:13:20.100Z",
        "endTime": "2026-09-21T14:13:20.420Z",
        "model": "toy",
        "model_id": "dep-3",
        "custom_llm_provider": "hosted_vllm",
        "user": "u-1",
        "end_user": "",
        "metadata": '{"status": "success"}',
        "cache_hit": "False",
        "request_tags": '["agent:refund"]',
        "session_id": "t-41",
        "messages": json.loads(ASKED),
        "response": payload("litellm_standard.payload")["response"],
        "proxy_server_request": '{"model": "support-agent", "temperature": 1.0, "top_p": 1.0}',
        **changes,
    }


def test_a_row_is_the_toy_call():
    """The stored response has ids and log-probabilities; the stored request has the parameters."""
    (call,) = read(row())
    assert is_toy(call)
    assert (call.trace_id, call.deployment, call.user, call.log_format) == ("t-41", "dep-3", "u-1", "litellm_spend")
    assert call.sampling == {"temperature": 1.0, "top_p": 1.0}
    assert call.messages_json == ASKED


def test_columns_that_are_json_in_texts_are_read():
    """An export of the table may hold messages and response as texts."""
    plain = row()
    (call,) = read(row(messages=json.dumps(plain["messages"]), response=json.dumps(plain["response"])))
    assert is_toy(call)


@pytest.mark.parametrize("time", ["2026-09-21T14:13:20.100Z", "2026-09-21 14:13:20.1+00:00", "2026-09-21 14:13:20.100"])
def test_a_time_without_a_zone_is_utc(time: str):
    """LiteLLM turns its times into UTC before it writes them into a column that has no zone."""
    (call,) = read(row(startTime=time))
    assert call.started_at == datetime(2026, 9, 21, 14, 13, 20, 100_000, tzinfo=UTC)


@pytest.mark.parametrize(("told", "is_cached"), [("True", True), ("False", False), ("None", False), ("", False)])
def test_a_cache_hit_is_a_word(told: str, *, is_cached: bool):
    """The column holds the name of a truth; the name of no is no yes."""
    (call,) = read(row(cache_hit=told))
    assert ("cache_hit" in call.notes) is is_cached


def test_a_cut_text_is_noted_and_the_numbers_are_whole():
    """The marker stands in a text; lists of numbers are never cut."""
    (call,) = read(row(messages=[{"role": "user", "content": CUT}]))
    assert is_toy(call)
    assert "payload_truncated" in call.notes


@pytest.mark.parametrize("nothing", [{}, "{}", None, ""])
def test_a_row_without_stored_prompts_is_a_call_without_text(nothing: Any):
    """Unless the proxy stores prompts, a row says only that there was a call."""
    (call,) = read(row(messages={}, response=nothing, proxy_server_request={}))
    assert (call.reply_text, call.messages_json, call.num_completion_tokens) == (None, None, 4)
    assert "text_not_logged" in call.notes


@pytest.mark.parametrize("changes", [{"status": "failure"}, {"metadata": '{"status": "failure"}', "status": None}])
def test_a_failed_row_is_a_reject(changes: dict[str, Any]):
    """The state is a column, or in the metadata of older tables."""
    with pytest.raises(LineError) as caught:
        read(row(**changes))
    assert caught.value.reason == "no_choices"


def test_a_time_that_is_none_is_a_reject():
    """A day alone in another order is no time."""
    with pytest.raises(LineError) as caught:
        read(row(startTime="21/09/2026 14:13"))
    assert caught.value.reason == "bad_time"
