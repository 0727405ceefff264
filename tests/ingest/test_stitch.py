"""Calls to sequences: the cases of docs/stitching.md in toy ids, and what must hold of any calls.

A test's number is that of its case. Cases 2, 4, 6, 10, 12, 16, 18 and 20 to 23 are told by faults, settings or messages
too: those tests are in test_trace_rows.py. Three things no log can show, so there is nothing to be tested:
15, tokens that the engine forced without saying so (with a flag they are masked, below); 17, a prefix cache that was
kept across a change of weights (the trace is `version_ambiguous` all the same); and of 14, a user's turn that was edited
after it had been answered: its new prompt is like that of a parallel continuation, so both are kept and trained.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.branches import LoggedCall
from ingest.stitch import Stitched, stitch
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


def test_6_a_masked_end_is_part_of_what_the_engine_sampled():
    """The history that lacks it is another context: a fork, never a patched sequence."""
    stopped = call("a", P1, G1, 0, masked=frozenset({3}))
    stitched = stitch([stopped, call("b", [*P1, *G1[:3], *S1], G2, 1)])
    assert paths(stitched) == [("main", "a"), ("fork", "b")]
    assert masks(stitched) == ["F" * 6 + "TTTF", "F" * 13 + "TTT"]


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


def test_11_a_window_that_dropped_its_middle_forks():
    """The same beginning is no exact prefix."""
    stitched = stitch([A, B, call("c", [*P1[:2], *S1, *G2, 12], [77], 2)])
    assert paths(stitched) == [("main", "ab"), ("fork", "c")]


def test_14_an_answer_that_was_generated_anew_is_abandoned_if_only_the_new_one_was_gone_on_from():
    """Which came first does not matter."""
    again = call("c", P2, [402, 13], 2)
    stitched = stitch([A, B, again, call("d", [*P2, 402, 13, 12, 11], [77], 3)])
    assert paths(stitched) == [("main", "acd"), ("abandoned", "ab")]
    assert masks(stitched) == ["F" * 6 + "TTTT" + "FFFF" + "TT" + "FF" + "T", "F" * 17]


def test_14_answers_that_were_each_gone_on_from_are_ambiguous():
    """A user who switched, a search that tried both: which of them earned the score nobody logged."""
    left, right = call("l", [*P1, *G1, 12], [50], 1), call("r", [*P1, 201, 13, 12], [60], 3)
    stitched = stitch([A, call("c", P1, [201, 13], 2), left, right])
    assert stitched.notes == Counter(ambiguous_siblings=2)
    assert masks(stitched) == ["F" * 11 + "T", "F" * 9 + "T"]


def test_15_a_forced_token_is_not_sampled():
    """The span is cut around it: mask false there, and the conservation check counts without it."""
    stitched = stitch([call("a", P1, G1, 0, masked=frozenset({1}))])
    assert masks(stitched) == ["FFFFFFTFTT"]
    assert [(span.start, span.end, span.skipped) for span in stitched.branches[0].spans] == [(6, 7, 0), (8, 10, 2)]


def test_19_a_prefilled_answer_is_prompt():
    """What the client put into the assistant's mouth was not sampled."""
    assert masks(stitch([call("a", [*P1, 201], G1[1:], 0), B])) == ["F" * 7 + "TTTFFFFTTT"]


def test_22_a_cut_stream_counts_if_it_was_gone_on_from():
    """The next prompt repeats it word for word; at the end of a trace nobody knows what followed."""
    cut = call("a", P1, G1, 0, fault="stream_cut")
    assert masks(stitch([cut, B])) == ["FFFFFFTTTTFFFFTTT"]
    assert masks(stitch([cut])) == ["F" * 10]
    assert masks(stitch([call("a", P1, G1, 0, fault="sentinel_logprob"), B])) == ["F" * 14 + "TTT"]


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
_FAULTS = st.sampled_from([None, None, None, "stream_cut", "sentinel_logprob"])


@st.composite
def _any_calls(draw: st.DrawFn) -> list[LoggedCall]:
    """Calls that go on from others, answer one prompt, copy each other with other numbers, are masked or lack ids."""
    calls: list[LoggedCall] = []
    for number in range(draw(st.integers(1, 9))):
        base = draw(st.sampled_from([None, *calls])) if calls else None
        kind = draw(st.sampled_from(["continues", "answers", "copies"])) if base is not None else "begins"
        ids = draw(st.one_of(st.none(), st.lists(st.integers(0, 2), max_size=3)))
        changes = {
            "masked": draw(st.frozensets(st.integers(0, 4), max_size=2)),
            "fault": draw(_FAULTS) if ids is not None else "no_token_ids",
            "unserved": draw(st.booleans()),
        }
        made = call(str(number), draw(_BLOCKS), ids, draw(st.integers(0, 3)), **changes)
        if base is not None and kind == "continues":
            made = replace(made, prompt=base.full + (made.prompt or b""))
        elif base is not None and kind == "answers":
            made = replace(made, prompt=base.prompt, choice_index=draw(st.integers(0, 1)), response_id=base.response_id)
        elif base is not None:
            length = len(base.token_ids or b"") // 4
            other = struct.pack(f"<{length}f", *[draw(st.sampled_from([-0.5, -2.0]))] * length)
            made = replace(base, call_id=made.call_id, token_logprobs=other, masked=made.masked)
        calls.append(made)
    return calls


@settings(max_examples=300)
@given(_any_calls(), st.randoms())
def test_any_calls_are_conserved_whatever_their_order(calls, random):
    """Every call is owned by one sequence, every token but masked ones trains once, and order changes nothing."""
    stitched = stitch(calls)
    owners: dict[str, set[int]] = defaultdict(set)
    for number, branch in enumerate(stitched.branches):
        for span in branch.spans:
            if span.owned:
                owners[span.call.call_id].add(number)
    assert {name: len(found) for name, found in owners.items()} == {one.call_id: 1 for one in stitched.used}
    usable = sum(one.num_sampled - len(one.cuts) for one in stitched.used if one.fault is None)
    assert sum(mask.count("T") for mask in masks(stitched)) == usable
    random.shuffle(calls)
    assert stitch(calls) == stitched


@given(_any_calls(), st.randoms())
def test_any_call_that_is_delivered_twice_counts_once(calls, random):
    """The same rows again change nothing but how often a call was seen."""
    stitched = stitch(calls)
    again = [replace(one, call_id=f"{one.call_id}x") for one in calls]
    twice = stitch([*calls, *again])
    assert Counter(masks(twice)) == Counter(masks(stitched))
    assert len(twice.used) == len(stitched.used)


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


def test_times_do_not_need_to_be_distinct():
    """Equal times are ordered by the index and then the name, always in the same way."""
    same: datetime = START
    calls = [call(name, [index], [9], 0, call_index=1 - index) for index, name in enumerate("ab")]
    assert {one.started_at for one in calls} == {same}
    assert paths(stitch(calls)) == paths(stitch(calls[::-1])) == [("main", "b"), ("fork", "a")]
