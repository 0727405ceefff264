"""When two lines are the same call."""

from __future__ import annotations

import json

import pytest

from ingest.call import Call, WeightSpan, identity, refuse_wide
from ingest.formats.detect import RecordReader
from schemas.errors import LineError
from tests.ingest.hand_made import G1, L1, P1, envelope, first_call, line, response


def id_of(text: bytes) -> str:
    """The identity of the one call of a line."""
    (call,) = RecordReader()(text)
    return identity(call)


SAME = id_of(first_call())


@pytest.mark.parametrize(
    "text",
    [
        first_call(ts="2026-11-22T08:00:00.250Z"),
        first_call(call_index=None),
        first_call(user="somebody else"),
        first_call().replace(b'"top_p":1.0', b'"top_p":1'),
        json.dumps(json.loads(first_call()), sort_keys=True, indent=1).replace("\n", " ").encode(),
        first_call().replace(b"-0.0625", b"-6.25e-2"),
    ],
)
def test_a_second_delivery_is_the_same_call(text):
    """Whatever time, order of keys, spacing or spelling of numbers the gateway wrote."""
    assert id_of(text) == SAME


@pytest.mark.parametrize(
    "text",
    [
        first_call(user=None),
        first_call(session_id=None),
        first_call(ask_id=None),
        first_call(request={"top_p": 0.9}),
        first_call(request={"messages": []}),
        line(envelope(response(P1, G1, L1, text="other"))),
    ],
)
def test_a_delivery_that_says_more_or_less_around_the_response_is_a_copy_of_its_own(text):
    """So that no order of delivery decides what is kept; the first part of the id says that it is the same call."""
    assert id_of(text) != SAME
    assert id_of(text).partition(".")[0] == SAME.partition(".")[0]


def test_what_only_its_id_could_tell_to_be_one_call_has_no_second_part():
    """Neither a response id nor tokens: its copies could not be put together."""
    nameless = {**response(None, None, None), "id": None}
    assert "." not in id_of(line(envelope(nameless)))
    assert id_of(line(envelope(nameless))) == id_of(line(envelope(nameless, request={"top_p": 0.9})))
    assert "." in id_of(line(envelope({**response(P1, G1, L1), "id": None})))


def test_a_streamed_copy_is_the_same_call():
    """A gateway that logs both forms of one response logs one call."""
    delta = {"content": "done"}
    content = {"content": [{"token": "x", "logprob": v} for v in L1]}
    chunks = [
        {
            "id": "chatcmpl-1",
            "model": "toy@v7",
            "prompt_token_ids": P1,
            "choices": [{"delta": delta, "logprobs": content, "token_ids": G1, "finish_reason": "stop"}],
        }
    ]
    assert id_of(line(envelope(chunks))) == SAME


@pytest.mark.parametrize(
    "document",
    [
        envelope(response(P1, G1, L1), trace_id="trace-b"),
        envelope({**response(P1, G1, L1), "id": "chatcmpl-9"}),
        envelope(response(P1, G1[::-1], L1)),
        envelope(response(P1[:-1], G1, L1)),
        envelope(response(P1, G1, [*L1[:3], -0.5])),
        envelope(response(P1, G1, None)),
        envelope(response(P1, G1, L1, index=1)),
    ],
)
def test_another_trace_response_choice_or_token_is_another_call(document):
    """Two calls never merge."""
    assert id_of(line(document)) != SAME


def test_text_stands_in_for_tokens_and_the_request_for_the_response_id():
    """Where less is logged, more of it counts."""
    nameless = {**response(None, None, None, text="yes"), "id": None}
    once = id_of(line(envelope(nameless)))
    assert once == id_of(line(envelope(nameless, ts="2026-11-22T09:00:00Z")))
    assert once != id_of(line(envelope({**nameless, "created": 1_795_420_801})))
    assert once != id_of(line(envelope(nameless, request={"messages": [{"role": "user", "content": "refund 42?"}]})))
    other = {**response(None, None, None, text="no"), "id": None}
    assert once != id_of(line(envelope(other)))


@pytest.mark.parametrize("changes", [{"num_prompt_tokens": 2**70}, {"call_index": -(2**31)}, {"num_choices": 2**31}])
def test_a_count_that_no_column_holds_is_refused(changes):
    """Exports state counts in any width; a call with an impossible one is a reject, not a crash at writing."""
    with pytest.raises(LineError, match="32 bits"):
        refuse_wide(Call(model="toy", log_format="test", **changes))


def test_weights_of_positions_that_no_column_holds_are_refused():
    """Spans of weights are positions too."""
    with pytest.raises(LineError, match="positions"):
        refuse_wide(Call(model="toy", log_format="test", weight_spans=(WeightSpan("7", 0, 2**31),)))
