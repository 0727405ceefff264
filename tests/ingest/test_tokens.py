"""What log-probabilities name, and what they do not."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.formats.chat import Logprobs
from ingest.formats.tokens import exact_ids, texts_of, tokens_of
from schemas.errors import LineError
from tests.ingest.openai_made import L2, TEXTS, arrays, chat, codes, completion, entries, ids, numbers, read_one


def decoded(document: dict) -> Logprobs:
    """Log-probabilities as a decoder gives them."""
    return msgspec.convert(document, Logprobs)


def test_a_sentinel_of_the_server_is_a_fault_and_no_number_of_the_sampler():
    """-9999.0 is vLLM's default of the field: it stays where it is and is named."""
    call = read_one(
        chat(stop_reason=None, token_ids=[1, 2, 3], logprobs={"content": entries([-0.5, -9999.0, -1], TEXTS)})
    )
    assert numbers(call.token_logprobs) == [-0.5, -9999.0, -1.0]
    assert "sentinel_logprob" in codes(call)


@pytest.mark.parametrize(
    "logprobs",
    [{"content": entries([-0.3, None, -0.01], TEXTS)}, {"content": [{"token": "a"}, *entries(L2[1:], TEXTS[1:])]}],
)
def test_a_null_or_absent_logprob_is_missing(logprobs):
    """It is never taken for 0, and the numbers after it keep their places."""
    call = read_one(chat(stop_reason=None, token_ids=[1, 2, 3], logprobs=logprobs))
    assert "no_behavior_logprobs" in codes(call)
    assert (numbers(call.token_logprobs) or [])[2] == -0.01


def test_null_logprobs_are_no_logprobs():
    """Of the choice, of its content, and of the arrays."""
    for logprobs in (None, {"content": None, "refusal": None}, {"tokens": None, "token_logprobs": None}):
        assert read_one(chat(stop_reason=None, token_ids=[1, 2, 3], logprobs=logprobs)).token_logprobs is None


def test_logprobs_of_a_refusal_are_logprobs():
    """OpenAI lists them apart from the content's."""
    refusal = {"content": None, "refusal": entries([-0.5, -1.0], ["I", " can't"])}
    call = read_one(chat(logprobs=refusal, message={"content": None, "refusal": "I can't"}))
    assert (numbers(call.token_logprobs), call.reply_text) == ([-0.5, -1.0], "I can't")


def test_top_tokens_keyed_by_text_are_not_kept():
    """Two tokens of one text collapse into one key, so the list cannot be of ids."""
    by_text = completion(logprobs=arrays([-1.0], ["a"], top_logprobs=[{"a": -1.0, "b": -2.0}]))
    by_id = completion(logprobs=arrays([-1.0], ["token_id:5"], top_logprobs=[{"token_id:5": -1.0, "token_id:6": -2.0}]))
    odd = completion(logprobs=arrays([-1.0], ["a"], top_logprobs={"a": -1.0}))
    assert (read_one(by_id).top_token_ids, read_one(by_id).top_token_logprobs) == ([[5, 6]], [[-1.0, -2.0]])
    assert [read_one(one).top_token_ids for one in (by_text, odd)] == [None, None]
    assert ["top_tokens_without_ids" in read_one(one).notes for one in (by_text, odd)] == [True, True]


def test_a_null_list_of_alternatives_is_none():
    """None were asked for."""
    content = entries(L2, TEXTS, top_logprobs=[None, None, None])
    call = read_one(chat(stop_reason=None, token_ids=[1, 2, 3], logprobs={"content": content}))
    assert (call.top_token_ids, call.notes, numbers(call.token_logprobs)) == (None, (), L2)


@given(st.integers(0, 2**31 - 1))
def test_any_id_that_is_logged_as_a_float_is_read_exactly(one):
    """JSON has one kind of number."""
    assert exact_ids([float(one), one]) == [one, one]


@pytest.mark.parametrize("value", [1.5, -1.0, 2.0**31, 2**53, 1e300, -1])
def test_a_number_that_is_no_id_is_refused(value):
    """Nothing is rounded."""
    with pytest.raises(LineError) as refused:
        exact_ids([value])
    assert refused.value.reason == "bad_field"


def test_one_entry_without_an_id_takes_all_ids_away():
    """An id that is missing in the middle would shift the rest."""
    tokens = tokens_of(decoded({"content": entries(L2, TEXTS, token_id=[401, None, 13])}))
    assert tokens is not None
    assert tokens.spelled is None
    assert exact_ids([401.0, None]) is None


def test_texts_that_spell_ids_are_no_texts():
    """`token_id:13` says nothing of what was written."""
    assert texts_of(decoded({"content": entries(L2, TEXTS)})) == TEXTS
    assert texts_of(decoded(arrays(L2, ["token_id:1", "token_id:2", "token_id:3"]))) == []


def test_ids_of_the_entries_are_compared_with_the_list():
    """A list shifted by one has the right length and the wrong tokens."""
    content = entries(L2, TEXTS, token_id=[401, 402, 13], sampling_logprob=L2)
    good = chat(token_ids=[401, 402, 13], logprobs={"content": content})
    shifted = chat(token_ids=[13, 401, 402], logprobs={"content": content})
    assert (ids(read_one(good).token_ids), read_one(good).notes) == ([401, 402, 13], ())
    assert "ids_disagree" in codes(read_one(shifted))
