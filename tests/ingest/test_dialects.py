"""Each server's answer is claimed by its own format, and read to the toy trace however it is wrapped."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.formats.detect import FORMATS, RecordReader, format_named
from ingest.formats.format import keys_of
from schemas.errors import LineError
from schemas.reasons import REASONS
from tests.ingest.openai_made import (
    G1,
    G2,
    L1,
    L2,
    P1,
    P2,
    arrays,
    chat,
    codes,
    completion,
    entries,
    ids,
    numbers,
    payload,
    read,
    read_one,
    wrappings,
)

NAMES = {
    "vllm_chat.response": "vllm_chat",
    "vllm_chat.stream_chunks": "vllm_chat",
    "sglang_chat.response": "sglang_chat",
    "fireworks_chat.response": "fireworks_chat",
    "together_chat.stream_chunks": "together_chat",
    "openai_chat.response": "openai_chat",
    "openai_completions.response": "openai_completions",
    "openai_responses.response": "openai_responses",
    "anthropic_messages.response": "anthropic_messages",
}
WHOLE = ("vllm_chat.stream_chunks", "sglang_chat.response", "fireworks_chat.response")
"""Payloads of the toy's second call with everything in them."""


@pytest.mark.parametrize(("name", "log_format"), NAMES.items())
def test_a_payload_is_claimed_by_its_own_format_alone(name, log_format):
    """Bare and wrapped; a bare list is a stream."""
    document = payload(name)
    for wrapped in wrappings(document):
        keys = keys_of(json.dumps({"chunks": wrapped} if isinstance(wrapped, list) else wrapped))
        assert [known.name for known in FORMATS if known.claims(keys)] == [log_format]
        assert read_one(wrapped).log_format == log_format


def test_the_first_call_of_the_toy_is_whole():
    """Ids, log-probabilities, prompt, version and finish, as the reference states them."""
    request = payload("vllm_chat.request")
    call = read_one({"request": request, "response": payload("vllm_chat.response")})
    assert (ids(call.prompt_token_ids), ids(call.token_ids), numbers(call.token_logprobs)) == (P1, G1, L1)
    assert (call.weight_spans, call.finish_reason, call.engine) == ((("7", 0, 4),), "tool_calls", "vllm")
    assert json.loads(call.messages_json or "") == request["messages"]
    assert call.sampling["top_k"] == -1
    assert codes(call) == {"logprob_kind_unknown", "sampling_params_unknown"}


@pytest.mark.parametrize("name", WHOLE)
def test_the_second_call_of_the_toy_is_whole(name):
    """Whichever server carries it, and however it is wrapped."""
    for wrapped in wrappings(payload(name)):
        call = read_one(wrapped)
        assert (ids(call.prompt_token_ids), ids(call.token_ids), numbers(call.token_logprobs)) == (P2, G2, L2)
        assert (call.finish_reason, call.reply_text, call.num_completion_tokens) == ("stop", "Refunded.", 3)
        assert call.weight_spans == (() if name.startswith("fireworks") else (("7", 0, 3),))


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("openai_chat.response", {"no_token_ids", "no_prompt_ids"}),
        ("openai_completions.response", {"no_token_ids", "no_prompt_ids"}),
        ("openai_responses.response", {"no_token_ids", "no_prompt_ids"}),
        ("together_chat.stream_chunks", {"no_prompt_ids"}),
        ("anthropic_messages.response", {"no_token_ids", "no_prompt_ids", "no_behavior_logprobs", "provider_no_logprobs"}),
    ],
)  # fmt: skip
def test_what_a_format_cannot_carry_is_named(name, missing):
    """And nothing is named that it does carry."""
    structural = {"no_token_ids", "no_prompt_ids", "no_behavior_logprobs", "provider_no_logprobs", "len_mismatch"}
    assert codes(read_one(payload(name))) & structural == missing


