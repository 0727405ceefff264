"""What the shared shapes say as text."""

from __future__ import annotations

import pytest

from ingest.formats.chat import Message, reply_of, text_of


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, None),
        ("a", "a"),
        ([{"type": "text", "text": "a"}, {"type": "image_url"}, "b", {"text": 5}], "a"),
        ([], ""),
    ],
)
def test_the_text_of_a_content_is_its_text_parts(content, text):
    """Images and oddities have none."""
    assert text_of(content) == text


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        (None, None), (Message(), None), (Message(content=""), ""), (Message(content="a", refusal="b"), "a"),
        (Message(refusal="b", reasoning="c"), "b"), (Message(reasoning="c"), "c"), (Message(reasoning={"odd": 1}), None),
    ],
)  # fmt: skip
def test_a_reply_is_the_first_that_says_something(message, reply):
    """Text, then a refusal, then thinking."""
    assert reply_of(message) == reply
