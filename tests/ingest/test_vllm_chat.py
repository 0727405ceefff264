"""What is read of an envelope around a vLLM chat response."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from ingest.call import Call
from ingest.faults import judge
from ingest.formats.detect import RecordReader
from ingest.meaning import Deployment, Interpreter
from schemas.errors import LineError
from tests.ingest.hand_made import G1, L1, P1, START, entries, envelope, first_call, line, response


def read(document: dict) -> tuple[Call, ...]:
    """The calls of one document."""
    return RecordReader()(line(document))


def ids(packed: bytes | None) -> list[int]:
    """Unpacked token ids."""
    return np.frombuffer(packed or b"", "<i4").tolist()


def numbers(packed: bytes | None) -> list[float]:
    """Unpacked log-probabilities."""
    return np.frombuffer(packed or b"", "<f4").tolist()


def test_a_whole_response_becomes_one_call():
    """Ids, log-probabilities, sampling and provenance are those of the line."""
    (call,) = RecordReader()(first_call())
    assert (ids(call.prompt_token_ids), ids(call.token_ids), numbers(call.token_logprobs)) == (P1, G1, L1)
    assert (call.trace_id, call.call_index, call.response_id, call.model) == ("trace-a", 0, "chatcmpl-1", "toy@v7")
    assert call.sampling == {"temperature": 1.0, "top_p": 1.0, "top_k": -1}
    assert (call.engine, call.engine_version, call.finish_reason) == ("vllm", "vllm-0.32.0-abc", "stop")
    assert call.started_at == START
    assert json.loads(call.messages_json or "")[1]["content"] == "refund 41?"
    assert call.notes == ()


def test_token_id_strings_give_the_sampled_ids():
    """Where the list of ids is missing the strings stand in, and say so."""
    answer = response(None, None, L1)
    answer["choices"][0]["logprobs"]["content"] = entries(L1, [f"token_id:{i}" for i in G1])
    (call,) = read(envelope(answer))
    assert ids(call.token_ids) == G1
    assert call.prompt_token_ids is None
    assert call.notes == ("token_text_ids",)


@pytest.mark.parametrize("spelled", ["token_id:202x", "lookup", "token_id:99999999999", "token_id:٢"])
def test_one_string_that_is_no_id_takes_all_ids_away(spelled):
    """A text cannot be turned back into a token."""
    answer = response(None, None, L1)
    answer["choices"][0]["logprobs"]["content"] = entries(L1, ["token_id:201", spelled, "token_id:203", "token_id:13"])
    (call,) = read(envelope(answer))
    assert call.token_ids is None


def test_ids_that_are_spelled_otherwise_are_noted():
    """A list shifted by one has the right length and the wrong tokens."""
    answer = response(P1, G1, L1)
    answer["choices"][0]["logprobs"]["content"] = entries(L1, [f"token_id:{i}" for i in [*G1[1:], 7]])
    (call,) = read(envelope(answer))
    assert ids(call.token_ids) == G1
    assert call.notes == ("ids_disagree",)


def test_top_tokens_are_kept_by_id_and_not_by_text():
    """A text is not one token's alone."""
    top = [{"token": "token_id:201", "logprob": -0.5}, {"token": "token_id:9", "logprob": -1.5}]
    answer = response(P1, G1[:1], L1[:1])
    answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = top
    (call,) = read(envelope(answer))
    assert (call.top_token_ids, call.top_token_logprobs) == ([[201, 9]], [[-0.5, -1.5]])
    top[1] = {"token": "nine", "logprob": -1.5}
    (call,) = read(envelope(answer))
    assert (call.top_token_ids, call.notes) == (None, ("top_tokens_without_ids",))


def test_a_response_without_logprobs_is_still_a_call():
    """Missing stays missing, never an empty list."""
    (call,) = read(envelope(response(None, None, None)))
    assert (call.prompt_token_ids, call.token_ids, call.token_logprobs) == (None, None, None)
    assert call.reply_text == "done"


def test_each_choice_is_a_call():
    """The server's count of tokens is of all choices together, so it is nobody's."""
    answer = response(P1, G1, L1)
    answer["choices"].append({**answer["choices"][0], "index": 1, "token_ids": G1[::-1]})
    answer["usage"]["completion_tokens"] = 8
    first, second = read(envelope(answer))
    assert (first.choice_index, second.choice_index, first.num_choices) == (0, 1, 2)
    assert first.num_completion_tokens is None


