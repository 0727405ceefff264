"""Tokens behind a stop string are told from the one that completes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingest.formats.stop_strings import behind_stop
from tests.ingest.openai_made import chat, completion, entries, ids, read_one


def test_the_token_that_completes_the_stop_string_stays():
    """As a real vLLM logs it: stop "e", text "AY", ids of "AY" and "emi", two log-probabilities."""
    answer = chat(
        stop_reason="e", token_ids=[20, 21], message={"content": "AY"},
        logprobs={"content": entries([-0.5, -0.25], ["AY", "emi"])}, head={"usage": {"completion_tokens": 2}},
    )  # fmt: skip
    call = read_one(answer)
    assert (ids(call.token_ids), call.masked_positions, call.stop_reason) == ([20, 21], (), "e")
    assert call.notes == ()


def test_tokens_wholly_behind_the_stop_string_are_masked():
    """Speculative decoding lists tokens that nobody was served."""
    answer = chat(
        matched_stop="END", response_token_ids=[1, 2, 3, 4], message={"content": "ok "},
        logprobs={"content": entries([-1.0] * 4, ["ok ", "EN", "D.", "more"])}, head={"usage": None},
    )  # fmt: skip
    call = read_one(answer)
    assert (call.masked_positions, call.notes, len(ids(call.token_ids) or [])) == ((3,), (), 4)


@given(st.lists(st.text("ab", min_size=1, max_size=3), max_size=6), st.lists(st.text("abX", max_size=3), max_size=3))
def test_any_tokens_after_the_stop_and_none_before_are_behind(before, after):
    """The stop string stands in the first text that has an X."""
    texts = [*before, "aXb", *after]
    expected = tuple(range(len(before) + 1, len(texts)))
    assert behind_stop(texts, "".join(before) + "a", "X") == expected
    assert behind_stop(texts, None, "X") == expected
    assert behind_stop([*before, "X", *after], "".join(before) + "X", "X") == expected


def test_the_reply_says_where_a_stop_string_that_came_before_did_not_stop():
    """With min_tokens the engine passes over the first ones."""
    assert behind_stop(["a", "X", "b", "X", "c"], "aXb", "X") == (4,)
    assert behind_stop(["X"], "", "X") == ()


def test_a_stop_string_that_the_tokens_do_not_spell_is_noted():
    """Nothing is masked, for nothing says what is behind."""
    lossy = chat(stop_reason="é", token_ids=[1, 2], logprobs={"content": entries([-1.0] * 2, ["\ufffd", "\ufffd"])})
    spelled = completion(stop_reason="x", token_ids=[1], logprobs={"tokens": ["token_id:1"], "token_logprobs": [-1.0]})
    for answer in (lossy, spelled):
        call = read_one(answer)
        assert call.masked_positions == ()
        assert "stop_string_not_found" in call.notes


def test_a_stop_by_token_masks_nothing():
    """The stop token itself was sampled."""
    answer = chat(stop_reason=13, token_ids=[1, 13], logprobs={"content": entries([-1.0] * 2, ["a", "b"])})
    call = read_one(answer)
    assert (call.stop_reason, call.masked_positions, call.notes) == ("13", (), ())
