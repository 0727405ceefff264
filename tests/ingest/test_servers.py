"""What is claimed, and what is not."""

from __future__ import annotations

import json

import pytest

from ingest.formats.format import keys_of
from ingest.formats.servers import claimed, claimed_chunk
from tests.ingest.openai_made import chat, completion


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"object": "list", "data": []}, None), ({"choices": []}, ("chat", "openai")),
        ({"choices": None, "object": "text_completion"}, ("completions", "openai")),
        ({"choices": "many"}, ("chat", "openai")), ({"choices": [{"index": "first"}]}, ("chat", "openai")),
        ({"choices": [{"text": "x", "delta": {"token_id": 5}}]}, ("chat", "together")),
    ],
)  # fmt: skip
def test_an_object_with_choices_is_somebodys(document, found):
    """A wrong type inside is for the reader to name."""
    assert claimed(keys_of(json.dumps(document))) == found


@pytest.mark.parametrize(
    ("document", "is_chunk"),
    [
        (chat(), False), (completion(), False), (completion(finish_reason=None), True),
        (completion(head={"usage": None}), True), ({"choices": [], "usage": {}}, True), ({"error": {}}, False),
        ({"choices": [{"delta": {}}]}, True), ({"choices": 5}, True),
    ],
)  # fmt: skip
def test_a_whole_response_is_no_chunk(document, is_chunk):
    """A list may hold either."""
    assert (claimed_chunk(keys_of(json.dumps(document))) is not None) is is_chunk
