"""Traces of verifiers and prime-rl: a graph of messages as calls."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.call import Call
from ingest.outcome import Outcome
from tests.ingest.hand_made import G1, G2, P1, P2
from tests.ingest.native_made import (
    RECORDED,
    calls,
    ids,
    is_the_toy,
    numbers,
    payload,
    records,
    refusal,
    sampled,
)

NAME = "verifiers_trace.record.json"


def trace(**changes):
    """The example, with a time and other fields."""
    return {**payload(NAME), "timing": {"start": 1_790_000_000.0, "scoring": {"end": 1_790_000_009.0}}, **changes}


def with_node(place, **changes):
    """The example with one node changed."""
    document = trace()
    document["nodes"][place] |= changes
    return document


def test_the_example_is_the_toy_trace():
    """Each message that was sampled is a call; what its template adds belongs to the prompt."""
    first, second, score = records(trace())
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    assert (ids(first.prompt_token_ids), *sampled(first)) == (P1, G1, [-0.1, -0.7, -0.05, -0.02])
    assert is_the_toy(second)
    assert [call.call_index for call in (first, second)] == [0, 1]
    assert (first.trace_id, first.model, first.log_format) == ("tr-41", "toy@7", "verifiers_trace")
    assert (first.finish_reason, second.finish_reason, second.reply_text) == ("tool_calls", "stop", "Refunded.")
    assert json.loads(second.messages_json or "")[2] == {"role": "tool", "content": "paid"}
    assert isinstance(score, Outcome)
    assert (score.trace_id, score.name, score.value, score.label) == ("tr-41", "ticket", 1.0, None)
    assert score.event_time == datetime(2026, 9, 21, 14, 13, 29, tzinfo=UTC)


def test_a_score_without_any_time_has_none_of_its_own():
    """Landing gives it the time of reading, as it does for the calls of the record."""
    *found, score = records(payload(NAME))
    assert [type(record) for record in found] == [Call, Call]
    assert isinstance(score, Outcome)
    assert (score.value, score.event_time) == (1.0, None)


def test_the_record_of_its_own_package_is_read():
    """Rounded to 4 decimals, a log-probability near 0 is -0.0, which is a number and no sign of a missing one."""
    document = json.loads((RECORDED / "verifiers.traces.jsonl").read_text("utf-8"))
    first, second, score = records(document)
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    assert (ids(first.prompt_token_ids), ids(first.token_ids)) == (P1, G1)
    assert (ids(second.prompt_token_ids), *sampled(second)) == (P2, G2, [-0.3, -0.0, -0.01])
    assert first.sampling == {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0}
    assert (first.ask_id, first.num_completion_tokens, first.notes) == ("ask-41", 4, ())
    assert first.started_at == datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)
    assert isinstance(score, Outcome)
    assert (score.name, score.value, score.label) == ("ticket", 1.0, "weight 0.5")


def test_the_episode_of_its_own_package_is_read():
    """It names the session, the workload and the version that was live."""
    document = json.loads((RECORDED / "verifiers.episodes.jsonl").read_text("utf-8"))
    first, second, score = records(document)
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    assert (first.session_id, first.workload, first.weight_spans) == ("ep-41", "refund-desk", (("7", 0, 4),))
    assert (ids(second.prompt_token_ids), *sampled(second)) == (P2, G2, [-0.3, -0.0, -0.01])
    assert isinstance(score, Outcome)
    assert (score.trace_id, score.value) == ("tr-41", 1.0)


def test_several_live_versions_cannot_be_told_apart():
    """Nothing says which token is whose; tokens of an agent that is not trained are of neither."""
    run = {"type": "train", "id": "r", "work": {"type": "train", "step": 8, "policy": {"start": 7, "end": 8}}}
    episode = {"id": "ep", "env": {}, "task": {}, "run": run, "traces": [trace()]}
    assert all("version_ambiguous" in call.notes for call in calls(episode))
    frozen = {**episode, "traces": [trace(agent={"name": "judge", "trainable": False})]}
    assert all(call.notes == () and call.weight_spans == () for call in calls(frozen))


def test_an_episode_without_traces_is_blank():
    """Nothing was sampled."""
    assert records({"id": "ep", "env": {}, "task": {}, "traces": []}) == ()


def test_a_reward_that_was_not_given_is_no_score():
    """Null is not 0, though the sum of the rewards would take it for one."""
    rewards = {"ticket": None, "tone": {"score": None, "weight": 1.0}, "style": {"score": 0.0, "weight": 1.0}}
    assert [record.name for record in records(trace(rewards=rewards)) if isinstance(record, Outcome)] == ["style"]


def test_a_branch_has_the_prompt_of_its_own_path():
    """A message that two replies go on from is in both prompts, and neither reply in the other's."""
    document = trace()
    document["nodes"].append({**copy.deepcopy(document["nodes"][3]), "parent": 0})
    assert ids(calls(document)[2].prompt_token_ids) == P1


