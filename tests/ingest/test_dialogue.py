"""How messages of many spellings become OpenAI's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.formats.dialogue import messages_json, parsed, reply_text
from tests.ingest.tracing_made import ASKED, CALLED

CALL = json.loads(CALLED)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "parts", "type", "data", "messages", "tool_calls", "choices", "output", "text"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "asked",
    [
        json.loads(ASKED),
        ASKED,
        json.dumps(ASKED),
        {"messages": json.loads(ASKED), "model": "toy"},
        [json.loads(ASKED)],
        "refund 41?",
        {"role": "user", "content": "refund 41?"},
        [{"role": "user", "parts": [{"type": "text", "content": "refund 41?"}]}],
        [{"type": "human", "content": "refund 41?"}],
        [{"type": "human", "data": {"content": "refund 41?"}}],
    ],
)
def test_every_spelling_of_one_message_is_one_message(asked: Any):
    """OpenAI's, as JSON once or twice, in a request, in a batch, a text, GenAI's parts, and LangChain's."""
    assert messages_json(asked) == ASKED


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Refunded.", "Refunded."),
        ({"role": "assistant", "content": "Refunded."}, "Refunded."),
        ([{"role": "assistant", "content": "Refunded."}], "Refunded."),
        ({"content": [{"type": "text", "text": "Refund"}, {"type": "text", "text": "ed."}]}, "Refunded."),
        ({"type": "ai", "content": "Refunded."}, "Refunded."),
        ({"choices": [{"message": {"content": "Refunded."}}]}, "Refunded."),
        ({"choices": [{"text": "Refunded."}]}, "Refunded."),
        ({"output": [{"type": "message", "role": "assistant", "content": [{"text": "Refunded."}]}]}, "Refunded."),
        ({"role": "assistant", "content": None, "tool_calls": CALL}, CALLED),
        ({"generations": [[{"text": "Refunded.", "message": {}}]], "llm_output": {}}, "Refunded."),
        ({"answer": 4}, '{"answer":4}'),
        ({"id": "chatcmpl-1", "model": "toy"}, None),
        (None, None),
        ("", None),
        ({}, None),
    ],
)
def test_every_spelling_of_a_reply_is_its_text(reply: Any, text: str | None):
    """The stub of an answer says nothing; an object of the application's own says its JSON."""
    assert reply_text(reply) == text


def test_a_text_that_only_looks_like_json_is_a_text():
    """Nothing is completed."""
    assert parsed('{"role": "user", "con') == '{"role": "user", "con'
    assert parsed("41") == "41"


@given(JSON)
def test_anything_is_messages_and_a_reply_or_nothing(value: Any):
    """Whatever an application put there, it is kept as a text of JSON or is nothing."""
    messages = messages_json(value)
    assert messages is None or all(isinstance(one, dict) for one in json.loads(messages))
    reply = reply_text(value)
    assert reply is None or isinstance(reply, str)
