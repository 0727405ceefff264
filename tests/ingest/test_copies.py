"""One call, logged more than once."""

from __future__ import annotations

import struct
import time
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from ingest.copies import copies as grouped
from ingest.copies import distinct
from tests.ingest.hand_made import G1, P1, START
from tests.ingest.test_stitch import A, call


def _numbers(*values: float) -> bytes:
    """Packed log-probabilities."""
    return struct.pack(f"<{len(values)}f", *values)


def test_the_fullest_copy_is_kept_in_the_place_of_the_first():
    """A gateway's copy without ids, and one that was cut."""
    poor = replace(A, call_id="p", prompt=None, token_ids=None, token_logprobs=None, fault="no_token_ids")
    cut = replace(A, call_id="c", token_ids=(A.token_ids or b"")[:8], token_logprobs=_numbers(-0.5, -0.5))
    assert [one.call_id for one in distinct([poor, cut, A])] == ["a"]


def test_what_one_copy_masks_is_masked():
    """Only one of the writers knew of the stop string."""
    (kept,) = distinct([A, replace(A, call_id="m", masked=frozenset({3}))])
    assert (kept.call_id, kept.masked) == ("a", {3})


def test_copies_with_other_numbers_conflict_however_many_there_are():
    """A third copy cannot outvote them."""
    other = replace(A, call_id="o", token_logprobs=_numbers(-0.5, -0.5, -0.5, -4.0))
    (kept,) = distinct([A, other, replace(A, call_id="t")])
    assert kept.fault == "conflicting_copies"


def test_numbers_that_were_rounded_or_left_out_do_not_conflict():
    """A gateway that writes three digits, and one that lost a number."""
    rounded = replace(A, call_id="o", token_logprobs=_numbers(-0.5, -0.5, -0.5, -0.5004))
    holed = replace(A, call_id="h", token_logprobs=_numbers(float("nan"), -0.5, -0.5, -0.5))
    sentinel = replace(A, call_id="s", token_logprobs=_numbers(-9999.0, -0.5, -0.5, -0.5), fault="sentinel_logprob")
    (kept,) = distinct([A, rounded, holed, sentinel])
    assert kept == A


def test_a_later_turn_under_the_same_response_id_is_another_call():
    """A gateway that gives ids twice: the second prompt goes on from the first call, and both replies are one token."""
    first, second = (
        call(name, prompt, [5], at, response_id="r")
        for name, prompt, at in (("a", [1, 2], 0), ("b", [1, 2, 5, 7, 8], 1))
    )
    assert distinct([first, second]) == [first, second]
    assert len(distinct([first, replace(second, prompt=first.prompt)])) == 1


@given(st.permutations(range(5)), st.lists(st.integers(0, 9), min_size=5, max_size=5))
def test_any_order_and_any_clock_keep_the_same_copy(order, seconds):
    """One response, five copies of it, and a poor one of either of two answers."""
    copies = [
        A,
        replace(A, call_id="t"),
        replace(A, call_id="n", token_logprobs=None),
        replace(A, call_id="p", prompt=None, token_ids=None, token_logprobs=None, fault="no_token_ids"),
        replace(A, call_id="b", token_ids=(A.token_ids or b"")[::-1]),
    ]
    clocked = [replace(one, started_at=START + timedelta(seconds=at)) for one, at in zip(copies, seconds, strict=True)]
    groups = {frozenset(one.call_id for one in group) for group in grouped([clocked[at] for at in order])}
    assert groups == {frozenset("atnp"), frozenset("b")}
    assert {one.call_id for one in distinct([clocked[at] for at in order])} == {"a", "b"}


def test_other_tokens_are_another_call():
    """One response id does not make two answers one, and neither does one prompt."""
    assert len(distinct([A, replace(A, call_id="b", token_ids=A.prompt), call("c", P1, G1[:2])])) == 3


def test_a_storm_of_answers_takes_no_time_to_speak_of():
    """2,000 answers under one response id, each different; the square of that would be 2 million comparisons."""
    storm = [call(str(n), P1 * 500, [n, 1], response_id="r") for n in range(2000)]
    began = time.perf_counter()
    assert len(distinct(storm)) == 2000
    assert time.perf_counter() - began < 5.0  # measured 0.1 s; a shared machine may be slow
