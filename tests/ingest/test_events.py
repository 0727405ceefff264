"""Chunks that were logged as the text of events are read like chunks."""

from __future__ import annotations

import json

import pytest

from ingest.formats.events import first_chunks, payloads
from schemas.errors import LineError
from tests.ingest.openai_made import G2, L2, ids, numbers, payload, read_one


def test_events_are_undressed():
    """With and without `data:`, several in one text, comments and the end mark between them."""
    chunks = [json.dumps(chunk) for chunk in payload("vllm_chat.stream_chunks")]
    texts = [": keep-alive", f"data: {chunks[0]}\n\n", f"event: x\ndata:{chunks[1]}", chunks[2], f"data: {chunks[3]}"]
    for wrapped in ({"chunks": [*texts, "data: [DONE]"]}, [*texts, "[DONE]", "\n"]):
        call = read_one(wrapped)
        assert (call.log_format, ids(call.token_ids), numbers(call.token_logprobs)) == ("vllm_chat", G2, L2)


def test_events_of_every_server_are_undressed():
    """The reader of bodies does it, not the formats."""
    texts = [f"data: {json.dumps(chunk)}" for chunk in payload("together_chat.stream_chunks")]
    assert ids(read_one({"request": {}, "chunks": texts}).token_ids) == G2


def test_a_text_that_is_no_event_is_refused():
    """Part of the stream is missing, then."""
    chunks = [*payload("vllm_chat.stream_chunks"), "upstream connect error"]
    with pytest.raises(LineError) as refused:
        read_one({"chunks": chunks})
    assert refused.value.reason == "stream_incomplete"


def test_payloads_are_the_documents_alone():
    """In order."""
    assert payloads('data: {"a":1}\r\n\r\nid: 3\ndata: {"b":2}\n\ndata: [DONE]') == [b'{"a":1}', b'{"b":2}']


@pytest.mark.parametrize(
    ("document", "first"),
    [(b"{}", None), (b"[]", []), (b'["data: [DONE]", "data: {}"]', [b"{}"]), (b'[{}, "x", 1]', [b"{}", b"1"])],
)
def test_the_first_chunks_are_those_that_hold_something(document, first):
    """What is no list has none."""
    found = first_chunks(document)
    assert (None if found is None else [bytes(one) for one in found]) == first


def test_a_stream_that_begins_with_an_error_or_a_count_is_told_all_the_same():
    """Whatever line stood before it."""
    chunks = payload("vllm_chat.stream_chunks")
    for odd in ({"error": {"code": 503}}, {"id": "chatcmpl-s", "object": "chat.completion.chunk"}):
        assert read_one({"request": {}, "chunks": [odd, *chunks]}).log_format == "vllm_chat"
