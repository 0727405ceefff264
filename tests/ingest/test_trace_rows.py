"""The cases of calls that only their rows can show: faults, versions, names and numbers.

test_stitch.py lists all cases; the numbers in the names are the same.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.meant import CallRow
from ingest.trace_rows import rows_to_table
from tests.ingest.hand_made import G1, G2, L1, P1, P2, S1
from tests.ingest.made_rows import built, call_row, kinds, masks, told, toy
from warehouse.invariants import check_traces

A, B = call_row("a", P1, G1, at=0), call_row("b", P2, G2, at=1)
MAIN = "F" * 6 + "TTTT" + "FFFF" + "TTT"


def test_2_copies_with_other_numbers_conflict():
    """One response with two log-probabilities for a token: neither is believed, and the trace says so."""
    other = call_row("c", P1, G1, [*L1[:3], -4.0], at=0, response_id="r-a")
    trace = built(A, other, B)
    assert masks(trace) == ["F" * 14 + "TTT"]
    assert trace.rows[0]["faults"] == ["conflicting_copies"]
    assert trace.rows[0]["spans"][0]["fault"] == "conflicting_copies"
    assert trace.notes == {"call_logged_twice": 1, "conflicting_copies": 1}


def test_3_an_unused_answer_makes_nothing_inexact():
    """A retry at top-p 0.8 trains nothing, so the numbers of the trace stay exact; its reply is not the trace's."""
    cut = '{"temperature":1.0,"top_p":0.8}'
    retry = call_row("r", P1, [201, 13], at=3, sampling_json=cut, reply_text="unused")
    trace = built(retry, A, call_row("b", P2, G2, at=1, reply_text="used"))
    assert kinds(trace) == ["main", "abandoned"]
    assert [row["logprob_exact"] for row in trace.rows] == [True, True]
    assert (trace.faults, trace.rows[0]["reply_text"]) == (set(), "used")


def test_a_fork_knows_nothing_of_calls_that_are_not_on_its_way():
    """Only the sequence with the truncated call is inexact."""
    cut = '{"temperature":1.0,"top_p":0.8}'
    trace = built(A, call_row("f", [2, *P1], [7], at=1, sampling_json=cut))
    assert [(row["logprob_exact"], row["top_p"]) for row in trace.rows] == [(True, 1.0), (False, 0.8)]


@pytest.mark.parametrize(
    ("selection", "faults", "expected"),
    [
        ("unknown", {"best_of_n", "ambiguous_siblings"}, ["F" * 10, "F" * 8]),
        ("random", {"ambiguous_siblings"}, ["F" * 10, "F" * 8]),
        ("first", set(), ["F" * 6 + "TTTT", "F" * 8]),
    ],
)
def test_4_of_choices_that_nobody_continued_the_settings_may_know_the_served_one(selection, faults, expected):
    """Only "first" says which it is; a random one is not known by its number."""
    pair = {"response_id": "r", "num_choices": 2}
    choices = call_row("a", P1, G1, **pair), call_row("c", P1, [201, 13], choice_index=1, **pair)
    trace = built(*choices, deployments=toy(choice_selection=selection))
    assert (trace.faults, masks(trace)) == (faults, expected)


@pytest.mark.parametrize(
    ("selection", "faults"), [("unknown", {"best_of_n"}), ("random", set()), ("first", {"best_of_n"})]
)
def test_4_the_choice_that_was_continued_is_used_whatever_the_settings_say(selection, faults):
    """The second was: random selection allows it, and "first" is contradicted."""
    pair = {"response_id": "r", "num_choices": 2}
    first, second = call_row("c", P1, [201, 13], **pair), call_row("a", P1, G1, choice_index=1, **pair)
    trace = built(first, second, B, deployments=toy(choice_selection=selection))
    assert (trace.faults, masks(trace)) == (faults, [MAIN, "F" * 8])


def test_6_tokens_behind_a_stop_string_are_masked_and_counted_out():
    """As a server answers stop "e": four ids, of which the last lies behind the stop string; the history forks."""
    stopped = call_row("a", P1, G1, masked_positions=[3])
    trace = built(stopped, call_row("b", [*P1, *G1[:2], *S1], G2, at=1))
    assert masks(trace) == ["F" * 6 + "TTTF", "F" * 12 + "TTT"]
    (first, second) = trace.rows
    assert np.isfinite(first["token_logprobs"]).tolist() == [False] * 6 + [True] * 3 + [False]
    assert first["num_action_tokens"] + second["num_action_tokens"] == 6
    assert trace.faults == set()


def test_6_a_reply_that_is_masked_whole_keeps_its_place():
    """It trains nothing, and its call is still owned by one sequence."""
    trace = built(call_row("a", P1, G1, masked_positions=[0, 1, 2, 3]), B)
    assert masks(trace) == ["F" * 14 + "TTT"]
    assert [(span["call_id"], span["start"], span["end"]) for span in trace.rows[0]["spans"]] == [
        ("a", 6, 6),
        ("b", 14, 17),
    ]


