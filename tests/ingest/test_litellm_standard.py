"""What is read of LiteLLM's standard logging payloads."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ingest.call import identity
from ingest.faults import judge
from ingest.formats.detect import RecordReader
from ingest.meaning import Interpreter
from schemas.errors import LineError
from tests.ingest.tracing_made import ASKED, CALLED, ids, is_toy, payload, read, recorded

REDACTED = "redacted-by-litellm"


def made(**changes: Any) -> dict[str, Any]:
    """The reference's payload with changes."""
    return {**payload("litellm_standard.payload"), **changes}


def with_choice(**changes: Any) -> dict[str, Any]:
    """The reference's payload with changes of its one choice."""
    document = made()
    document["response"]["choices"][0].update(changes)
    return document


def test_the_example_is_the_toy_call():
    """Ids from `provider_specific_fields`, prompt ids, log-probabilities and all that the payload says."""
    (call,) = read(made())
    assert is_toy(call)
    assert (call.trace_id, call.span_id, call.session_id) == ("t-41", "lc-1", "sess-9")
    assert (call.model, call.deployment, call.engine, call.log_format) == ("toy", "dep-3", "vllm", "litellm_standard")
    assert call.started_at == datetime(2026, 9, 21, 14, 13, 20, 100_000, tzinfo=UTC)
    assert call.ended_at == datetime(2026, 9, 21, 14, 13, 20, 420_000, tzinfo=UTC)
    assert call.sampling == {"temperature": 1.0, "top_p": 1.0, "logprobs": True}
    assert (call.messages_json, call.reply_text, call.user) == (ASKED, CALLED, None)


@pytest.mark.parametrize(
    "places",
    [
        {"token_ids": [1, 2, 3, 4], "provider_specific_fields": None},
        {"provider_specific_fields": {"token_ids": [1, 2, 3, 4]}},
        {
            "provider_specific_fields": {},
            "message": {"content": "a", "provider_specific_fields": {"token_ids": [1, 2, 3, 4]}},
        },
    ],
)
def test_ids_are_found_in_each_of_three_places(places: dict[str, Any]):
    """The choice, its provider fields, or those of its message."""
    (call,) = read(with_choice(**places))
    assert ids(call.token_ids) == [1, 2, 3, 4]


def test_places_that_disagree_are_a_fault():
    """Two lists of ids of one reply cannot both be right."""
    (call,) = read(with_choice(token_ids=[201, 202, 203, 14]))
    assert "ids_disagree" in call.notes


def test_a_cached_reply_says_so():
    """Nothing was sampled now, and the tokens may be of older weights."""
    (call,) = read(made(cache_hit=True))
    assert "cache_hit" in call.notes


def test_a_failed_call_is_a_reject_with_its_error():
    """A failure has no reply; the reject names the error's class."""
    failed = made(status="failure", error_information={"error_class": "RateLimitError"}, response={})
    with pytest.raises(LineError, match="RateLimitError") as caught:
        read(failed)
    assert caught.value.reason == "no_choices"


@pytest.mark.parametrize("response", [REDACTED, {"text": REDACTED}])
def test_a_redacted_reply_is_a_call_without_text(response: Any):
    """The marker is no text that anybody said."""
    (call,) = read(made(response=response, messages=[{"role": "user", "content": REDACTED}]))
    assert (call.reply_text, call.messages_json, call.token_ids) == (None, None, None)
    assert "text_redacted" in call.notes


def test_a_prompt_that_quotes_the_marker_is_kept():
    """Only a text that is the marker was redacted."""
    (call,) = read(made(messages=[{"role": "user", "content": f"what is {REDACTED}?"}]))
    assert call.messages_json is not None
    assert "text_redacted" not in call.notes


def test_a_stream_has_lost_its_logprobs_and_its_counts():
    """LiteLLM drops them when it puts a stream together, and counts the tokens with another tokenizer."""
    document = with_choice(logprobs=None)
    document["stream"] = True
    document["response"]["usage"] = {"prompt_tokens": 6, "completion_tokens": 2}
    (call,) = read(document)
    codes = judge(call, Interpreter({})(call))
    assert {"gateway_dropped_logprobs", "no_behavior_logprobs"} <= set(codes)
    assert "len_mismatch" not in codes


def test_a_retry_is_another_call_of_the_same_trace():
    """A retry shares the trace id and has an id of its own."""
    (first,) = read(made())
    again = made(id="chatcmpl-2", litellm_call_id="lc-2")
    again["response"]["id"] = "chatcmpl-2"
    (second,) = read(again)
    assert first.trace_id == second.trace_id
    assert identity(first) != identity(second)


