"""Agent Lightning's events: model requests, rewards, and what is neither."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from ingest.call import Call
from ingest.outcome import Outcome
from tests.ingest.hand_made import G1, G2, P1, P2
from tests.ingest.native_made import LOGPROBS, RECORDED, calls, ids, is_the_toy, numbers, payload, records, refusal

EVENTS = payload("agl1.events.json")


def event(**data):
    """The example's model request, with other data."""
    return {**EVENTS[0], "data": {**EVENTS[0]["data"], **data}}


def test_the_example_is_the_toys_second_call_and_its_score():
    """An attempt is a trace; the event is written when the answer is there."""
    call, score = records(EVENTS)
    assert isinstance(call, Call)
    assert is_the_toy(call)
    assert (call.trace_id, call.ask_id, call.log_format) == ("ro-41/at-1", "ro-41", "agent_lightning_event")
    assert (call.model, call.weight_spans, call.num_completion_tokens) == ("toy", (("7", 0, 3),), 3)
    assert call.ended_at == datetime(2026, 9, 21, 14, 13, 20, 420_000, tzinfo=UTC)
    assert call.started_at == datetime(2026, 9, 21, 14, 13, 20, 100_000, tzinfo=UTC)
    assert isinstance(score, Outcome)
    assert (score.trace_id, score.name, score.value, score.source, score.label) == (
        "ro-41/at-1",
        "reward",
        1.0,
        "desk",
        "ticket closed",
    )


def test_the_events_of_its_own_server_are_read():
    """Two calls, a request that the model server refused, a reward, and one that the system filled in."""
    lines = (RECORDED / "agent_lightning.events.jsonl").read_text("utf-8").splitlines()
    first, second, failed, reward, filled_in = map(json.loads, lines)
    (one,), (two,) = calls(first), calls(second)
    assert (ids(one.prompt_token_ids), ids(one.token_ids), one.response_id) == (P1, G1, "chatcmpl-0")
    assert is_the_toy(two)
    assert two.weight_spans == (("7", 0, 3),)
    assert two.sampling["temperature"] == 1.0
    assert refusal(failed) == "no_choices"
    assert [record.value for record in records(reward)] == [1.0]
    assert records(filled_in) == ()


@pytest.mark.parametrize(
    "data", [{}, {"value": None}, {"source": "desk"}, {"value": 0.0, "source": "fallback"}], ids=str
)
def test_a_reward_that_nobody_gave_is_no_score(data):
    """Missing is not 0, and neither is a value that the system filled in."""
    assert records({**EVENTS[1], "data": data}) == ()


@pytest.mark.parametrize("value", ["good", [1.0], {"a": 1}], ids=str)
def test_a_reward_that_is_no_number_is_refused(value):
    """Nothing is made of a word."""
    assert refusal({**EVENTS[1], "data": {"value": value}}) == "bad_value"


def test_an_event_of_another_kind_is_blank():
    """Users log what they like."""
    assert records({**EVENTS[1], "event_type": "note", "data": {"text": "hello"}}) == ()


@pytest.mark.parametrize(
    "data",
    [{"status": "failed"}, {"http_status": 503}, {"response": {"error": "overloaded"}}, {"response": None}],
    ids=str,
)
def test_a_request_that_failed_is_refused_with_its_reason(data):
    """No tokens were sampled, or none were logged."""
    assert refusal(event(**data)) == "no_choices"


def test_a_trimmed_event_has_the_ids_themselves():
    """As its server gives them for training."""
    data = {"prompt_token_ids": P2, "response_token_ids": G2, "response_log_probs": LOGPROBS}
    (call,) = calls({**EVENTS[0], "data": {**data, "server": {"model": "toy", "version": 0}}})
    assert is_the_toy(call)
    assert (call.model, call.weight_spans) == ("toy", (("0", 0, 3),))


def test_a_list_of_numbers_that_is_missing_stays_missing():
    """The triplet has null there when one number was none."""
    data = {"prompt_token_ids": P2, "response_token_ids": G2, "response_log_probs": None}
    (call,) = calls({**EVENTS[0], "data": data})
    assert numbers(call.token_logprobs) is None


def test_spans_of_the_answer_win_over_the_event():
    """They say which token is whose."""
    document = json.loads(json.dumps(event()))
    spans = [{"version": "7", "start": 0, "end": 1}, {"version": "8", "start": 1, "end": 3}]
    document["data"]["response"]["choices"][0]["weight_versions"] = spans
    (call,) = calls(document)
    assert call.weight_spans == (("7", 0, 1), ("8", 1, 3))
