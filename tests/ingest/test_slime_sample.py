"""Samples of slime: one row of tokens with a mask over its reply."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ingest.hand_made import G1, G2, P1, P2, S1
from tests.ingest.native_made import LOGPROBS, calls, ids, is_the_toy, refusal


def sample(**changes):
    """The toy's second call as slime keeps it."""
    return {
        "index": 3,
        "prompt": [{"role": "user", "content": "refund 41?"}],
        "tokens": P2 + G2,
        "response": "Refunded.",
        "response_length": 3,
        "reward": None,
        "loss_mask": None,
        "weight_versions": ["7"],
        "rollout_log_probs": LOGPROBS,
        "status": "completed",
        "session_id": "s-1",
        **changes,
    }


def test_a_sample_is_the_toys_second_call():
    """Its lists cover the reply alone."""
    (call,) = calls(sample())
    assert is_the_toy(call)
    assert (call.log_format, call.trace_id, call.finish_reason) == ("slime_sample", "s-1", "stop")
    assert (call.weight_spans, call.notes) == ((("7", 0, 3),), ())


def test_several_turns_are_one_row_with_the_tools_masked():
    """What stands for a masked token's number, a 0, is none."""
    mask = [1] * 4 + [0] * 4 + [1] * 3
    numbers = [-0.1, -0.7, -0.05, -0.02, 0.0, 0.0, 0.0, 0.0, *LOGPROBS]
    row = sample(tokens=P2 + G2, response_length=11, loss_mask=mask, rollout_log_probs=numbers)
    (call,) = calls(row)
    assert (ids(call.prompt_token_ids), ids(call.token_ids)) == (P1, G1 + S1 + G2)
    assert call.masked_positions == (4, 5, 6, 7)
    assert np.isnan(np.frombuffer(call.token_logprobs or b"", "<f4")).tolist() == [m == 0 for m in mask]


def test_several_versions_cannot_be_told_apart():
    """Nothing says which tokens are whose."""
    (call,) = calls(sample(weight_versions=["7", "8"]))
    assert (call.weight_spans, call.notes) == ((), ("version_ambiguous",))


def test_a_reward_without_a_time_is_not_read_and_says_so():
    """A score must have happened at some time."""
    assert calls(sample(reward=1.0))[0].notes == ("score_without_time",)


@pytest.mark.parametrize(
    "changes",
    [{"response_length": 18}, {"response_length": -1}, {"loss_mask": [1]}, {"tokens": [1.5]}, {"session_id": "\x00"}],
    ids=str,
)
def test_lists_that_do_not_fit_are_refused(changes):
    """Nothing is cut and nothing is filled up."""
    assert refusal(sample(**changes)) == "bad_field"


@pytest.mark.parametrize("versions", [[None, "3"], ["3", ""], [None], []], ids=str)
def test_a_turn_without_a_version_leaves_the_row_without_one(versions):
    """Nothing says which tokens are of the turn that has one."""
    assert calls(sample(weight_versions=versions))[0].weight_spans == ()
