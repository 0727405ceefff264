"""Calls to sequences: the cases of docs/formats.md in toy ids, and what must hold of any calls."""

from __future__ import annotations

import struct
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.stitch import Branch, LoggedCall, Span, Stitched, check_conservation, stitch
from schemas.errors import TracemillError
from tests.ingest.hand_made import G1, G2, P1, P2, S1, START


def pack(ids: list[int] | None) -> bytes | None:
    """Packed ids."""
    return None if ids is None else struct.pack(f"<{len(ids)}i", *ids)


def call(name: str, prompt: list[int] | None, ids: list[int] | None, at: int = 0, **changes: Any) -> LoggedCall:
    """A call that began `at` seconds after the start, every log-probability -0.5."""
    logprobs = None if ids is None else struct.pack(f"<{len(ids)}f", *[-0.5] * len(ids))
    return LoggedCall(
        call_id=name,
        prompt=pack(prompt),
        token_ids=pack(ids),
        started_at=START + timedelta(seconds=at),
        **{"response_id": f"r-{name}", "token_logprobs": logprobs, **changes},
    )


def masks(stitched: Stitched) -> list[str]:
    """The action mask of each sequence, T on action tokens."""
    rows = []
    for branch in stitched.branches:
        mask = ["F"] * (len(branch.token_ids) // 4)
        for span in branch.spans:
            if span.is_action:
                mask[span.start : span.end] = "T" * (span.end - span.start)
        rows.append("".join(mask))
    return rows


def paths(stitched: Stitched) -> list[tuple[str, str]]:
    """Kind of each sequence and the names of the calls on it."""
    return [(branch.kind, "".join(c.call_id for c in branch.path)) for branch in stitched.branches]


A, B = call("a", P1, G1, 0), call("b", P2, G2, 1)


@pytest.mark.parametrize("calls", [[A, B], [B, A]])
def test_1_clean_turns_merge_in_any_order(calls):
    """The worked example: one row of 17 tokens, mask 6F 4T 4F 3T."""
    stitched = stitch(calls)
    assert masks(stitched) == ["FFFFFFTTTTFFFFTTT"]
    assert paths(stitched) == [("main", "ab")]
    assert stitched.branches[0].token_ids == pack(P2 + G2)


def test_2_a_call_logged_twice_trains_once():
    """Identical prompt, tokens and log-probabilities are one call, the earliest."""
    stitched = stitch([A, call("c", P1, G1, 5), B])
    assert masks(stitched) == ["FFFFFFTTTTFFFFTTT"]
    assert stitched.notes == Counter(call_logged_twice=1)
    assert [one.call_id for one in stitched.used] == ["a", "b"]


def test_2_a_poorer_copy_of_a_response_gives_way_to_the_fuller():
    """A gateway's copy without ids and the engine's own are one call."""
    poor = call("p", None, None, -1, response_id="r-a", token_logprobs=None, fault="no_token_ids")
    assert paths(stitch([poor, A, B])) == [("main", "ab")]


def test_3_a_retry_is_left_for_the_answer_that_was_continued():
    """Whichever was logged last: the retry lost the race."""
    retry = call("r", P1, [201, 13], 1)
    stitched = stitch([A, retry, call("b", P2, G2, 2)])
    assert paths(stitched) == [("main", "ab"), ("abandoned", "r")]
    assert masks(stitched) == ["FFFFFFTTTTFFFFTTT", "FFFFFFFF"]
    assert stitched.notes == Counter(sibling_not_used=1)


def test_3_answers_of_which_none_was_continued_are_ambiguous():
    """Nothing says which one the user saw; neither trains."""
    stitched = stitch([A, call("r", P1, [201, 13], 1)])
    assert masks(stitched) == ["FFFFFFFFFF", "FFFFFFFF"]
    assert stitched.notes == Counter(ambiguous_siblings=2)


def test_4_of_several_choices_the_continued_one_is_used():
    """Choices of one response are siblings like any others."""
    other = call("c", P1, [201, 13], 0, response_id="r-a", choice_index=1)
    assert paths(stitch([A, other, B])) == [("main", "ab"), ("abandoned", "c")]


def test_5_an_end_token_that_was_not_sampled_is_scaffold():
    """It stands in the next prompt only, so it is masked out; none is appended to the last call."""
    cut = call("a", P1, G1[:3], 0)
    assert masks(stitch([cut, B])) == ["FFFFFFTTTFFFFFTTT"]
    assert masks(stitch([cut])) == ["FFFFFFTTT"]


def test_7_thinking_stripped_from_history_forks():
    """Row one trains think and call, row two the rest on the context that it truly had."""
    thinking = call("a", P1, [900, 901, *G1], 0)
    stitched = stitch([thinking, B])
    assert paths(stitched) == [("main", "a"), ("fork", "b")]
    assert masks(stitched) == ["F" * 6 + "T" * 6, "F" * 14 + "TTT"]


def test_8_arguments_written_anew_fork():
    """Other ids inside the assistant's span are another context."""
    stitched = stitch([A, call("b", [*P1, 201, 777, 203, 13, *S1], G2, 1)])
    assert masks(stitched) == ["F" * 6 + "TTTT", "F" * 14 + "TTT"]


def test_9_two_tokens_read_back_as_one_fork():
    """[198, 198] comes back as [271]."""
    stitched = stitch([call("a", P1, [198, 198], 0), call("b", [*P1, 271, *S1], G2, 1)])
    assert paths(stitched) == [("main", "a"), ("fork", "b")]


def test_10_and_12_a_chain_of_its_own_is_named_by_who_knows():
    """Compaction and sub-agents are roots; only their messages tell them apart."""
    stitched = stitch([A, call("s", [1, 10, 999], [5, 13], 1)], lambda _root, _main: "subagent")
    assert paths(stitched) == [("main", "a"), ("subagent", "s")]


def test_13_parallel_continuations_share_a_span_that_trains_once():
    """Owned by the first, context in the second."""
    left, right = call("l", [*P1, *G1, 12, 1, 11], [50], 1), call("r", [*P1, *G1, 12, 2, 11], [60], 2)
    stitched = stitch([right, left, A])
    assert paths(stitched) == [("main", "al"), ("fork", "ar")]
    assert masks(stitched) == ["F" * 6 + "TTTT" + "FFF" + "T", "F" * 13 + "T"]


def test_15_a_forced_token_is_not_sampled():
    """The span is cut around it: mask false there, and the conservation check counts without it."""
    stitched = stitch([call("a", P1, G1, 0, forced=frozenset({1}))])
    assert masks(stitched) == ["FFFFFFTFTT"]
    assert [(span.start, span.end, span.skipped) for span in stitched.branches[0].spans] == [(6, 7, 0), (8, 10, 2)]


def test_a_faulty_call_keeps_its_place_and_trains_nothing():
    """The calls around it are exact all the same."""
    stitched = stitch([call("a", P1, G1, 0, fault="sentinel_logprob"), B])
    assert paths(stitched) == [("main", "ab")]
    assert masks(stitched) == ["F" * 14 + "TTT"]


def test_calls_without_prompt_ids_are_sequences_of_their_own():
    """Nothing is said to go on from them, and text alone is an empty sequence."""
    bare = call("a", None, G1, 0, fault="no_prompt_ids")
    text = call("b", None, None, 1, fault="no_token_ids")
    stitched = stitch([bare, text])
    assert [(branch.token_ids, branch.spans[0].start, branch.spans[0].end) for branch in stitched.branches] == [
        (pack(G1), 0, 4),
        (b"", 0, 0),
    ]


def test_an_empty_call_is_left_out_unless_it_is_all_there_is():
    """An aborted call carries nothing."""
    empty = call("e", P2, [], 3)
    assert paths(stitch([A, B, empty])) == [("main", "ab")]
    assert paths(stitch([empty])) == [("main", "e")]
    assert stitch([A, empty]).notes == Counter(empty_call=1)


def test_the_parent_is_the_longest_prefix_and_not_the_latest_call():
    """Interleaved chains do not capture each other's calls."""
    third = call("c", [*P2, *G2, 12, 11], [77], 9)
    other = call("o", P1[:2], P1[2:4], 5)  # its tokens are a shorter prefix of the same prompt
    stitched = stitch([third, other, B, A])
    assert ("main", "oabc") in paths(stitched)


def test_a_skewed_clock_changes_nothing_but_a_note():
    """The prefix decides."""
    late = call("a", P1, G1, 10)
    stitched = stitch([late, B])
    assert masks(stitched) == ["FFFFFFTTTTFFFFTTT"]
    assert stitched.notes == Counter(clock_skew=1)


_BLOCKS = st.lists(st.integers(0, 2), min_size=1, max_size=3)


@st.composite
def _any_calls(draw: st.DrawFn) -> list[LoggedCall]:
    """Calls of which some go on from others, some repeat prompts and some lack ids."""
    calls: list[LoggedCall] = []
    for number in range(draw(st.integers(1, 8))):
        base = draw(st.sampled_from([None, *calls])) if calls else None
        prompt = (list(struct.unpack(f"<{len(base.full) // 4}i", base.full)) if base else []) + draw(_BLOCKS)
        ids = draw(st.one_of(st.none(), st.lists(st.integers(0, 2), max_size=3)))
        calls.append(call(str(number), prompt if draw(st.booleans()) or base else None, ids, draw(st.integers(0, 5))))
    return calls


@given(_any_calls(), st.randoms())
def test_any_calls_are_conserved_whatever_their_order(calls, random):
    """Every sampled token of a used call is owned once, and the sequences do not depend on the order of the lines."""
    stitched = stitch(calls)
    owned = Counter(span.call.call_id for branch in stitched.branches for span in branch.spans if span.owned)
    assert owned == Counter(one.call_id for one in stitched.used)
    random.shuffle(calls)
    assert stitch(calls) == stitched


@given(st.lists(st.tuples(_BLOCKS, _BLOCKS), min_size=1, max_size=10), st.randoms())
def test_any_clean_conversation_is_one_sequence(turns, random):
    """However long, as long as each prompt begins with all that came before."""
    calls: list[LoggedCall] = []
    so_far: list[int] = []
    for number, (scaffold, sampled) in enumerate(turns):
        prompt = [*so_far, *(token + 10 for token in scaffold)]
        calls.append(call(str(number), prompt, sampled, number))
        so_far = prompt + sampled
    random.shuffle(calls)
    stitched = stitch(calls)
    assert len(stitched.branches) == 1
    assert masks(stitched)[0].count("T") == sum(len(sampled) for _, sampled in turns)


def test_tokens_that_would_train_twice_are_refused():
    """The check that guards the write sees what the code must never do."""
    twice = Branch("main", (A,), (Span(A, 6, 10, owned=True),))
    with pytest.raises(TracemillError, match="expected each once"):
        check_conservation([A], [twice, twice])
    with pytest.raises(TracemillError, match="expected each once"):
        check_conservation([A, B], [twice])
    shifted = Branch("main", (A,), (Span(A, 5, 9, owned=True),))
    with pytest.raises(TracemillError, match="other tokens"):
        check_conservation([A], [shifted])


def test_times_do_not_need_to_be_distinct():
    """Equal times are ordered by the index and then the name, always in the same way."""
    same: datetime = START
    calls = [call(name, [index], [9], 0, call_index=1 - index) for index, name in enumerate("ab")]
    assert {one.started_at for one in calls} == {same}
    assert paths(stitch(calls)) == paths(stitch(calls[::-1])) == [("main", "b"), ("fork", "a")]
