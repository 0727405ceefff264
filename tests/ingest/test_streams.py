"""Chunks are put together per choice, whichever form they come in."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.formats import streams
from ingest.formats.chat import Response
from ingest.formats.detect import RecordReader
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
    (call,) = RecordReader()(line(envelope(chunks)))
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
    (call,) = RecordReader()(line(envelope([OPENING, chunk(G1[:2], [-0.5, -0.75])])))
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


@pytest.mark.parametrize("chunks", [[usage(3)], [OPENING, {**chunk(G2, L2), "id": "another"}]])
def test_chunks_that_form_no_response_are_refused(chunks):
    """Only counts, or chunks of two responses."""
    with pytest.raises(LineError) as caught:
        RecordReader()(line(envelope(chunks)))
    assert caught.value.reason == "stream_incomplete"


def _piece(choice: dict[str, Any], **head: Any) -> dict[str, Any]:
    return {
        "id": "s",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "toy",
        "choices": [choice],
        **head,
    }


def _texts(*texts: str, **last: Any) -> list[dict[str, Any]]:
    """Chunks of completions, the last of which ends the reply."""
    chunks = [
        _piece({"index": 0, "text": text, "logprobs": {"tokens": [text], "token_logprobs": [-1.0]}}) for text in texts
    ]
    chunks[-1]["choices"][0] |= {"finish_reason": "stop", **last}
    return [{**chunk, "object": "text_completion"} for chunk in chunks]


def test_completions_are_joined_like_chat():
    """Texts in the place of deltas, arrays in the place of entries; the mark may come last."""
    (call,) = RecordReader()(line(envelope(_texts("a", "b", stop_reason=None))))
    assert (call.log_format, call.reply_text, call.finish_reason) == ("vllm_completions", "ab", "stop")
    assert np.frombuffer(call.token_logprobs or b"", "<f4").tolist() == [-1.0, -1.0]


def test_a_stream_goes_by_the_server_that_any_chunk_tells():
    """A first chunk with nothing but a role is everybody's."""
    chunks = [
        _piece({"index": 0, "delta": {"role": "assistant", "content": ""}}),
        _piece({"index": 0, "delta": {"content": "x"}, "matched_stop": 13, "finish_reason": "stop"}),
    ]
    (call,) = RecordReader()(line({"chunks": chunks}))
    assert (call.log_format, call.engine, call.stop_reason) == ("sglang_chat", "sglang", "13")


def test_together_chunks_are_a_number_and_an_id_each():
    """A token without its number leaves a gap that is named; one without its id takes all ids away."""

    def read(*pieces: tuple[int | None, float | None]) -> Any:
        chunks = [_piece({"index": 0, "delta": {"content": "x", "token_id": i}, "logprobs": v}) for i, v in pieces]
        chunks.append(_piece({"index": 0, "delta": {}, "finish_reason": "eos"}))
        (call,) = RecordReader()(line({"chunks": chunks}))
        ids = None if call.token_ids is None else np.frombuffer(call.token_ids, "<i4").tolist()
        return call.log_format, ids, len(call.token_logprobs or b"") // 4, call.notes

    assert read((5, -1.0), (6, 0.0)) == ("together_chat", [5, 6], 2, ())
    assert read((5, -1.0), (6, None)) == ("together_chat", [5, 6], 2, ("no_behavior_logprobs",))
    assert read((5, -1.0), (None, -1.0)) == ("together_chat", None, 2, ())


def test_bundles_and_empty_texts_lose_nothing():
    """Several tokens in one chunk, tokens without text, chunks without tokens."""
    chunks = [OPENING, chunk(G2[:2], L2[:2], ""), chunk(None, None, "Refunded."), chunk(G2[2:], L2[2:], finish="stop")]
    (call,) = RecordReader()(line(envelope([*chunks, usage(3)])))
    assert np.frombuffer(call.token_ids or b"", "<i4").tolist() == G2
    assert np.frombuffer(call.token_logprobs or b"", "<f4").tolist() == L2


def test_chunks_are_joined_in_the_order_of_the_log():
    """Nothing in them says another."""
    whole, _ = join(chunk([2], [-0.5], "b"), chunk([1], [-0.25], "a", finish="stop"))
    assert (whole.choices or [])[0].token_ids == [2, 1]


def test_an_error_in_the_middle_cuts_the_stream():
    """What came before it is exact as far as it goes."""
    error = {"error": {"message": "overloaded", "code": 503}}
    (call,) = RecordReader()(line(envelope([OPENING, chunk(G1[:2], [-0.5, -0.75]), error])))
    assert (call.finish_reason, call.notes, call.reply_text) == ("abort", ("stream_cut",), "")


def test_a_finish_in_an_earlier_chunk_counts():
    """Usage and an empty delta may follow."""
    whole, notes = join(chunk(G2, L2, "x", finish="length"), chunk(None, None), usage(3))
    assert ((whole.choices or [])[0].finish_reason, notes) == ("length", ())


def test_only_the_choice_that_was_cut_is_cut():
    """The other one is whole."""
    chunks = [chunk([1], [-0.5], "a", index=1, finish="stop"), chunk([2], [-0.5], "b")]
    first, second = RecordReader()(line(envelope(chunks)))
    assert (first.finish_reason, first.notes, second.finish_reason, second.notes) == (
        "abort", ("stream_cut",), "stop", (),
    )  # fmt: skip


def test_an_aborted_stream_without_a_token_has_no_tokens():
    """An empty list is known to be empty."""
    (call,) = RecordReader()(line(envelope([OPENING, chunk([], None, finish="abort")])))
    assert (call.token_ids, call.finish_reason) == (b"", "abort")


def test_ids_that_litellm_moved_are_joined():
    """They are deltas like vLLM's own."""
    chunks = [
        _piece({"index": 0, "delta": {"content": "a", "provider_specific_fields": {"token_ids": [one]}}})
        for one in (1, 2)
    ]
    chunks.append(_piece({"index": 0, "delta": {}, "finish_reason": "stop"}))
    (call,) = RecordReader()(line({"chunks": chunks}))
    assert np.frombuffer(call.token_ids or b"", "<i4").tolist() == [1, 2]


def test_the_time_to_join_grows_with_the_number_of_chunks():
    """Counted in steps of the interpreter, which no other load on the machine changes."""

    def steps(number: int) -> int:
        count = 0

        def tick(*_: object) -> None:
            nonlocal count
            count += 1

        chunks = [chunk([n], [-0.5], "ab") for n in range(number)]
        chunks[-1]["choices"][0]["finish_reason"] = "stop"
        decoded = msgspec.json.decode(json.dumps(chunks), type=list[Response])
        sys.setprofile(tick)
        try:
            whole, _ = streams.join(decoded)
        finally:
            sys.setprofile(None)
        assert (whole.choices or [])[0].token_ids == list(range(number))
        return count

    assert steps(2_000) < 2.2 * steps(1_000)