MARKS = {
    "vllm_chat": [
        chat(stop_reason=None), chat(token_ids=[1]), chat(head={"prompt_logprobs": None}),
        chat(head={"prompt_token_ids": [1]}), chat(head={"system_fingerprint": "vllm-0.33.0-tp1"}),
        chat(logprobs={"content": entries([-1.0], ["token_id:5"])}),
        chat(provider_specific_fields={"token_ids": [5]}), chat(message={"provider_specific_fields": {"token_ids": [5]}}),
        chat(stop_reason=None, message={"reasoning_content": "older vLLM"}),
    ],
    "sglang_chat": [
        chat(matched_stop=None), chat(response_token_ids=[1]), chat(meta_info={"id": "x"}),
        chat(head={"sglext": {"output_ids": [1]}}), chat(head={"metadata": {"weight_version": "3"}}),
        chat(message={"reasoning_content": None}),
    ],
    "fireworks_chat": [
        chat(head={"model": "accounts/a/models/b"}), chat(raw_output={"completion": "x"}, token_ids=[1]),
        chat(logprobs={"content": entries([-1.0], ["a"], sampling_logprob=[-1.0])}, token_ids=[1]),
    ],
    "together_chat": [
        chat(head={"prompt": []}), chat(finish_reason="eos"), chat(logprobs=arrays([-1.0], ["a"], token_ids=[5.0])),
    ],
    "trtllm_chat": [
        chat(avg_decoded_tokens_per_iter=1.5, stop_reason=None, token_ids=[1]),
        chat(head={"prompt_token_ids_b64": "AQAAAA=="}, stop_reason=None),
    ],
    "openai_chat": [
        chat(), chat(head={"system_fingerprint": "fp_1"}, message={"reasoning_content": "DeepSeek"}),
        chat(head={"metadata": {"team": "a"}, "service_tier": "default"}),
    ],
    "vllm_completions": [
        completion(stop_reason=None), completion(prompt_logprobs=None),
        completion(logprobs=arrays([-1.0], ["token_id:5"])),
    ],
    "trtllm_completions": [completion(avg_decoded_tokens_per_iter=None, stop_reason=None)],
    "openai_completions": [completion(), completion(matched_stop=None), completion(head={"model": "accounts/a/b"})],
}  # fmt: skip


@pytest.mark.parametrize(("log_format", "documents"), MARKS.items())
def test_each_mark_tells_its_server(log_format, documents):
    """One mark is enough; marks that servers copy from each other do not mislead."""
    for document in documents:
        assert {call.log_format for wrapped in wrappings(document) for call in read(wrapped)} == {log_format}


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from([one for documents in MARKS.values() for one in documents]), max_size=8))
def test_any_mixture_of_servers_in_one_file_is_told_apart_line_by_line(documents):
    """The line before says what is tried first, never what is read."""
    reader = RecordReader()
    found = [reader(json.dumps(document).encode())[0].log_format for document in documents]
    assert found == [read(document)[0].log_format for document in documents]


@pytest.mark.parametrize("name", NAMES)
def test_a_stated_format_reads_its_own_and_refuses_the_others(name):
    """`--format` never reads one server's answer as another's."""
    reader = RecordReader(format_named(NAMES[name]))
    assert reader(json.dumps({"request": {}, **_named(payload(name))}).encode())[0].log_format == NAMES[name]
    other = payload("anthropic_messages.response" if name.startswith("openai") else "openai_chat.response")
    with pytest.raises(LineError) as refused:
        reader(json.dumps(other).encode())
    assert refused.value.reason == "schema_unknown"


def _named(document):
    return {"chunks" if isinstance(document, list) else "response": document}


@pytest.mark.parametrize("choices", [[], None])
def test_a_response_without_a_choice_is_refused_whatever_stood_before(choices):
    """An error of a server is no call."""
    reader = RecordReader()
    reader(json.dumps(payload("vllm_chat.response")).encode())
    with pytest.raises(LineError) as refused:
        reader(json.dumps({"request": {}, "response": {**chat(), "choices": choices}}).encode())
    assert refused.value.reason == "no_choices"


def test_a_list_of_whole_responses_is_no_stream():
    """Some write a file of one list."""
    calls = read([payload("openai_chat.response"), chat(stop_reason=None), completion()])
    assert [call.log_format for call in calls] == ["openai_chat", "vllm_chat", "openai_completions"]
    assert not any(call.streamed for call in calls)


ODD = [None, 0, -1, 1.5, 2**40, 1e300, "", "é", "token_id:5", True, [], [None], [[1], 2], {}, {"a": 1}]


def places(document, found=()):
    """Every place in a document, as the keys that lead to it."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        yield (*found, key)
        yield from places(value, (*found, key))


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_any_odd_value_anywhere_ends_as_a_call_or_as_a_named_reject(data):
    """Nothing crashes on a line, for anybody may have written it."""
    document = json.loads(json.dumps(data.draw(st.sampled_from([payload(name) for name in NAMES]))))
    *outer, last = data.draw(st.sampled_from(list(places(document))))
    holder = document
    for key in outer:
        holder = holder[key]
    holder[last] = data.draw(st.sampled_from(ODD))
    for wrapped in wrappings(document):
        try:
            assert all(codes(call) <= REASONS.keys() for call in read(wrapped))
        except LineError as refused:
            assert refused.reason in REASONS  # noqa: PT017 - a refusal is one of the two good ends