def test_a_null_logprob_is_missing_and_keeps_its_place():
    """The numbers after it do not shift."""
    (call,) = read(envelope(response(P1, G1, [-0.5, None, -0.0625, -0.03125])))
    values = numbers(call.token_logprobs)
    assert values[0] == -0.5
    assert np.isnan(values[1])
    assert values[2:] == [-0.0625, -0.03125]
    assert call.notes == ("no_behavior_logprobs",)


def test_weight_versions_are_read():
    """The spans of the weights are kept as the server states them."""
    spans = [{"version": "7", "start": 0, "end": 2}, {"version": "8", "start": 2, "end": 4}]
    (one,) = read(envelope(response(P1, G1, L1, weight_versions=spans[:1])))
    (two,) = read(envelope(response(P1, G1, L1, weight_versions=spans)))
    assert one.weight_spans == (("7", 0, 2),)
    assert two.weight_spans == (("7", 0, 2), ("8", 2, 4))


def test_tool_calls_are_part_of_the_reply():
    """A reply that is only a tool call has a text for people."""
    calls = [{"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"order":41}'}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    (call,) = read(envelope(response(P1, G1, L1, message=message)))
    assert json.loads(call.reply_text or "") == calls


def test_the_time_of_the_response_stands_in_for_a_missing_one():
    """Epoch seconds of the server."""
    (call,) = read(envelope(response(P1, G1, L1), ts=None))
    assert call.started_at == START + timedelta(seconds=1_795_420_800 - START.timestamp())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"trace_id": 1.5}, "bad_field"),
        ({"ts": "2026-11-22T08:00:00"}, "bad_time"),
        ({"ts": "soon"}, "bad_time"),
        ({"call_index": "first"}, "bad_field"),
        ({"response": None}, "no_choices"),
        ({"response": {"error": "overloaded"}}, "no_choices"),
        ({"response": {**response(P1, G1, L1), "choices": []}}, "no_choices"),
        ({"response": response([1.5], G1, L1)}, "bad_field"),
        ({"response": response(P1, [-1], L1[:1])}, "bad_field"),
        ({"response": response(P1, [3_000_000_000], L1[:1])}, "bad_field"),
        ({"response": response(P1, ["13"], L1[:1])}, "bad_field"),
        ({"response": response(P1, G1, ["-0.5"] * 4)}, "bad_field"),
        ({"request": {"model": None}, "response": {**response(P1, G1, L1), "model": None}}, "bad_field"),
    ],
)
def test_a_line_that_is_no_call_names_its_reason(change, reason):
    """Nothing is guessed and nothing is coerced."""
    with pytest.raises(LineError) as caught:
        read({**envelope(response(P1, G1, L1)), **change})
    assert caught.value.reason == reason


def test_the_example_of_the_documentation_is_a_whole_call():
    """docs/formats.md shows a line that can be trained on."""
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text("utf-8")
    block = page.split("```json\n")[1].split("```")[0]
    (call,) = RecordReader()(block.replace("\n", " ").encode())
    deployment = Deployment(logprobs_mode="processed_logprobs", generation_config="vllm", version_pattern="@(v[0-9]+)$")
    assert judge(call, Interpreter({"refund-desk-cpu": deployment})(call)) == ()


@pytest.mark.parametrize(
    "document",
    [
        envelope(response(P1, G1, L1), trace_id="a\x00b"),
        envelope(response(P1, G1, L1), workload="\x00"),
        envelope({**response(P1, G1, L1), "id": "x\x00"}),
        envelope(response(P1, G1, L1), call_index=2**31),
        envelope({**response(P1, G1, L1), "usage": {"prompt_tokens": 2**40, "completion_tokens": 4}}),
    ],
    ids=["trace_id", "workload", "response id", "call_index", "usage"],
)
def test_a_name_or_count_that_no_table_can_hold_is_refused(document):
    """One such line must not stop every night after it."""
    with pytest.raises(LineError) as refused:
        read(document)
    assert refused.value.reason == "bad_field"


def test_a_number_of_thousands_of_digits_in_the_messages_is_only_text():
    """Python refuses to read it again; the tokens are whole all the same."""
    text = first_call().replace(b'"role":"user"', b'"role":"user","n":' + b"9" * 5000)
    assert b"99999" in text
    assert len(RecordReader()(text)) == 1
