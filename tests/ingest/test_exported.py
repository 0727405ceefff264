"""Parameters and answers in the records of gateways and tracing systems."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.formats import otlp
from ingest.formats.chat import Request
from ingest.formats.exported import Exported, Reply, answer_in, calls_of, sampling_of
from schemas.errors import LineError
from tests.ingest import tracing_made
from tests.ingest.tracing_made import TRACE, is_toy, payload

ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers(), max_size=2)
NAMES = st.sampled_from(["temperature", "top_p", "top_k", "n", "seed", "stop", "logprobs", "model", "user", "api_key"])


@given(st.dictionaries(NAMES, ANY))
def test_any_parameters_that_are_kept_are_of_their_type(parameters: dict[str, Any]):
    """What is kept is as it was, can be decoded strictly, and is a sampling parameter."""
    kept, _ = sampling_of(parameters)
    assert all(kept[name] == parameters[name] for name in kept)
    assert not {"model", "user", "api_key"} & kept.keys()
    msgspec.json.decode(msgspec.json.encode(kept), type=Request)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", True, [1]])
def test_a_temperature_that_is_no_number_is_unknown_and_noted(value: Any):
    """Neither a text, a truth, a list nor what is not finite."""
    assert sampling_of({"temperature": value, "top_p": 1.0}) == ({"top_p": 1.0}, ("parameter_unreadable",))


@pytest.mark.parametrize("value", [None, "", "None", "null"])
def test_a_parameter_that_was_not_set_is_left_out_without_a_note(value: Any):
    """Exporters spell what was not set in many ways."""
    assert sampling_of({"temperature": value}) == ({}, ())


@pytest.mark.parametrize(
    "value", ["text", {"role": "assistant", "content": "a"}, {"id": "stub"}, [{"text": "a"}], [], 7]
)
def test_what_is_no_answer_of_a_server_is_not_tried_as_one(value: Any):
    """Messages, texts and stubs are read for what they are."""
    assert answer_in(value) is None


def told(**changes: Any) -> Exported:
    """A record with the toy's whole answer."""
    answer = json.dumps(payload("vllm_chat.response")).encode()
    start = datetime(2026, 9, 21, tzinfo=UTC)
    return Exported(log_format="otlp", **{"trace_id": TRACE, "started_at": start, "answer": answer, **changes})


def test_an_answer_gives_the_tokens_and_the_record_the_rest():
    """Trace, time, session and parameters are the record's; a parameter of the answer's request is none."""
    (call,) = calls_of(told(session_id="s", sampling={"temperature": 0.5}, notes=("cache_hit",)))
    assert is_toy(call)
    assert (call.trace_id, call.session_id, call.sampling) == (TRACE, "s", {"temperature": 0.5})
    assert (call.log_format, call.started_at) == ("otlp", datetime(2026, 9, 21, tzinfo=UTC))
    assert "cache_hit" in call.notes


def test_an_answer_of_no_known_server_leaves_the_text():
    """It is not an error: an application may log what it likes."""
    (call,) = calls_of(told(answer=b'{"answer": 4, "reason": "x"}', replies=(Reply("four"),), model="toy"))
    assert (call.reply_text, call.token_ids, call.notes) == ("four", None, ())


@given(st.dictionaries(st.sampled_from(sorted(tracing_made.CHAT)), st.text() | st.integers(0, 9) | st.booleans()))
def test_any_attributes_are_a_call_or_nothing_or_a_reject(changes: dict[str, Any]):
    """Whatever stands under the names of the conventions, nothing crashes."""
    line = json.dumps(tracing_made.otlp(tracing_made.span({**tracing_made.CHAT, **changes}))).encode()
    try:
        records = otlp.format_of().read(line)
    except LineError:
        return
    assert records is not None


def test_a_session_is_no_sampling_parameter():
    """Nor is anything else of a request that the chat format keeps elsewhere."""
    assert sampling_of({"session_id": "s-1", "prompt": "x", "conversation_params": {}, "top_p": 0.5}) == (
        {"top_p": 0.5},
        (),
    )
