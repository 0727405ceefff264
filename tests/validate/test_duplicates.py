"""Copies, equal replies with unequal rewards, and users."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validate.hand_made import AS_OF_US, REWARD, call, calls, outcome, outcomes, sequence, traces
from validate.duplicates import contents_of, find_duplicates, scan_duplicates
from validate.rewards import reward_of


def copies(*rows, call_rows=()):
    """The ids that are called copies."""
    seen = traces(*rows)
    found = find_duplicates(seen, contents_of(seen, calls(*call_rows)))["duplicate_trace"]
    return [name for name, is_copy in zip(seen.trace_ids.to_pylist(), found, strict=True) if is_copy]


def scan(rows, outcome_rows, admitted=True):
    """The estimates of the scan over all traces."""
    seen = traces(*rows)
    everyone = np.ones(seen.num_traces, bool)
    rewards = reward_of(seen, outcomes(*outcome_rows), REWARD, as_of_us=AS_OF_US)
    contents = contents_of(seen, calls())
    readings = scan_duplicates(
        seen, contents, rewards, is_copy=~everyone, window=everyone, is_admitted=everyone & admitted
    )
    return {reading.name: reading.estimate for reading in readings}


def test_of_equal_traces_the_earliest_is_the_original():
    """Three copies, the one that ended first stays, whatever its name."""
    rows = [sequence("a", hours=40.0), sequence("b", hours=60.0), sequence("c", hours=50.0)]
    assert copies(*rows) == ["a", "c"]


@pytest.mark.parametrize(
    "change",
    [
        {"logprobs": [-0.5, -0.25, -1.5000001]},
        {"token_ids": [1, 2, 10, 11, 13]},
        {"token_ids": [1, 3, 10, 11, 12]},
        {"mask": [True, True, False]},
        {"logprobs": [-0.5, -0.25]},
    ],
)
def test_a_trace_that_differs_anywhere_is_no_copy(change):
    """One bit of a number, one token of prompt or reply, the mask, the length."""
    assert copies(sequence("a"), sequence("b", **change)) == []


def test_numbers_under_the_mask_make_no_difference():
    """Two copies whose tool tokens carry NaN and nothing."""
    mask = [True, False, True]
    first = sequence("a", mask=mask, logprobs=[-0.5, None, -0.25])
    second = sequence("b", mask=mask, logprobs=[-0.5, math.nan, -0.25])
    assert len(copies(first, second)) == 1


def test_response_ids_of_the_engine_tell_two_tries_apart_only_if_all_are_logged():
    """Different ids: two tries. One id missing: the tokens decide."""
    rows = [sequence("a"), sequence("b", hours=40.0)]
    assert copies(*rows, call_rows=[call("a"), call("b")]) == []
    assert copies(*rows, call_rows=[call("a"), call("b", response_id=None)]) == []
    assert copies(*rows, call_rows=[call("a", response_id=None), call("b", response_id=None)]) == ["b"]


def test_a_trace_without_action_tokens_is_no_copy():
    """Text alone says too little to call it the same."""
    empty = {"token_ids": [], "token_logprobs": [], "action_mask": [], "num_action_tokens": 0}
    assert copies(sequence("a", **empty), sequence("b", **empty)) == []


def test_traces_of_several_sequences_are_compared_whole():
    """Equal in the first sequence and unlike in the second: no copy."""

    def pair(name, last):
        second = sequence(name, num_sequences=2, sequence_index=1, logprobs=last)
        return [second, sequence(name, num_sequences=2)]

    assert copies(*pair("a", [-1.0]), *pair("b", [-2.0])) == []
    assert len(copies(*pair("a", [-1.0]), *pair("b", [-1.0]))) == 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=10))
def test_of_any_equal_traces_exactly_one_is_kept(kinds):
    """However many copies of however many tries, each try stays once."""
    rows = [sequence(f"t{index}", logprobs=[-1.0 - kind]) for index, kind in enumerate(kinds)]
    assert len(copies(*rows)) == len(kinds) - len(set(kinds))


def test_equal_replies_with_unequal_rewards_are_noise_of_the_scorer():
    """Of two groups of equal replies one disagrees; a reply that stands alone is no group."""
    rows = [sequence("a"), sequence("b", logprobs=[-0.1] * 3), sequence("c", token_ids=[5, 2, 10, 11, 12])]
    rows += [sequence("d", token_ids=[5, 2, 10, 11, 12]), sequence("e", logprobs=[-9.0])]
    found = scan(rows, [outcome(name, value) for name, value in zip("abcde", [1.0, 0.0, 1.0, 1.0, 0.0], strict=True)])
    share = found["conflicting_duplicate_share"]
    assert (share.value, share.num_observations) == (0.5, 2)


def test_the_largest_user_and_the_effective_number_of_users():
    """Two traces of one user and one of another: 2/3, and 9 / (4 + 1) = 1.8."""
    rows = [sequence(name, user_hash=user) for name, user in zip("abc", "uuv", strict=True)]
    found = scan(rows, [])
    assert found["top_user_share"].value == pytest.approx(2 / 3, abs=1e-12)
    assert found["effective_users"].value == pytest.approx(1.8, abs=1e-12)


def test_traces_without_users_say_so():
    """No user hash, no concentration."""
    assert scan([sequence("a", user_hash=None)], [])["top_user_share"].value is None
