"""Anthropic's Messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.errors import LineError
from schemas.reasons import REASONS
from tests.ingest.openai_made import codes, payload, read, read_one


def message(*blocks: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The example with other blocks."""
    return {**payload("anthropic_messages.response"), "content": list(blocks), **changes}


def test_a_message_never_has_logprobs_and_says_so():
    """The fault names the provider, for no switch helps."""
    call = read_one(payload("anthropic_messages.response"))
    assert {"provider_no_logprobs", "no_behavior_logprobs", "no_token_ids", "no_prompt_ids"} <= codes(call)
    assert "never returns log-probabilities" in REASONS["provider_no_logprobs"].sentence
    assert (call.response_id, call.finish_reason, call.num_completion_tokens) == ("msg_toy", "tool_calls", 4)


def test_all_blocks_are_part_of_the_reply():
    """Thinking, text and tool calls in their order; what is redacted says nothing."""
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "opaque"}
    hidden = {"type": "redacted_thinking", "data": "opaque"}
    call = read_one(
        message(thinking, hidden, {"type": "text", "text": "Yes."}, *payload("anthropic_messages.response")["content"])
    )
    thought, said, called = (call.reply_text or "").split("\n\n")
    assert (thought, said, json.loads(called)["input"]) == ("Hm.", "Yes.", {"order": 41})
    assert read_one(message(hidden)).reply_text is None


def test_cached_tokens_are_tokens_of_the_prompt():
    """`input_tokens` leaves them out."""
    usage = {"input_tokens": 6, "output_tokens": 4, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100}
    assert read_one(message(usage=usage)).num_prompt_tokens == 116
    assert read_one(message(usage={"input_tokens": 6, "output_tokens": 4})).num_prompt_tokens == 6
    assert read_one(message(usage=None)).num_prompt_tokens is None


@pytest.mark.parametrize(
    ("logged", "kept"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("tool_use", "tool_calls"),
     ("refusal", "content_filter"), ("model_context_window_exceeded", "length"), ("pause_turn", "pause_turn")],
)  # fmt: skip
def test_the_stop_reason_is_the_finish(logged, kept):
    """In the words of the column."""
    call = read_one(message(stop_reason=logged, stop_sequence="END"))
    assert (call.finish_reason, call.stop_reason) == (kept, "END")


def test_the_system_text_stands_before_the_messages():
    """It is part of the prompt; the rest is as logged."""
    request = {"model": "toy", "system": "You help.", "messages": [{"role": "user", "content": "41?"}],
               "max_tokens": 9, "metadata": {"user_id": "u-1"}, "temperature": 0.5}  # fmt: skip
    call = read_one({"request": request, "response": payload("anthropic_messages.response")})
    roles = [one["role"] for one in json.loads(call.messages_json or "")]
    assert (roles, call.user, call.sampling) == (["system", "user"], "u-1", {"temperature": 0.5, "max_tokens": 9})
    bare = read_one({"request": {**request, "messages": []}, "response": payload("anthropic_messages.response")})
    assert json.loads(bare.messages_json or "") == [{"role": "system", "content": "You help."}]


EVENTS = [
    {"type": "message_start", "message": message(stop_reason=None, usage={"input_tokens": 6, "output_tokens": 1})},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Look"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ing."}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "lookup", "input": {}}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"order":'}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": " 41}"}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
]  # fmt: skip


def test_events_are_put_together_block_by_block():
    """The arguments word for word, the counts from the end."""
    call = read_one({"request": {}, "chunks": EVENTS})
    said, called = (call.reply_text or "").split("\n\n")
    assert (said, json.loads(called)["input"]) == ("Looking.", '{"order": 41}')
    assert (call.finish_reason, call.num_prompt_tokens, call.num_completion_tokens) == ("tool_calls", 6, 4)
    assert (call.streamed, call.notes) == (True, ("provider_no_logprobs",))


def test_events_without_their_end_are_cut():
    """As any stream."""
    call = read_one([f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS[:4]])
    assert (call.reply_text, call.finish_reason) == ("Looking.", "abort")
    assert "stream_cut" in call.notes


def test_a_message_without_a_model_is_refused():
    """The version could not even be guessed."""
    with pytest.raises(LineError) as refused:
        read(message(model=None))
    assert refused.value.reason == "bad_field"
