"""What the engines' own endpoints have in common."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from ingest.formats.generation import packed, prompt_messages, top_lists, with_model


@given(st.lists(st.none() | st.floats(-1e4, 0.0, width=32), max_size=20))
def test_any_null_keeps_its_place(values):
    """It is NaN, and noted once; the other numbers are bit for bit."""
    notes: list[str] = []
    found = np.frombuffer(packed(values, notes) or b"", "<f4").tolist()
    assert [None if np.isnan(value) else value for value in found] == values
    assert notes == (["no_behavior_logprobs"] if None in values else [])


def test_a_missing_list_stays_missing():
    """It is not an empty one."""
    notes: list[str] = []
    assert packed(None, notes) is None
    assert packed([], notes) == b""
    assert notes == []


@pytest.mark.parametrize(("one", "number"), [(None, -1.0), (7, None)])
def test_a_top_token_without_id_or_number_takes_the_lists_away(one, number):
    """A text is not one token's alone."""
    notes: list[str] = []
    assert top_lists([[(401, -0.5)], [(one, number)]], notes) == (None, None)
    assert notes == ["top_tokens_without_ids"]


def test_top_lists_that_are_all_empty_are_none():
    """Nobody asked for them."""
    assert top_lists([[], []], []) == (None, None)


def test_a_request_keeps_the_model_that_it_names():
    """The gateway's stands in where there is none."""
    assert json.loads(bytes(with_model(Raw(b'{"a":1}'), "toy"))) == {"a": 1, "model": "toy"}
    assert json.loads(bytes(with_model(Raw(b'{"model":"mine"}'), "toy"))) == {"model": "mine"}
    assert json.loads(bytes(with_model(Raw(b"null"), None))) == {}


def test_a_text_is_what_a_user_said():
    """Quotes and line ends in it are kept."""
    assert json.loads(prompt_messages('say "hi"\n') or "") == [{"role": "user", "content": 'say "hi"\n'}]
    assert prompt_messages(None) is None
