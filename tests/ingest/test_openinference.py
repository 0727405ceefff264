"""What is read of OpenInference's attributes, flat in a line of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.errors import LineError
from tests.ingest.tracing_made import ASKED, CALLED, is_toy, payload, read


def made(**changes: Any) -> dict[str, Any]:
    """The reference's attributes with changes; a name's `__` is a dot."""
    return {**payload("openinference.span_attributes"), **{k.replace("__", "."): v for k, v in changes.items()}}


def without(prefix: str) -> dict[str, Any]:
    """The reference's attributes without those that begin so."""
    return {name: value for name, value in made().items() if not name.startswith(prefix)}


def test_the_example_is_a_call_of_text():
    """Model, parameters, session, texts and counts; the stub of an answer gives its id."""
    (call,) = read(made())
    assert (call.model, call.session_id, call.response_id) == ("toy", "sess-9", "chatcmpl-ask-41-a1-c1")
    assert (call.sampling, call.messages_json, call.reply_text) == ({"temperature": 1.0}, ASKED, CALLED)
    assert (call.num_prompt_tokens, call.num_completion_tokens, call.token_ids) == (6, 4, None)
    assert (call.trace_id, call.started_at, call.log_format) == ("", None, "openinference")


def test_a_whole_answer_in_the_output_keeps_its_tokens():
    """`output.value` is the raw response of the server."""
    (call,) = read(made(output__value=json.dumps(payload("vllm_chat.response"))))
    assert is_toy(call)
    assert call.sampling == {"temperature": 1.0}


def test_an_output_that_was_cut_is_text_alone():
    """Limits on values cut JSON in the middle; nothing is completed."""
    (call,) = read(made(output__value=json.dumps(payload("vllm_chat.response"))[:500]))
    assert (call.token_ids, call.reply_text) == (None, CALLED)


def test_an_answer_with_a_wrong_number_is_noted_and_the_text_kept():
    """The answer cannot be read; the attributes can."""
    answer = payload("vllm_chat.response")
    answer["choices"][0]["token_ids"] = ["201"]
    (call,) = read(made(output__value=json.dumps(answer)))
    assert (call.token_ids, call.reply_text, "answer_unreadable" in call.notes) == (None, CALLED, True)


def test_messages_are_in_the_order_of_their_numbers():
    """10 comes after 9, not after 1."""
    told = {
        f"llm.input_messages.{i}.message.{field}": value
        for i in range(12)
        for field, value in (("role", "user"), ("content", f"m{i}"))
    }
    (call,) = read({**without("llm.input"), **dict(sorted(told.items()))})
    assert [message["content"] for message in json.loads(call.messages_json)] == [f"m{i}" for i in range(12)]


def test_nested_attributes_are_read_alike():
    """Phoenix gives them nested."""
    message = {"message": {"role": "user", "content": "refund 41?"}}
    (call,) = read({**without("llm.input"), "llm": {"input_messages": [message]}})
    assert call.messages_json == ASKED


def test_parts_of_a_content_are_its_texts():
    """A content may be a list of typed parts."""
    parts = {
        "llm.output_messages.0.message.contents.0.message_content.type": "text",
        "llm.output_messages.0.message.contents.0.message_content.text": "Refund",
        "llm.output_messages.0.message.contents.1.message_content.type": "text",
        "llm.output_messages.0.message.contents.1.message_content.text": "ed.",
    }
    (call,) = read({**without("llm.output"), **parts, "output.value": ""})
    assert call.reply_text == "Refunded."


def test_several_messages_are_choices_only_where_several_were_asked_for():
    """Items of one reply are messages too."""
    two = {f"llm.output_messages.{i}.message.content": text for i, text in enumerate("ab")}
    (joined,) = read({**without("llm.output"), **two})
    assert joined.reply_text == "ab"
    found = read({**without("llm.output"), **two, "llm.invocation_parameters": '{"n": 2}'})
    assert [(call.reply_text, call.num_choices) for call in found] == [("a", 2), ("b", 2)]


@pytest.mark.parametrize(
    "value", [{"output.value": "Refunded.", "output.mime_type": "text/plain"}, {"output.value": '"Refunded."'}]
)
def test_a_plain_output_is_the_reply_where_no_message_is(value: dict[str, Any]):
    """An output may be a text."""
    (call,) = read({**without("llm.output"), **value})
    assert call.reply_text == "Refunded."


def test_a_span_of_another_kind_holds_no_call():
    """Chains, tools and agents."""
    assert read(made(openinference__span__kind="CHAIN")) == ()


@pytest.mark.parametrize("name", ["llm.model_name", "session.id"])
def test_a_name_with_a_nul_is_a_reject(name: str):
    """The catalog's SQL would end there."""
    with pytest.raises(LineError) as caught:
        read({**made(), name: "a\x00b"})
    assert caught.value.reason == "bad_field"
