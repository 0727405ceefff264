"""Text Generation Inference's own /generate: details, streams, what sampled."""

from __future__ import annotations

import pytest

from tests.ingest.hand_made import G2, P2
from tests.ingest.native_made import LOGPROBS, calls, faults, ids, is_the_toy, payload, refusal, sampled, wrappings

NAME = "tgi_generate.response.json"
SAMPLING = {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "repetition_penalty": 1.0}
REQUEST = {"inputs": "refund 41?", "parameters": {**SAMPLING, "details": True, "decoder_input_details": True}}


def answer(**details):
    """The toy's answer with its prompt, and other details."""
    document = payload(NAME)
    document["details"] |= {"prefill": [{"id": one, "text": "", "logprob": None} for one in P2], **details}
    return document


def event(place, token_id, logprob, **fields):
    """One event of a stream."""
    token = {"id": token_id, "text": "", "logprob": logprob, "special": False}
    return {"index": place, "token": token, "generated_text": None, "details": None, **fields}


STREAM = [
    event(1, 401, -0.3),
    event(2, 402, -0.2),
    event(3, 13, -0.01, generated_text="Refunded.", details={"finish_reason": "eos_token", "generated_tokens": 3}),
]


@pytest.mark.parametrize("shape", ["bare", "wrapped", "envelope"])
def test_the_answer_with_its_prompt_is_the_toys_second_call(shape):
    """A token that is special was sampled like any other."""
    (call,) = calls(wrappings(answer(), REQUEST)[shape])
    assert is_the_toy(call)
    assert (call.log_format, call.engine, call.model, call.finish_reason) == ("tgi_generate", "tgi", "", "stop")
    assert (call.logprob_kind, call.num_completion_tokens, call.notes) == ("processed", 3, ())


def test_the_example_lacks_its_prompt():
    """Version 3 does not list it unless it is told to."""
    (call,) = calls(payload(NAME))
    assert sampled(call) == (G2, LOGPROBS)
    assert "no_prompt_ids" in faults(call)


def test_an_answer_without_details_is_text():
    """It is a call all the same."""
    (call,) = calls({"request": REQUEST, "response": {"generated_text": "Refunded."}})
    assert (call.reply_text, call.token_ids, call.token_logprobs) == ("Refunded.", None, None)


def test_the_compatible_route_answers_with_a_list_of_one():
    """More than one are no stream."""
    (call,) = calls({"request": REQUEST, "response": [answer()]})
    assert is_the_toy(call)
    assert not call.streamed or call.notes == ()
    assert refusal({"request": REQUEST, "response": [answer(), answer()]}) == "stream_incomplete"


def test_a_stream_is_put_together_by_its_events():
    """One token an event; the last says why it ended."""
    (call,) = calls({"request": REQUEST, "chunks": STREAM})
    assert sampled(call) == (G2, LOGPROBS)
    assert (call.streamed, call.finish_reason, call.num_completion_tokens) == (True, "stop", 3)
    assert call.reply_text == "Refunded."


def test_a_lost_event_shows_in_the_count():
    """The tokens are one too few."""
    (call,) = calls({"request": REQUEST, "chunks": STREAM[1:]})
    assert "len_mismatch" in faults(call)


def test_a_stream_without_its_end_is_cut():
    """The last event has the details."""
    (call,) = calls({"request": REQUEST, "chunks": STREAM[:2]})
    assert (ids(call.token_ids), call.finish_reason, call.notes) == (G2[:2], "abort", ("stream_cut",))


def test_an_event_alone_is_no_response():
    """Its neighbours are on other lines, which nothing ties to it."""
    assert refusal(STREAM[0]) == "stream_incomplete"


@pytest.mark.parametrize(
    ("parameters", "note"),
    [
        ({}, "greedy_sampling"),
        ({"temperature": 1.0, "top_p": 1.0}, "greedy_sampling"),
        ({"do_sample": True, "typical_p": 0.9}, "truncated_support"),
        ({"do_sample": True, "watermark": True}, "penalised_sampling"),
        ({"do_sample": True, "grammar": {"type": "json", "value": {}}}, "grammar_constrained"),
    ],
    ids=str,
)
def test_what_changed_the_distribution_is_noted(parameters, note):
    """Without do_sample and without a warper the likeliest token is taken."""
    (call,) = calls({"request": {"inputs": "x", "parameters": parameters}, "response": answer()})
    assert call.notes == (note,)


def test_a_temperature_alone_makes_it_sample():
    """A warper turns sampling on."""
    (call,) = calls({"request": {"inputs": "x", "parameters": {"temperature": 0.5}}, "response": answer()})
    assert call.notes == ()


@pytest.mark.parametrize(("reason", "finish"), [("length", "length"), ("stop_sequence", "stop"), ("eos_token", "stop")])
def test_the_reasons_to_stop_have_one_spelling(reason, finish):
    """Those of the other formats."""
    assert calls(answer(finish_reason=reason))[0].finish_reason == finish


def test_the_best_of_several_says_so():
    """It was chosen by its likelihood, which the numbers do not say."""
    other = {"generated_text": "No.", "finish_reason": "length", "generated_tokens": 1, "prefill": []}
    other["tokens"] = [{"id": 9, "text": "No.", "logprob": -2.0, "special": False}]
    best, rest = calls(answer(best_of_sequences=[other]))
    assert (best.num_choices, rest.choice_index, ids(rest.token_ids)) == (2, 1, [9])
    assert "best_of_n" in faults(best)


def test_a_null_number_is_missing():
    """It keeps its place."""
    tokens = [{"id": 401, "logprob": None}, {"id": 402, "logprob": -0.2}]
    assert calls(answer(tokens=tokens))[0].notes == ("no_behavior_logprobs",)
    assert refusal(answer(tokens=[{"id": 4.5, "logprob": -0.2}])) == "bad_field"
