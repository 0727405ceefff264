"""tracemill's own lines: one call a line, by the names of the columns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.faults import trace_faults
from tests.ingest.hand_made import G2, P2, START
from tests.ingest.native_made import LOGPROBS, calls, faults, ids, is_the_toy, numbers, refusal


def own(**changes):
    """The toy's second call in the plainest form; a change to None takes the field away."""
    document = {
        "trace_id": "trace-a",
        "call_index": 1,
        "model": "toy@v7",
        "policy_version": "v7",
        "started_at": START.isoformat(),
        "prompt_token_ids": P2,
        "token_ids": G2,
        "token_logprobs": LOGPROBS,
        "logprob_kind": "processed",
        "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
        "finish_reason": "stop",
        "messages": [{"role": "user", "content": "refund 41?"}],
        "reply_text": "Refunded.",
        **changes,
    }
    return {name: value for name, value in document.items() if value is not None}


def test_a_line_is_the_toys_second_call():
    """Every column has its own name."""
    (call,) = calls(own())
    assert is_the_toy(call)
    assert (call.log_format, call.trace_id, call.call_index, call.started_at) == ("tracemill", "trace-a", 1, START)
    assert (call.weight_spans, call.logprob_kind, call.finish_reason) == ((("v7", 0, 3),), "processed", "stop")
    assert call.messages_json == '[{"role": "user", "content": "refund 41?"}]'
    assert call.sampling["repetition_penalty"] == 1.0
    assert call.notes == ()


def test_nothing_is_wrong_with_it():
    """The line says by itself what other logs leave to the settings."""
    (call,) = calls(own())
    assert trace_faults(faults(call)) == set()


def test_sampling_parameters_may_stand_by_themselves():
    """As the columns do; those of `sampling` win."""
    assert calls(own(sampling=None, temperature=0.5, top_p=0.9))[0].sampling == {"temperature": 0.5, "top_p": 0.9}
    assert calls(own(sampling={"temperature": 1.0}, temperature=0.5))[0].sampling == {"temperature": 1.0}


def test_spans_win_over_the_version():
    """They say which token is whose."""
    spans = [{"policy_version": "v7", "start": 0, "end": 1}, {"policy_version": 8, "start": 1, "end": 3}]
    assert calls(own(version_spans=spans))[0].weight_spans == (("v7", 0, 1), ("8", 1, 3))
    assert calls(own(policy_version=None))[0].weight_spans == ()


def test_a_masked_token_needs_no_number():
    """Any other token does."""
    (masked,) = calls(own(masked_positions=[1], token_logprobs=[-0.3, None, -0.01]))
    (missing,) = calls(own(token_logprobs=[-0.3, None, -0.01]))
    assert (masked.masked_positions, masked.notes) == ((1,), ())
    assert np.isnan(np.frombuffer(masked.token_logprobs or b"", "<f4")[1])
    assert missing.notes == ("no_behavior_logprobs",)


@pytest.mark.parametrize(
    ("name", "misspelt"),
    [("token_logprobs", "token_logprob"), ("token_ids", "tokens_ids"), ("trace_id", "traceid"), ("model", "modell")],
)
def test_a_misspelt_field_is_named(name, misspelt):
    """Else it would only show as something missing."""
    document = own()
    document[misspelt] = document.pop(name)
    assert refusal(document, only="tracemill") == "bad_field"


def test_other_fields_are_ignored():
    """A logger may keep its own."""
    assert is_the_toy(calls(own(host="gpu-1", latency_ms=3.5))[0])


def test_a_line_without_tokens_is_text():
    """It lacks what training needs, and says so."""
    (call,) = calls(own(token_ids=None, token_logprobs=None, prompt_token_ids=None))
    assert {"no_token_ids", "no_prompt_ids", "no_behavior_logprobs"} <= set(faults(call))


@pytest.mark.parametrize(
    "changes",
    [
        {"model": None},
        {"token_ids": ["401", "402", "13"]},
        {"token_ids": [401.5, 402, 13]},
        {"token_ids": [-1, 402, 13]},
        {"token_logprobs": ["-0.3", -0.2, -0.01]},
        {"logprob_kind": "raw_logprobs"},
        {"masked_positions": [3]},
        {"version_spans": [{"policy_version": "v7", "start": 0, "end": 4}]},
        {"sampling": {"temperature": "1"}},
        {"trace_id": "a\x00"},
        {"model": "a\x00"},
        {"call_index": 2**31},
    ],
    ids=str,
)
def test_a_line_that_no_table_can_hold_is_refused(changes):
    """Nothing is guessed and nothing is coerced."""
    assert refusal(own(**changes)) == "bad_field"


def test_a_time_without_a_zone_is_refused():
    """Nobody knows whose local time it is."""
    assert refusal(own(started_at="2026-11-22T08:00:00")) == "bad_time"


@given(
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.floats(max_value=0.0, width=32, allow_infinity=False))),
    st.lists(st.integers(0, 2**31 - 1)),
)
def test_any_tokens_come_back_bit_for_bit(tokens, prompt):
    """What was logged is what is kept."""
    (call,) = calls(
        own(token_ids=[one for one, _ in tokens], token_logprobs=[v for _, v in tokens], prompt_token_ids=prompt)
    )
    assert ids(call.token_ids) == [one for one, _ in tokens]
    assert ids(call.prompt_token_ids) == prompt
    kept = np.frombuffer(call.token_logprobs or b"", "<f4").tolist()
    assert kept == [value for _, value in tokens]
    assert [math.copysign(1, a) for a in kept] == [math.copysign(1, value) for _, value in tokens]


def test_numbers_keep_their_precision():
    """float32, as every log is kept."""
    assert numbers(calls(own())[0].token_logprobs) == LOGPROBS


def test_what_is_no_sampling_parameter_is_left_out_of_them():
    """A whole request may be written as `sampling`; its prompt, session and user stand elsewhere."""
    request = {"temperature": 1, "prompt": "hello", "messages": [{"role": "user"}], "session_id": "s-1", "user": "u"}
    (call,) = calls(own(sampling={**request, "model": "toy", "conversation_params": {"conversation_id": "c"}}))
    assert call.sampling == {"temperature": 1.0}


def test_version_spans_that_leave_a_token_out_are_a_fault():
    """Nothing says who sampled it."""
    (call,) = calls(own(version_spans=[{"policy_version": "v7", "start": 0, "end": 1}]))
    assert "version_spans_incomplete" in faults(call)
