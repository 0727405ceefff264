"""A prompt that only the next call repeats."""

from __future__ import annotations

import pytest

from tests.ingest.hand_made import G1, G2, P1, P2
from tests.ingest.made_rows import built, call_row, masks, toy

MAIN = "F" * 6 + "TTTT" + "FFFF" + "TTT"
BARE = {"num_prompt_tokens": 6, "notes": ["no_prompt_ids"]}
B = call_row("b", P2, G2, at=1)


def test_a_prompt_that_the_next_call_repeats_is_read_from_it():
    """The reply stands in it once, after as many tokens as the server counted."""
    trace = built(call_row("a", None, G1, **BARE), B)
    assert (masks(trace), trace.faults) == ([MAIN], set())
    assert trace.rows[0]["token_ids"].tolist() == P2 + G2
    assert trace.notes == {"prompt_from_successor": 1}


def test_prompts_are_read_back_call_by_call():
    """From the last, whose prompt was logged, to the first."""
    last = call_row("c", [*P2, *G2, 12, 11], [77], at=2)
    second = call_row("b", None, G2, at=1, **{**BARE, "num_prompt_tokens": 14})
    trace = built(call_row("a", None, G1, **BARE), second, last)
    assert (masks(trace), trace.faults) == ([MAIN + "FFT"], set())


@pytest.mark.parametrize(
    ("change", "following"),
    [
        ({"num_prompt_tokens": None}, {}),
        ({"num_prompt_tokens": 5}, {}),
        ({"num_prompt_tokens": 7}, {}),
        ({"call_index": None}, {}),
        ({}, {"call_index": 2}),
        ({}, {"call_index": 0}),
    ],
)
def test_what_leaves_a_doubt_leaves_the_prompt_unknown(change, following):
    """No count, another count (thinking was stripped), no order, a call between, two calls of one number."""
    trace = built(call_row("a", None, G1, **{**BARE, **change}), call_row("b", P2, G2, at=1, **following))
    assert trace.faults == {"no_prompt_ids"}


def test_a_reply_that_stands_there_twice_is_no_landmark():
    """Overlapping or apart; a run that only begins within an id is none."""
    twice = call_row("b", [*P2, *G1], G2, at=1)
    assert built(call_row("a", None, G1, **BARE), twice).faults == {"no_prompt_ids"}
    overlapping = call_row("b", [*P1, 7, 7, 7, 11], G2, at=1)
    assert built(call_row("a", None, [7, 7], **BARE), overlapping).faults == {"no_prompt_ids"}
    across = call_row("b", [*P1, 256, 65536, 0, 11], G2, at=1)  # the bytes of 256 lie across the two ids after it, too
    assert built(call_row("a", None, [256], **BARE), across, deployments=toy(vocabulary_size=None)).faults == set()


def test_another_fault_of_the_call_stays():
    """Its prompt is known, its numbers are not."""
    bare = call_row("a", None, G1, **{**BARE, "notes": ["no_prompt_ids", "sentinel_logprob"]})
    trace = built(bare, B)
    assert (trace.faults, masks(trace)) == ({"sentinel_logprob"}, ["F" * 14 + "TTT"])
