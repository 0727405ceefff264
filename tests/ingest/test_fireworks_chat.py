"""Fireworks' two log-probabilities."""

from __future__ import annotations

from tests.ingest.openai_made import L2, codes, numbers, payload, read_one


def test_nobody_says_what_the_numbers_are_of():
    """Not even where the two agree."""
    call = read_one(payload("fireworks_chat.response"))
    assert (call.engine, call.logprob_kind, call.notes) == ("fireworks", None, ())
    assert "logprob_kind_unknown" in codes(call)


def test_two_numbers_that_differ_are_noted_and_the_first_is_kept():
    """The vendor has to say which of them was sampled from."""
    answer = payload("fireworks_chat.response")
    answer["choices"][0]["logprobs"]["content"][1]["sampling_logprob"] = -0.25
    call = read_one(answer)
    assert (numbers(call.token_logprobs), call.notes) == (L2, ("sampling_logprob_differs",))
