"""What the messages of a request say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.messages import Messages


def read(*messages: Any) -> Messages:
    """The texts of these messages."""
    return Messages.read(json.dumps(messages))


def test_the_ask_is_the_last_user_text():
    """Earlier turns may be worked examples."""
    told = read(
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "first?"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": [{"type": "text", "text": "refund "}, {"type": "text", "text": "41?"}]},
        {"role": "tool", "content": "paid"},
    )
    assert (told.system, told.ask) == ("You help.", "refund 41?")
    assert told.given == "You help.\nfirst?\nrefund 41?\npaid"


def test_a_later_system_message_is_no_opening():
    """Only what stands before anybody else speaks."""
    assert read({"role": "user", "content": "a"}, {"role": "system", "content": "b"}).system == ""


@pytest.mark.parametrize("document", [None, "null", "[]", "3", '{"role":"user"}', '[1,"x",{"content":5}]'])
def test_anything_else_says_nothing(document):
    """Damaged messages are no crash."""
    told = Messages.read(document)
    assert (told.system, told.given.strip(), told.ask) == ("", "", None)


def test_half_a_surrogate_is_replaced():
    """Text must be fit to be written."""
    assert Messages.read('[{"role":"user","content":"a\\ud83d"}]').ask == "a\ufffd"
