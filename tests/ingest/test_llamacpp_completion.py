"""llama.cpp's own /completion: log-probabilities against probabilities, settings as applied."""

from __future__ import annotations

import math

import pytest

from tests.ingest.hand_made import G2, P2
from tests.ingest.native_made import (
    LOGPROBS,
    calls,
    faults,
    ids,
    is_the_toy,
    numbers,
    payload,
    refusal,
    sampled,
    wrappings,
)

NAME = "llamacpp_completion.response.json"
REQUEST = {"prompt": P2, "temperature": 0.2, "n_probs": 1, "return_tokens": True}


def answer(**fields):
    """The toy's answer, with other fields."""
    return {**payload(NAME), **fields}


def entries(values, name):
    """Entries with numbers under that name."""
    return [{"id": one, "token": "", name: value} for one, value in zip(G2, values, strict=True)]


@pytest.mark.parametrize("shape", ["wrapped", "envelope"])
def test_the_example_is_the_toys_second_call(shape):
    """With the parameters that the server applied, whatever was asked for."""
    (call,) = calls(wrappings(payload(NAME), REQUEST)[shape])
    assert is_the_toy(call)
    assert (call.log_format, call.engine, call.model) == ("llamacpp_completion", "llama.cpp", "alias")
    assert (call.sampling["temperature"], call.logprob_kind, call.finish_reason) == (1.0, "raw", "stop")
    assert call.notes == ()


def test_a_bare_answer_lacks_only_its_prompt():
    """The server repeats it as text."""
    (call,) = calls(payload(NAME))
    assert sampled(call) == (G2, LOGPROBS)
    assert "no_prompt_ids" in faults(call)


def test_a_probability_is_a_logprob_only_where_the_settings_say_so():
    """Its logarithm is of the distribution after sampling; a probability of 0 is no measurement."""
    probabilities = entries([0.5, 1.0, 0.25], "prob")
    (stated,) = calls(answer(completion_probabilities=probabilities, generation_settings={"post_sampling_probs": True}))
    (unstated,) = calls(answer(completion_probabilities=probabilities))
    (zero,) = calls(
        answer(
            completion_probabilities=entries([0.0, 1.0, 1.0], "prob"), generation_settings={"post_sampling_probs": True}
        )
    )
    assert numbers(stated.token_logprobs) == [float(f"{math.log(p):.6g}") for p in (0.5, 1.0, 0.25)]
    assert (stated.logprob_kind, unstated.token_logprobs) == ("processed", None)
    assert "nonfinite_logprob" in faults(zero)


def test_a_probability_above_one_is_refused():
    """It is something else."""
    settings = {"post_sampling_probs": True}
    document = answer(completion_probabilities=entries([1.5, 1.0, 1.0], "prob"), generation_settings=settings)
    assert refusal(document) == "bad_field"


def test_older_entries_name_neither_ids_nor_logprobs():
    """They are texts with probabilities of some distribution."""
    older = [{"content": "Refund", "probs": [{"tok_str": "Refund", "prob": 0.7}]}]
    (call,) = calls(answer(tokens=None, completion_probabilities=older, stop_type=None, stopped_limit=True))
    assert (call.token_ids, call.finish_reason) == (None, "length")
    assert numbers(call.token_logprobs) is None or "no_behavior_logprobs" in call.notes


def test_the_entries_name_the_ids_where_they_were_not_asked_for():
    """An empty list is what the server writes then."""
    assert ids(calls(answer(tokens=[]))[0].token_ids) == G2
    (call,) = calls(answer(tokens=[], completion_probabilities=None))
    assert call.token_ids is None


def test_ids_are_compared_one_by_one():
    """Lists shifted by one have the right length and the wrong tokens."""
    assert calls(answer(tokens=[402, 13, 7]))[0].notes == ("ids_disagree",)


def test_a_shifted_context_takes_the_prompt_away():
    """A part of it was dropped while the reply was sampled."""
    (call,) = calls({"request": REQUEST, "response": answer(truncated=True)})
    assert (call.prompt_token_ids, call.notes) == (None, ("context_shifted",))


@pytest.mark.parametrize("prompt", ["refund 41?", ["refund", 41], P2[:-1], None], ids=str)
def test_a_prompt_that_is_not_the_ids_that_were_read_is_no_prompt(prompt):
    """A text is not its tokens, and fewer ids than the server counted are not all."""
    (call,) = calls({"request": {**REQUEST, "prompt": prompt}, "response": payload(NAME)})
    assert call.prompt_token_ids is None


STREAM = [
    {"index": 0, "content": "Refund", "tokens": [401], "stop": False, "tokens_predicted": 1, "tokens_evaluated": 14},
    {"index": 0, "content": "ed.", "tokens": [402], "stop": False, "tokens_predicted": 2, "tokens_evaluated": 14},
    {"index": 0, "content": "", "tokens": [13], "stop": False, "tokens_predicted": 3, "tokens_evaluated": 14},
    {**payload(NAME), "content": "", "tokens": [], "completion_probabilities": []},
]
for chunk, entry in zip(STREAM, payload(NAME)["completion_probabilities"], strict=False):
    chunk["completion_probabilities"] = [entry]


def test_a_stream_is_put_together_by_its_chunks():
    """The last has no token, but the settings and the reason."""
    (call,) = calls({"request": REQUEST, "chunks": STREAM})
    assert is_the_toy(call)
    assert (call.reply_text, call.finish_reason, call.streamed) == ("Refunded.", "stop", True)


def test_a_stream_without_its_end_is_cut():
    """Its tokens are exact as far as they go."""
    (call,) = calls({"request": REQUEST, "chunks": STREAM[:2]})
    assert (ids(call.token_ids), call.finish_reason, call.notes) == (G2[:2], "abort", ("stream_cut",))


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        ({"typical_p": 0.9}, "truncated_support"),
        ({"mirostat": 2}, "truncated_support"),
        ({"xtc_probability": 0.5}, "truncated_support"),
        ({"dry_multiplier": 0.8}, "penalised_sampling"),
        ({"grammar": "root ::= 'x'"}, "grammar_constrained"),
    ],
    ids=str,
)
def test_what_changed_the_distribution_is_noted(settings, note):
    """Under llama.cpp's own names."""
    assert calls(answer(generation_settings=settings))[0].notes == (note,)


def test_the_repetition_penalty_has_the_others_name():
    """So that one rule finds it."""
    assert calls(answer(generation_settings={"repeat_penalty": 1.5}))[0].sampling == {"repetition_penalty": 1.5}


@pytest.mark.parametrize(
    ("texts", "masked", "notes"),
    [(["Refunded.", "###", "x"], (2,), ()), (["Refunded.", "##", "#x"], (), ()),
     (["Refunded.", "##", ""], (), ("stop_string_not_found",)),
     (["Refunded.", "###", None], (), ("stop_string_not_found",))],
)  # fmt: skip
def test_tokens_behind_a_stop_word_are_masked(texts, masked, notes):
    """Where each token has its text; newer servers leave the tokens of the stop word out of the texts."""
    told = [{"id": one, "token": text, "logprob": -0.5} for one, text in zip(G2, texts, strict=True)]
    (call,) = calls(answer(completion_probabilities=told, stop_type="word", stopping_word="###"))
    assert (call.masked_positions, call.stop_reason, call.notes) == (masked, "###", notes)
