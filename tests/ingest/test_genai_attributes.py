"""The four dialects of `gen_ai.*`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.ingest.tracing_made import ASKED, CALLED, CHAT, TOLD, attributes, is_toy, otlp, payload, read, recorded, span

OLD = {"gen_ai.system": "openai", "gen_ai.request.model": "toy", "llm.request.type": "chat"}


def call_of(values: dict[str, Any], **changes: Any) -> Any:
    """The one call of a span with these attributes."""
    (call,) = read(otlp(span(values, **changes)))
    return call


def test_system_instructions_come_first():
    """They stand in an attribute of their own."""
    told = {**CHAT, "gen_ai.system_instructions": '[{"type":"text","content":"You help."}]'}
    assert call_of(told).messages_json == TOLD


def test_every_part_of_a_message_is_read():
    """Texts, tool calls and their results, in OpenAI's spelling; reasoning is not what was said."""
    parts = [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "lookup", "arguments": {"order": 41}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "paid"}]},
    ]
    reply = [
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "ok"}]}
    ]
    call = call_of({**CHAT, "gen_ai.input.messages": json.dumps(parts), "gen_ai.output.messages": json.dumps(reply)})
    called, answered = json.loads(call.messages_json)
    assert called["tool_calls"][0]["function"] == {"name": "lookup", "arguments": '{"order":41}'}
    assert (answered["role"], answered["content"], answered["tool_call_id"]) == ("tool", "paid", "c1")
    assert call.reply_text == "ok"


def test_each_message_of_the_output_is_a_choice():
    """The conventions have one message a choice, and one reason a choice."""
    two = [{"role": "assistant", "parts": [{"type": "text", "content": text}]} for text in ("a", "b")]
    told = {**CHAT, "gen_ai.output.messages": json.dumps(two), "gen_ai.response.finish_reasons": ["stop", "length"]}
    found = read(otlp(span(told)))
    assert [(call.choice_index, call.num_choices, call.reply_text, call.finish_reason) for call in found] == [
        (0, 2, "a", "stop"),
        (1, 2, "b", "length"),
    ]


def test_parameters_are_read_under_their_own_names():
    """Whole doubles are whole numbers where the server takes one."""
    told = {
        **CHAT,
        "gen_ai.request.temperature": 0.7,
        "gen_ai.request.top_k": 40.0,
        "gen_ai.request.stop_sequences": ["END"],
        "gen_ai.request.choice.count": 1,
        "gen_ai.request.presence_penalty": 0.5,
    }
    assert call_of(told).sampling == {
        "temperature": 0.7,
        "top_k": 40,
        "stop": ["END"],
        "n": 1,
        "presence_penalty": 0.5,
    }


def test_a_parameter_of_another_type_is_unknown():
    """A text is no number here, and 1.5 is no top-k."""
    call = call_of({**CHAT, "gen_ai.request.temperature": "0.7", "gen_ai.request.top_k": 1.5})
    assert (call.sampling, call.notes) == ({}, ("parameter_unreadable",))


def test_the_events_of_2024_on_a_span_are_read():
    """Their attributes hold what a body holds in a log record."""
    events = [
        {"name": "gen_ai.system.message", "attributes": attributes({"content": "You help."})},
        {"name": "gen_ai.user.message", "attributes": attributes({"content": "refund 41?"})},
        {
            "name": "gen_ai.choice",
            "attributes": attributes({"index": 0, "finish_reason": "stop", "message": '{"content":"Refunded."}'}),
        },
    ]
    call = call_of({"gen_ai.operation.name": "chat", "gen_ai.request.model": "toy"}, events=events)
    assert (call.messages_json, call.reply_text, call.finish_reason) == (TOLD, "Refunded.", "stop")


@pytest.mark.parametrize("completion", ["Refunded.", '[{"role":"assistant","content":"Refunded."}]'])
def test_prompt_and_completion_in_json_or_text_are_read(completion: str):
    """The oldest attributes hold messages as JSON, or a text alone."""
    call = call_of({**OLD, "gen_ai.prompt": ASKED, "gen_ai.completion": completion, "gen_ai.usage.prompt_tokens": 6})
    assert (call.messages_json, call.reply_text, call.num_prompt_tokens) == (ASKED, "Refunded.", 6)


def test_a_completion_that_is_a_whole_answer_keeps_its_tokens():
    """Some put the raw response there."""
    call = call_of({**OLD, "gen_ai.completion": json.dumps(payload("vllm_chat.response"))})
    assert is_toy(call)


def test_events_of_content_hold_the_old_attributes():
    """`gen_ai.content.prompt` and `gen_ai.content.completion` are the old attributes on events."""
    events = [
        {"name": "gen_ai.content.prompt", "attributes": attributes({"gen_ai.prompt": ASKED})},
        {"name": "gen_ai.content.completion", "attributes": attributes({"gen_ai.completion": "Refunded."})},
    ]
    call = call_of(OLD, events=events)
    assert (call.messages_json, call.reply_text) == (ASKED, "Refunded.")


def test_numbered_messages_are_in_the_order_of_their_numbers():
    """10 comes after 9, not after 1."""
    numbered = {f"gen_ai.prompt.{i}.role": "user" for i in range(12)}
    numbered |= {f"gen_ai.prompt.{i}.content": f"m{i}" for i in range(12)}
    call = call_of({**OLD, **dict(sorted(numbered.items())), "gen_ai.completion.0.content": "ok"})
    assert [message["content"] for message in json.loads(call.messages_json)] == [f"m{i}" for i in range(12)]


def test_numbered_tool_calls_are_read():
    """Their names have no `function` around them."""
    called = {
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.finish_reason": "tool_calls",
        "gen_ai.completion.0.tool_calls.0.id": "call_1",
        "gen_ai.completion.0.tool_calls.0.name": "lookup",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"order":41}',
    }
    call = call_of({**OLD, **called})
    assert (call.reply_text, call.finish_reason) == (CALLED, "tool_calls")


@pytest.mark.parametrize(
    "values",
    [
        {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "toy", "gen_ai.response.id": "r"},
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "toy"},
        {"llm.request.type": "rerank", "gen_ai.request.model": "toy"},
        {"gen_ai.request.model": "toy"},
        {"http.method": "POST"},
    ],
)
def test_other_spans_hold_no_call(values: dict[str, Any]):
    """Embeddings, agents, tools and requests of other kinds."""
    assert read(otlp(span(values))) == ()


@pytest.mark.parametrize("name", ["traceloop_numbered.jsonl", "traceloop_parts.jsonl"])
def test_what_traceloop_wrote_is_read(name: str):
    """Before and after it took up the conventions."""
    line, agent = recorded(name)
    (call,) = read(line)
    assert (call.model, call.messages_json, call.reply_text) == ("toy@v7", TOLD, CALLED)
    assert (call.response_id, call.num_prompt_tokens, call.num_completion_tokens) == ("chatcmpl-ask-41-a1-c1", 6, 4)
    assert call.sampling == {"temperature": 1.0, "top_p": 1.0}
    assert read(agent) == ()


def test_an_attribute_of_the_span_wins_over_its_event():
    """What the span itself says is what was there when it ended."""
    events = [{"name": "gen_ai.choice.late", "attributes": attributes({"gen_ai.request.model": "other"})}]
    assert call_of(CHAT, events=events).model == "toy"
