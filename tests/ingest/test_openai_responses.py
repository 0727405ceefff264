"""OpenAI's Responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.errors import LineError
from tests.ingest.openai_made import codes, entries, numbers, payload, read, read_one


def response(**changes: Any) -> dict[str, Any]:
    """The example with changes."""
    return {**payload("openai_responses.response"), **changes}


def item(**fields: Any) -> dict[str, Any]:
    """A message of one text."""
    return {"type": "message", "content": [{"type": "output_text", "text": "Refunded.", **fields}]}


def test_a_response_is_one_call():
    """Logprobs of its texts, parameters as they were applied, and no prompt."""
    call = read_one({"request": {"model": "toy", "input": "refund 41?"}, "response": response()})
    assert (numbers(call.token_logprobs), call.reply_text, call.finish_reason) == ([-0.3, -0.2], "Refunded.", "stop")
    assert (call.num_prompt_tokens, call.num_completion_tokens, call.messages_json) == (14, 3, '"refund 41?"')
    assert call.sampling == {"temperature": 1.0, "top_p": 1.0, "tool_choice": "auto"}
    assert {"no_token_ids", "no_prompt_ids", "prompt_not_in_log"} <= codes(call)
    assert call.started_at is not None
    assert call.started_at.timestamp() == 1790000002.0


@pytest.mark.parametrize(
    ("changes", "finish"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "cancelled"}, "abort"), ({"status": "failed"}, "error"), ({"status": "in_progress"}, "in_progress"),
        ({"output": [{"type": "function_call", "name": "lookup", "arguments": "{}", "call_id": "c"}]}, "tool_calls"),
    ],
)  # fmt: skip
def test_the_status_says_how_it_ended(changes, finish):
    """There is no finish_reason."""
    assert read_one(response(**changes)).finish_reason == finish


def test_a_response_that_begins_a_conversation_has_its_prompt_in_the_request():
    """Only one that goes on from another has not."""
    assert read_one(response(previous_response_id=None)).notes == ()
    call = read_one(response(previous_response_id=None, conversation={"id": "conv_1"}))
    assert (call.notes, call.session_id) == (("prompt_not_in_log",), "conv_1")


def test_tool_calls_and_refusals_are_part_of_the_reply():
    """Thinking is shown only where nothing else was said."""
    called = {"type": "function_call", "name": "lookup", "arguments": '{"order": 41}', "call_id": "c"}
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    refused = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    assert json.loads(read_one(response(output=[called])).reply_text or "")[0]["arguments"] == '{"order": 41}'
    assert read_one(response(output=[thought, refused])).reply_text == "No."
    assert read_one(response(output=[thought])).reply_text == "Hm."


def test_no_logprobs_and_no_numbers_are_two_things():
    """A text that lists none has none; one of them that is null is missing."""
    assert read_one(response(output=[item()])).token_logprobs is None
    call = read_one(response(output=[item(logprobs=entries([-0.5, None], ["a", "b"]))]))
    assert "no_behavior_logprobs" in call.notes


def test_a_schema_restricts_the_tokens():
    """`text.format` is chat's response_format."""
    call = read_one(response(text={"format": {"type": "json_schema", "name": "x"}}))
    assert "grammar_constrained" in codes(call)


def test_the_last_event_of_a_stream_holds_the_response():
    """Its deltas are repeated there."""
    begun = {"type": "response.created", "response": response(status="in_progress", output=[], usage=None)}
    delta = {"type": "response.output_text.delta", "delta": "Refund", "logprobs": entries([-0.3], ["Refund"])}
    ended = {"type": "response.completed", "response": response()}
    call = read_one({"request": {}, "chunks": [begun, delta, ended]})
    assert (call.log_format, call.reply_text, call.streamed) == ("openai_responses", "Refunded.", True)
    cut = read_one([begun, delta])
    assert (cut.reply_text, cut.finish_reason, numbers(cut.token_logprobs)) == ("Refund", "abort", [-0.3])
    assert "stream_cut" in cut.notes


@pytest.mark.parametrize(
    ("document", "reason"),
    [(response(output=[], status="failed"), "no_choices"), ([{"type": "response.output_text.delta"}], "stream_incomplete"),
     (response(model=None), "bad_field")],
)  # fmt: skip
def test_what_holds_no_reply_is_refused(document, reason):
    """With its reason."""
    with pytest.raises(LineError) as refused:
        read(document)
    assert refused.value.reason == reason
