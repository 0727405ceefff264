"""Agent Lightning's spans before version 1: ids among the attributes, rewards by name."""

from __future__ import annotations

import json

import pytest

from ingest.outcome import Outcome
from tests.ingest.hand_made import G1, G2, P1, P2
from tests.ingest.native_made import LOGPROBS, RECORDED, calls, ids, is_the_toy, records, refusal, sampled

CONTENT = json.dumps([{"token": f"t{i}", "logprob": value, "top_logprobs": []} for i, value in enumerate(LOGPROBS)])


def span(name="openai.chat.completion", **attributes):
    """One span with these attributes, whose dots are spelled with two underscores."""
    return {
        "rollout_id": "ro-41",
        "attempt_id": "at-1",
        "sequence_id": 4,
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "span_id": "b7ad6b7169203331",
        "parent_id": None,
        "name": name,
        "status": {"status_code": "OK", "description": None},
        "attributes": {key.replace("__", "."): value for key, value in attributes.items()},
        "events": [],
        "links": [],
        "start_time": 1_790_000_000.25,
        "end_time": 1_790_000_001.5,
        "context": None,
        "parent": None,
        "resource": {"attributes": {}, "schema_url": ""},
    }


FULL = {
    "prompt_token_ids": P2,
    "response_token_ids": G2,
    "logprobs__content": CONTENT,
    "gen_ai__response__id": "chatcmpl-1",
    "gen_ai__response__model": "toy@v7",
    "gen_ai__request__temperature": 1.0,
    "gen_ai__prompt__0__role": "user",
    "gen_ai__prompt__0__content": "refund 41?",
    "gen_ai__completion__0__content": "Refunded.",
    "gen_ai__completion__0__finish_reason": "stop",
}


def test_a_span_with_ids_is_the_toys_second_call():
    """Ordered by its sequence id, not by its time."""
    (call,) = calls(span(**FULL))
    assert is_the_toy(call)
    assert (call.trace_id, call.call_index, call.span_id) == ("ro-41/at-1", 4, "b7ad6b7169203331")
    assert (call.response_id, call.model, call.sampling) == ("chatcmpl-1", "toy@v7", {"temperature": 1.0})
    assert (call.reply_text, call.finish_reason, call.log_format) == ("Refunded.", "stop", "agent_lightning_span")
    assert json.loads(call.messages_json or "") == [{"role": "user", "content": "refund 41?"}]


@pytest.mark.parametrize(
    "attributes",
    [
        {"llm__hosted_vllm__prompt_token_ids": str(P2), "llm__hosted_vllm__response_token_ids": str([G2])},
        {
            "llm__hosted_vllm__prompt_token_ids": str(P2),
            "llm__hosted_vllm__choices": str([{"finish_reason": "stop", "token_ids": G2, "text": "it's"}]),
        },
        {
            "agentlightning__operation__output__prompt_token_ids": P2,
            "agentlightning__operation__output__choices__0__provider_specific_fields__token_ids": G2,
        },
    ],
    ids=["lists in texts", "choices as Python writes them", "operation"],
)
def test_ids_stand_under_several_names(attributes):
    """Proxies and tracers each have their own."""
    (call,) = calls(span("raw_gen_ai_request", **attributes))
    assert (ids(call.prompt_token_ids), ids(call.token_ids), call.token_logprobs) == (P2, G2, None)


def test_several_lists_are_several_choices():
    """The first is read, and the trace says that it was chosen."""
    (call,) = calls(span("raw_gen_ai_request", llm__hosted_vllm__response_token_ids=str([G2, [9]])))
    assert (ids(call.token_ids), call.num_choices) == (G2, 2)


def test_a_span_that_is_neither_call_nor_reward_is_blank():
    """An agent's own spans surround its calls."""
    assert records(span("agent.run", agent__name="refund")) == ()


def test_a_chat_completion_without_ids_is_a_call_that_lacks_them():
    """It was a call all the same."""
    (call,) = calls(span(gen_ai__response__id="chatcmpl-1", gen_ai__request__model="toy"))
    assert (call.model, call.token_ids, call.prompt_token_ids) == ("toy", None, None)


@pytest.mark.parametrize(
    ("name", "attributes", "scores"),
    [
        (
            "agentlightning.annotation",
            {
                "agentlightning__reward__0__name": "primary",
                "agentlightning__reward__0__value": 1.0,
                "agentlightning__reward__1__name": "style",
                "agentlightning__reward__1__value": 0.25,
            },
            [("primary", 1.0), ("style", 0.25)],
        ),
        ("agentlightning.annotation", {"reward": 0.5}, [("reward", 0.5)]),
        ("reward", {"agentops__task__output": '{"type": "reward", "value": 0.5}'}, [("reward", 0.5)]),
        ("reward", {"agentops__task__output": '{"type": "reward", "value": null}'}, []),
        ("agentlightning.annotation", {"agentlightning__reward__0__value": None}, []),
    ],
)
def test_rewards_are_scores_of_their_attempt(name, attributes, scores):
    """Each version wrote them otherwise; one without a value is none."""
    found = records(span(name, **attributes))
    assert all(isinstance(score, Outcome) and score.trace_id == "ro-41/at-1" for score in found)
    assert [(score.name, score.value) for score in found if isinstance(score, Outcome)] == scores


@pytest.mark.parametrize(
    "attributes",
    [
        {"prompt_token_ids": ["1", "2"]},
        {"prompt_token_ids": "no list"},
        {"response_token_ids": [1.5]},
        {**FULL, "logprobs__content": "[{"},
        {**FULL, "logprobs__content": [{"logprob": "-0.3"}]},
    ],
    ids=lambda attributes: str(attributes)[:40],
)
def test_attributes_of_other_types_are_refused(attributes):
    """A text is no id and no number."""
    assert refusal(span(**attributes)) == "bad_field"


def test_the_spans_of_its_own_tracer_are_read():
    """A tool's span, a call, a reward of two dimensions, and the session around them."""
    lines = (RECORDED / "agent_lightning.spans.jsonl").read_text("utf-8").splitlines()
    tool, completion, reward, session = map(json.loads, lines)
    assert records(tool) == records(session) == ()
    (call,) = calls(completion)
    assert (ids(call.prompt_token_ids), *sampled(call)) == (P1, G1, [-0.1, -0.7, -0.05, -0.02])
    assert (call.engine, call.engine_version, call.num_completion_tokens) == ("vllm", "vllm-0.33.0-toy", 4)
    assert call.sampling == {"temperature": 1.0, "top_p": 1.0}
    scores = [(score.name, score.value) for score in records(reward) if isinstance(score, Outcome)]
    assert scores == [("ticket", 1.0), ("style", 0.25)]