def test_15_a_forced_token_needs_no_number():
    """It was not sampled: mask false, log-probability null."""
    trace = built(call_row("a", P1, G1, [-0.5, float("nan"), -0.5, -9999.0], masked_positions=[1, 3]))
    assert (masks(trace), trace.faults) == (["F" * 6 + "TFTF"], set())
    check_traces(rows_to_table(trace.rows))


def test_10_a_prompt_that_quotes_an_earlier_reply_is_a_compaction():
    """The agent resumed from its summary."""
    summary = "The customer wants order 41 refunded."
    resumed = call_row("c", [3, 10], [7], at=2, messages_json=told(("system", "You help."), ("user", summary)))
    trace = built(A, call_row("b", P2, G2, at=1, reply_text=summary), resumed)
    assert kinds(trace) == ["main", "compaction"]
    assert masks(trace) == [MAIN, "FFT"]


def test_11_history_with_its_middle_cut_out_forks():
    """A window that dropped the oldest turns is another context, trained as it was."""
    trace = built(A, B, call_row("c", [1, 10, *S1, *G2, 12, 11], [77], at=2))
    assert kinds(trace) == ["main", "fork"]
    assert masks(trace) == [MAIN, "F" * 11 + "T"]


def test_12_a_chain_with_its_own_system_prompt_is_a_sub_agent():
    """Same trace, same score, a sequence of its own."""
    agent = call_row("s", [2, 10], [7, 13], at=1, messages_json=told(("system", "You look up."), ("user", "41")))
    trace = built(A, agent, call_row("b", P2, G2, at=2))
    assert kinds(trace) == ["main", "subagent"]
    assert masks(trace) == [MAIN, "FFTT"]


def test_16_weights_that_changed_between_calls_are_kept_call_by_call():
    """And the trace is ambiguous."""
    trace = built(A, call_row("b", P2, G2, at=1, model="toy@v8"))
    (row,) = trace.rows
    assert row["version_spans"] == [
        {"policy_version": "v7", "start": 6, "end": 10},
        {"policy_version": "v8", "start": 14, "end": 17},
    ]
    assert (trace.faults, row["policy_version_min"], row["policy_version_max"]) == ({"version_ambiguous"}, "v7", "v8")


def test_16_weights_that_changed_within_a_call_are_kept_token_by_token():
    """As the server tells them apart, around a masked token too."""
    weights = [{"policy_version": "7", "start": 0, "end": 2}, {"policy_version": "8", "start": 2, "end": 4}]
    call = call_row("a", P1, G1, model="toy", version_spans=weights, masked_positions=[1], notes=["version_ambiguous"])
    trace = built(call, deployments=toy(version_pattern=None))
    assert trace.faults == {"version_ambiguous"}
    assert trace.rows[0]["version_spans"] == [
        {"policy_version": "7", "start": 6, "end": 7},
        {"policy_version": "8", "start": 8, "end": 10},
    ]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([("8", 2, 9), ("7", -3, 3)], [("7", 6, 9), ("8", 9, 10)]),
        ([("7", 0, 1), ("8", 2, 3)], [("7", 6, 7), ("8", 8, 9)]),
        ([("7", 4, 9), ("8", 3, 3)], [(None, 6, 10)]),
    ],
)
def test_16_spans_of_weights_that_cannot_be_are_cut_to_what_can(weights, expected):
    """Overlapping, leaving gaps or outside the reply: what is written lies in order within the span."""
    spans = [{"policy_version": name, "start": start, "end": end} for name, start, end in weights]
    trace = built(call_row("a", P1, G1, version_spans=spans, notes=["version_ambiguous"]))
    found = [(piece["policy_version"], piece["start"], piece["end"]) for piece in trace.rows[0]["version_spans"]]
    assert found == expected
    check_traces(rows_to_table(trace.rows))


@pytest.mark.parametrize("code", ["multimodal_prompt", "output_overridden", "cache_hit"])
def test_18_21_23_what_a_gateway_says_of_a_call_keeps_its_trace_out(code):
    """The tokens are as logged, so the mask stands; the trace is not trained on."""
    trace = built(call_row("a", P1, G1, notes=[code]), B)
    assert (trace.faults, masks(trace)) == ({code}, [MAIN])


def test_19_a_prefilled_answer_is_prompt():
    """Its tokens were not sampled: they stand before the span."""
    trace = built(call_row("a", [*P1, *G1[:2]], G1[2:]), B)
    assert masks(trace) == ["F" * 8 + "TT" + "FFFF" + "TTT"]