def test_an_embedding_is_no_call():
    """A call that samples nothing holds nothing."""
    assert read(made(call_type="aembedding", response={"object": "list", "data": []})) == ()


def test_a_reply_that_is_a_plain_text_is_kept():
    """A response may be a text alone."""
    (call,) = read(made(response="Refunded."))
    assert (call.reply_text, call.response_id, call.token_ids) == ("Refunded.", "chatcmpl-ask-41-a1-c1", None)


def test_an_empty_response_is_a_reject():
    """A response without choices is an error that nobody named."""
    with pytest.raises(LineError) as caught:
        read(made(response={"choices": []}))
    assert caught.value.reason == "no_choices"


def test_a_number_in_a_text_is_no_parameter():
    """Nothing is coerced: the parameter is unknown, and that is noted."""
    (call,) = read(made(model_parameters={"temperature": "1", "top_p": 1.0}))
    assert call.sampling == {"top_p": 1.0}
    assert "parameter_unreadable" in call.notes


def test_a_false_id_is_a_reject():
    """`"201"` is no token id."""
    with pytest.raises(LineError) as caught:
        read(with_choice(provider_specific_fields={"token_ids": ["201", 202, 203, 13]}))
    assert caught.value.reason == "bad_field"


def test_another_record_that_holds_the_names_deeper_is_not_taken_for_a_payload():
    """The format of the line before is tried first, and must not claim what is another's."""
    reader = RecordReader()
    reader(recorded("litellm_standard.jsonl")[0])
    wrapped = payload("langfuse_trace.export")
    wrapped["observations"][0]["metadata"] = {"call_type": "x", "model_parameters": {}}
    (call,) = reader(json.dumps(wrapped).encode())
    assert call.log_format == "langfuse_trace"


def test_what_litellm_itself_wrote_is_read():
    """A whole call has all, a streamed one no log-probabilities, a failure is a reject, a redacted one has no text."""
    whole, streamed, failed, mocked, redacted = recorded("litellm_standard.jsonl")
    (call,) = read(whole)
    assert is_toy(call)
    assert (call.trace_id, call.user, call.engine_version) == ("t-41", "u-1", "vllm-0.33.0-toy")
    (stream,) = read(streamed)
    assert (ids(stream.token_ids), stream.token_logprobs, stream.streamed) == ([401, 402], None, True)
    with pytest.raises(LineError, match="InternalServerError"):
        read(failed)
    (mock,) = read(mocked)
    assert mock.reply_text == "Refunded."
    (blind,) = read(redacted)
    assert (blind.reply_text, blind.messages_json) == (None, None)


@pytest.mark.parametrize(
    ("call_type", "name", "text"),
    [
        ("aresponses", "openai_responses.response", "Refunded."),
        ("atext_completion", "openai_completions.response", "Refunded."),
        ("acompletion", "fireworks_chat.response", "Refunded."),
        ("acompletion", "sglang_chat.response", "Refunded."),
    ],
)
def test_the_answer_of_any_known_server_is_read(call_type: str, name: str, text: str):
    """LiteLLM keeps the shape of what it called."""
    (call,) = read(made(call_type=call_type, response=payload(name)))
    assert (call.reply_text, call.log_format, call.token_logprobs is None) == (text, "litellm_standard", False)


@pytest.mark.parametrize(
    ("guardrails", "is_overridden"),
    [
        ([{"guardrail_mode": "post_call", "guardrail_status": "guardrail_intervened"}], True),
        ([{"guardrail_mode": ["pre_call", "post_call"], "guardrail_status": "blocked"}], True),
        ({"guardrail_mode": {"default": "post_call"}, "guardrail_status": "guardrail_intervened"}, True),
        ({"guardrail_status": "guardrail_intervened"}, True),
        ([{"guardrail_mode": "pre_call", "guardrail_status": "guardrail_intervened"}], False),
        ([{"guardrail_mode": "post_call", "guardrail_status": "success"}], False),
        (["post_call"], False),
        (None, False),
    ],
)
def test_a_guardrail_that_changed_the_answer_is_noted(guardrails, *, is_overridden: bool):
    """One that acted before the call changed the prompt alone, and one that let it pass changed nothing."""
    (call,) = read({**payload("litellm_standard.payload"), "guardrail_information": guardrails})
    assert ("output_overridden" in call.notes) is is_overridden