def test_a_token_that_was_not_sampled_is_masked():
    """It has no number; those after it keep their places."""
    mask = [False, True, False, True, False]
    (call, _) = calls(with_node(1, mask=mask, logprobs=[-0.1, -0.05]))
    values = np.frombuffer(call.token_logprobs or b"", "<f4")
    assert call.masked_positions == (1, 3)
    assert np.isnan(values).tolist() == [False, True, False, True]
    assert numbers(values[[0, 2]].tobytes()) == [-0.1, -0.05]
    assert ids(call.token_ids) == G1


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_any_mask_gives_each_number_its_token(mask):
    """Compact numbers are spread over the sampled tokens, whatever stands between."""
    values = [-float(place + 1) for place in range(sum(mask))]
    document = with_node(1, token_ids=list(range(len(mask))), mask=mask, logprobs=values)
    (call, _) = calls(document)
    begin = mask.index(True) if any(mask) else len(mask)
    assert ids(call.prompt_token_ids) == P1[:-1] + list(range(begin))
    assert ids(call.token_ids) == list(range(begin, len(mask)))
    if values:
        spread = np.frombuffer(call.token_logprobs or b"", "<f4")
        assert [value for value in spread.tolist() if not np.isnan(value)] == values
        assert [place for place, value in enumerate(spread) if np.isnan(value)] == list(call.masked_positions)


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({"logprobs": [-0.1, -0.7]}, ("len_mismatch",)),
        ({"logprobs": [-0.1, -0.7, None, -0.02]}, ("no_behavior_logprobs",)),
        ({"logprobs": []}, ()),
    ],
    ids=str,
)
def test_numbers_that_are_missing_are_never_filled_in(changes, notes):
    """A list of another length is kept as it is, with its fault."""
    (call, _) = calls(with_node(1, **changes))
    assert call.notes == notes
    assert (call.token_logprobs is None) == (changes["logprobs"] == [])


def test_a_relayed_turn_has_no_tokens():
    """Evaluation clients know only messages."""
    (call, _) = calls(with_node(1, token_ids=[], mask=[], logprobs=[]))
    assert (call.prompt_token_ids, call.token_ids, call.token_logprobs) == (None, None, None)


def test_an_attempt_that_failed_says_so():
    """A bad attempt is data."""
    assert calls(trace(errors=[{"type": "ToolError", "message": "x"}]))[0].notes == ("attempt_failed",)
    assert calls(trace(ok=False))[0].notes == ("attempt_failed",)


@pytest.mark.parametrize(
    "document",
    [
        with_node(1, parent=3),
        with_node(1, parent=1),
        with_node(1, parent=-1),
        with_node(1, mask=[True]),
        with_node(1, token_ids=[1.5] * 5),
        with_node(1, logprobs=["-0.1"] * 4),
        trace(rewards={"ticket": {"score": "1.0"}}),
        trace(id="tr\x00"),
    ],
    ids=["later parent", "own parent", "negative parent", "short mask", "float id", "text number", "text score", "nul"],
)
def test_a_graph_that_cannot_be_is_refused(document):
    """A parent stands before its children, a mask is as long as its tokens."""
    assert refusal(document) == "bad_field"


def test_a_graph_that_grows_without_bound_is_refused():
    """A short line could fill the memory: each call holds its whole prompt."""
    document = trace()
    long = {**document["nodes"][0], "token_ids": [1] * 40_000, "mask": [False] * 40_000}
    asked = {"parent": 0, "message": {"role": "user", "content": "and 42?"}}
    reply = {"parent": 1, "sampled": True, "message": {"role": "assistant"}, "token_ids": [2], "mask": [True]}
    assert refusal({**document, "nodes": [long, asked, *([reply] * 2000)]}) == "bad_field"