def test_20_where_text_and_ids_differ_the_ids_win():
    """A gateway that rewrote the prompt: what the engine saw is what is trained."""
    trace = built(A, call_row("b", P2, G2, at=1, messages_json=told(("user", "[REDACTED]"))))
    assert (masks(trace), trace.faults) == ([MAIN], set())


def test_22_a_cut_stream_that_was_gone_on_from_is_exact_as_far_as_it_goes():
    """The next prompt repeats just what was logged."""
    cut = call_row("a", P1, G1, finish_reason="abort", notes=["stream_cut"])
    trace = built(cut, B)
    assert (masks(trace), trace.faults, trace.rows[0]["truncated"]) == ([MAIN], set(), False)


def test_22_a_cut_stream_that_ends_a_trace_is_masked():
    """What the score was given to nobody can see."""
    trace = built(A, call_row("b", P2, G2, at=1, finish_reason="abort", notes=["stream_cut"]))
    assert (masks(trace), trace.faults) == (["F" * 6 + "TTTT" + "F" * 7], {"stream_cut"})
    assert trace.rows[0]["truncated"]


def test_a_turn_that_no_call_said_is_noted_and_no_more():
    """A forked prompt quotes an answer that was never logged; examples that all prompts hold are no news."""
    example = ("assistant", "An example.")
    first = call_row("a", P1, G1, reply_text="On it.", messages_json=told(example, ("user", "41?")))
    later = told(example, ("user", "41?"), ("assistant", "On it."), ("user", "?"), ("assistant", "Lost."))
    trace = built(first, call_row("b", [2, *P2], G2, at=1, messages_json=later))
    assert (trace.notes, trace.faults) == ({"turn_not_logged": 1}, set())
    known = built(first, call_row("b", [2, *P2], G2, at=1, messages_json=later.replace("Lost.", "On it.")))
    assert known.notes == {}


def test_a_turn_of_tool_calls_that_no_call_made_is_noted():
    """In the main sequence too, by the id of the tool call; where a reply is not known nothing can be told."""
    first = call_row("a", P1, G1, reply_text='[{"id":"call_1"}]')
    turns = [{"role": "assistant", "tool_calls": [{"id": name}]} for name in ("call_1", "call_2")]
    trace = built(first, call_row("b", P2, G2, at=1, messages_json=json.dumps(turns)))
    assert (trace.notes, trace.faults, len(trace.rows)) == ({"turn_not_logged": 1}, set(), 1)
    assert built(first, call_row("b", P2, G2, at=1, messages_json=json.dumps(turns[:1]))).notes == {}
    silent = call_row("a", P1, G1)
    assert built(silent, call_row("b", P2, G2, at=1, messages_json=json.dumps(turns))).notes == {}


_PAIR = {"response_id": "r", "num_choices": 2}
_WEIGHTS = [{"policy_version": "7", "start": 0, "end": 2}, {"policy_version": "8", "start": 2, "end": 4}]
POOL = (
    A,
    B,
    call_row("copy", P1, G1, at=3, response_id="r-a"),
    call_row("conflict", P1, G1, [*L1[:3], -4.0], at=2, response_id="r-a"),
    call_row("poor", None, None, at=4, response_id="r-a", notes=["no_prompt_ids", "no_token_ids"]),
    call_row("retry", P1, [201, 13], at=5),
    call_row("left", P1, G1[::-1], at=6, **_PAIR),
    call_row("right", P1, [7], at=6, choice_index=1, **_PAIR),
    call_row("cut", [*P2, *G2, 12], [50, 51], at=7, notes=["stream_cut"], finish_reason="abort"),
    call_row("after", [*P2, *G2, 12, 50, 51, 11], [60], at=8, masked_positions=[0]),
    call_row("masked", [*P2, *G2, 12, 1], [1, 2, 3, 4], at=9, masked_positions=[1, 3], version_spans=_WEIGHTS),
    call_row("sentinel", [2, 10], [7], [-9999.0], at=10, notes=["sentinel_logprob"], model="toy@v8"),
    call_row("bare", None, G1, at=11, num_prompt_tokens=6, notes=["no_prompt_ids"], reply_text="A long enough reply."),
    call_row("next", [*P1, *G1, 9], [8], at=12, messages_json=told(("user", "So: A long enough reply."))),
)


def _as_written(calls: list[CallRow]) -> object:
    """The rows, and what was found."""
    trace = built(*calls)
    return rows_to_table(trace.rows), trace.faults, trace.notes


@settings(max_examples=200)
@given(st.lists(st.sampled_from(POOL), min_size=1, unique_by=lambda row: row.values["call_id"]), st.randoms())
def test_any_calls_give_the_same_rows_in_any_order(calls, random):
    """Forks, copies, choices, cuts, masks and faults: each build is conserved, and the lake accepts it."""
    expected = _as_written(calls)
    check_traces(rows_to_table(built(*calls).rows))
    random.shuffle(calls)
    assert _as_written(calls) == expected
