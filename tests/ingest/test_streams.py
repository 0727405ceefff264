"""Chunks are put together per choice, whichever form they come in."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest import streams
from ingest.formats.chat import Response
from ingest.formats.detect import CallReader
from schemas.errors import LineError
from tests.ingest.hand_made import G1, G2, L2, P2, entries, envelope, line


def chunk(ids: list[int] | None, logprobs: list[float] | None, text: str = "", **changes: Any) -> dict[str, Any]:
    """One chunk with one choice."""
    choice = {
        "index": changes.pop("index", 0),
        "delta": {"content": text},
        "logprobs": None if logprobs is None else {"content": entries(logprobs)},
        "finish_reason": changes.pop("finish", None),
        "token_ids": ids,
    }
    return {
        "id": "chatcmpl-s",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "toy@v7",
        "choices": [choice],
    } | changes


def usage(completion: int) -> dict[str, Any]:
    """The last chunk, which only counts."""
    return {"id": "chatcmpl-s", "choices": [], "usage": {"prompt_tokens": len(P2), "completion_tokens": completion}}


def join(*chunks: dict[str, Any]) -> tuple[Response, tuple[str, ...]]:
    """The whole response."""
    return streams.join(msgspec.json.decode(json.dumps(chunks), type=list[Response]))


OPENING = chunk(None, None, prompt_token_ids=P2)


def test_deltas_are_concatenated():
    """Ids, log-probabilities and text of all chunks, prompt ids of the first, counts of the last."""
    chunks = [OPENING, chunk(G2[:2], L2[:2], "Refund"), chunk(G2[2:], L2[2:], "ed.", finish="stop"), usage(3)]
    (call,) = CallReader()(line(envelope(chunks)))
    assert np.frombuffer(call.token_ids or b"", "<i4").tolist() == G2
    assert np.frombuffer(call.token_logprobs or b"", "<f4").tolist() == L2
    assert np.frombuffer(call.prompt_token_ids or b"", "<i4").tolist() == P2
    assert (call.reply_text, call.finish_reason, call.num_completion_tokens) == ("Refunded.", "stop", 3)
    assert (call.streamed, call.notes) == (True, ())


def test_cumulative_chunks_are_not_concatenated():
    """Each chunk repeats the one before; the server's count tells."""
    chunks = [chunk(G2[:n], L2[:n], "abc"[:n], finish="stop" if n == 3 else None) for n in (1, 2, 3)]
    whole, _ = join(*chunks, usage(3))
    choice = (whole.choices or [])[0]
    assert choice.token_ids == G2
    assert choice.message is not None
    assert choice.message.content == "abc"
    assert [entry.logprob for entry in choice.logprobs.content] == L2  # type: ignore[union-attr]  # there are some


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=6))
def test_with_the_count_known_any_deltas_are_told_from_any_cumulation(pieces):
    """Repeated tokens look like repeated chunks; the count of tokens does not lie."""
    whole = [one for piece in pieces for one in piece]
    deltas = [chunk(piece, None, finish="stop") for piece in pieces]
    cumulative = [chunk([one for p in pieces[: n + 1] for one in p], None, finish="stop") for n in range(len(pieces))]
    for chunks in (deltas, cumulative):
        joined, _ = join(*chunks, usage(len(whole)))
        assert (joined.choices or [])[0].token_ids == whole


def test_without_the_count_a_repeated_token_is_a_delta():
    """Two chunks of which one begins like the other prove nothing."""
    whole, _ = join(chunk([5], None), chunk([5, 5], None, finish="stop"))
    assert (whole.choices or [])[0].token_ids == [5, 5, 5]


def test_choices_do_not_mix():
    """Interleaved chunks go to the choice that they name."""
    whole, _ = join(
        chunk([1], None, "a", index=1), chunk([2], None, "b"), chunk([3], None, "c", index=1, finish="stop"),
        chunk([4], None, "d", finish="length"),
    )  # fmt: skip
    found = [(c.index, c.token_ids, c.finish_reason) for c in whole.choices or []]
    assert found == [(0, [2, 4], "length"), (1, [1, 3], "stop")]


def test_a_stream_without_its_end_is_cut():
    """Exact as far as it goes, and noted."""
    (call,) = CallReader()(line(envelope([OPENING, chunk(G1[:2], [-0.5, -0.75])])))
    assert (call.finish_reason, call.notes) == ("abort", ("stream_cut",))
    assert np.frombuffer(call.token_ids or b"", "<i4").tolist() == G1[:2]


def test_tool_call_arguments_are_concatenated_as_they_came():
    """Never parsed, never spaced anew."""

    def part(**call: Any) -> dict[str, Any]:
        document = chunk(None, None)
        document["choices"][0]["delta"] = {"tool_calls": [{"index": 0, **call}]}
        return document

    whole, _ = join(
        part(id="c1", type="function", function={"name": "lookup", "arguments": '{"or'}),
        part(function={"arguments": 'der":  41}'}),
        chunk(None, None, finish="tool_calls"),
    )
    message = (whole.choices or [])[0].message
    assert message is not None
    assert message.tool_calls == [
        {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"order":  41}'}}
    ]


@pytest.mark.parametrize("chunks", [[], [usage(3)], [OPENING, {**chunk(G2, L2), "id": "another"}]])
def test_chunks_that_form_no_response_are_refused(chunks):
    """None, only counts, or chunks of two responses."""
    with pytest.raises(LineError) as caught:
        CallReader()(line(envelope(chunks)))
    assert caught.value.reason == "stream_incomplete"
