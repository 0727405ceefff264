"""What must hold of a row of traces, and of the ledger, before it is written."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import InputError
from schemas.tables import table
from tests.warehouse.rows import source_file, span, trace
from warehouse.conform import conform
from warehouse.invariants import check_source_files, check_traces

TRACES = table("traces")
LOGPROBS = st.floats(-9999, 0, width=32, exclude_min=True)


def check(*rows):
    """Conform and check."""
    check_traces(conform(TRACES, list(rows)))


def refused(*rows) -> str:
    """The message with which the rows are refused."""
    with pytest.raises(InputError) as error:
        check(*rows)
    return str(error.value)


def two_sequences(first_owns: bool, second_owns: bool):
    """A trace that forked after call c1: both sequences hold its tokens."""
    sequences = []
    for index, owned in enumerate((first_owns, second_owns)):
        logprobs, mask = [None, None, -0.5, None, -0.7], [False, False, owned, False, True]
        sequences.append(
            trace(
                "t1",
                [],
                sequence_index=index,
                num_sequences=2,
                token_ids=[1, 2, 3, 4, 5],
                token_logprobs=logprobs,
                action_mask=mask,
                spans=[span("c1", 2, 3, owned=owned), span(f"c{index + 2}", 4, 5)],
                version_spans=[],
                num_action_tokens=sum(mask),
            )
        )
    return sequences


@given(st.lists(st.lists(LOGPROBS, max_size=6), min_size=1, max_size=4))
def test_any_trace_put_together_by_the_rules_passes(attempts):
    """Sequences of any length, empty ones too, pass together."""
    check(*(trace(f"t{number}", logprobs) for number, logprobs in enumerate(attempts)))


def test_a_shared_call_owned_once_passes():
    """A fork holds the tokens of its parent's call without owning them."""
    check(*two_sequences(first_owns=True, second_owns=False))


@pytest.mark.parametrize(
    ("owners", "words"), [((True, True), "by sequences 0 and 1"), ((False, False), "by no sequence")]
)
def test_a_call_owned_twice_or_never_is_refused(owners, words):
    """Its tokens would train twice, or never."""
    assert f"t1, revision 0: call c1 is owned {words}" in refused(*two_sequences(*owners))


@pytest.mark.parametrize("name", ["token_logprobs", "action_mask", "top_token_ids", "top_token_logprobs"])
def test_a_list_of_another_length_is_refused(name):
    """All per-token lists have the length of token_ids."""
    short = {"token_logprobs": [None], "action_mask": [False]}.get(name, [[1]])
    message = refused(trace("t0", [-0.5]), trace("t1", [-0.5], **{name: short}))
    assert f"trace t1, sequence 0: 1 {name} for 3 token_ids" in message


@given(st.sampled_from([0, 1, 4, 5]), st.sampled_from([0.0, -0.5, math.nan, -math.inf]))
def test_any_number_off_the_sampled_spans_is_refused(position, number):
    """Prompt and tool tokens have no log-probability, least of all the 0.0 of certainty."""
    logprobs = [None, None, -0.5, -0.6, None, None]
    logprobs[position] = number
    mask = [False, False, True, True, False, False]
    row = trace("t1", [-0.5, -0.6], token_ids=[1, 2, 3, 4, 5, 6], token_logprobs=logprobs, action_mask=mask)
    message = refused(trace("t0", [-0.1]), row | {"spans": [span("c1", 2, 4)]})
    assert f"trace t1, sequence 0, position {position}: token_logprobs is {number} off the sampled spans" in message


@given(st.sampled_from([None, math.nan, math.inf, -math.inf, 0.5, -9999.0, -1e4]))
def test_an_action_token_needs_a_log_probability(number):
    """Finite, above -9999 and not positive, wherever action_mask is true."""
    message = refused(trace("t1", [-0.5, number]))
    assert f"trace t1, sequence 0, position 3: token_logprobs is {number} where action_mask is true" in message


def test_certainty_is_a_log_probability():
    """Exactly 0 is what a token of probability 1 has."""
    check(trace("t1", [0.0, -0.0]))


def test_a_call_with_a_fault_keeps_its_place_without_numbers():
    """Its span is there, its mask false, its log-probabilities null or finite."""
    fault = {"action_mask": [False] * 4, "num_action_tokens": 0, "spans": [span("c1", 2, 4, fault="len_mismatch")]}
    check(trace("t1", [None, -0.5], **fault))
    assert "position 2: token_logprobs is nan on a sampled span" in refused(trace("t1", [math.nan, -0.5], **fault))


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([False, True, True, True], "position 1: action_mask is true off such a span"),
        ([False, False, True, False], "position 3: action_mask is false on a span"),
    ],
)
def test_the_mask_is_exactly_the_owned_faultless_spans(mask, words):
    """A mask that says more or less than the spans is refused."""
    assert words in refused(trace("t1", [-0.5, -0.6], action_mask=mask))


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ([span("c1", 2, 5)], "[2, 5) of 4 tokens leaves the sequence"),
        ([span("c1", -1, 2)], "[-1, 2) of 4 tokens leaves"),
        ([span("c1", 3, 2)], "[3, 2) of 4 tokens leaves"),
        ([span("c1", 2, 4), span("c2", 3, 4)], "[3, 4) of 4 tokens begins before 4"),
        ([span("c1", 3, 4), span("c2", 2, 3)], "[2, 3) of 4 tokens begins before 4"),
        ([span("c1", 2, 4) | {"owned": None}], "a null owned in spans"),
    ],
)
def test_spans_are_sorted_disjoint_and_inside(spans, words):
    """A span that leaves the sequence or overlaps another is refused; those of other rows do not matter."""
    assert words in refused(trace("t0", [-0.5, -0.6]), trace("t1", [-0.5, -0.6], spans=spans))


def test_version_spans_keep_the_same_rules():
    """The spans of versions lie within the sequence as well."""
    message = refused(trace("t1", [-0.5], version_spans=[{"policy_version": "v1", "start": 2, "end": 9}]))
    assert "version_spans [2, 9) of 3 tokens leaves the sequence" in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_action_tokens": 1}, "num_action_tokens is 1; expected 2"),
        ({"prompt_length": 3}, "prompt_length is 3; expected 2"),
        ({"token_ids": [1, 2, -3, 4]}, "position 2: token id -3"),
        ({"token_ids": [1, None, 3, 4]}, "position 1: token_ids is null"),
        ({"action_mask": [False, False, None, True]}, "position 2: action_mask is null"),
        ({"num_sequences": 2}, "trace t1, revision 0: 1 sequences from 0 to 0 for num_sequences 2"),
        ({"sequence_index": 1}, "1 sequences from 1 to 1 for num_sequences 1"),
    ],
)
def test_counts_and_values_agree_with_the_lists(change, words):
    """Whatever a row says of its lists is so."""
    assert words in refused(trace("t0", [-0.5]), trace("t1", [-0.5, -0.6], **change))


def test_lines_add_up_to_their_states():
    """A reading of a file whose lines are not all accounted for is refused."""
    ledger = table("source_files")
    check_source_files(conform(ledger, [source_file("a", 3, 2, 1, 4)]))
    with pytest.raises(InputError, match=r"a: 11 lines, but 3 \+ 2 \+ 1 \+ 4"):
        check_source_files(conform(ledger, [source_file("b", 1), source_file("a", 3, 2, 1, 4, num_lines=11)]))
