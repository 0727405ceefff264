"""Ids and log-probabilities beside OpenAI's fields."""

from __future__ import annotations

import pytest

from tests.ingest.openai_made import L2, TEXTS, chat, codes, entries, ids, numbers, read, read_one

G2 = [401, 402, 13]
TRIPLES = [[-0.3, 401, None], [-0.2, 402, "ed."], [-0.01, 13, None]]
CONTENT = {"content": entries(L2, TEXTS)}


@pytest.mark.parametrize(
    "choice",
    [
        {"token_ids": G2}, {"response_token_ids": G2}, {"provider_specific_fields": {"token_ids": G2, "other": 1}},
        {"message": {"provider_specific_fields": {"token_ids": G2}}}, {"raw_output": {"completion_token_ids": G2}},
        {"meta_info": {"output_token_logprobs": TRIPLES}}, {"head": {"sglext": {"output_ids": G2}}},
        {"sglext": {"output_ids": G2}},
    ],
)  # fmt: skip
def test_ids_are_found_wherever_a_server_or_gateway_puts_them(choice):
    """LiteLLM moves them aside, SGLang and Fireworks have places of their own."""
    call = read_one(chat(logprobs=CONTENT, **choice))
    assert (ids(call.token_ids), numbers(call.token_logprobs), call.notes) == (G2, L2, ())


def test_two_lists_of_ids_must_be_the_same():
    """One of them is of something else."""
    assert "ids_disagree" in codes(read_one(chat(token_ids=G2, response_token_ids=G2[:2], matched_stop=None)))
    triples = chat(response_token_ids=G2[::-1], meta_info={"output_token_logprobs": TRIPLES})
    assert "ids_disagree" in codes(read_one(triples))


def test_triples_give_the_logprobs_where_openais_field_is_null():
    """The log-probability comes first in them, the id second."""
    call = read_one(chat(logprobs=None, meta_info={"output_token_logprobs": TRIPLES}))
    assert (ids(call.token_ids), numbers(call.token_logprobs), call.logprob_kind) == (G2, L2, None)


def test_sampling_logprobs_say_their_kind():
    """They are of the distribution that was drawn from; a list of another length is not used."""
    meta = {"output_token_logprobs": TRIPLES, "output_token_sampling_logprobs": [-0.25, -0.125, 0]}
    call = read_one(chat(logprobs=CONTENT, meta_info=meta))
    assert (numbers(call.token_logprobs), call.logprob_kind) == ([-0.25, -0.125, 0.0], "processed")
    meta["output_token_sampling_logprobs"] = [-0.25]
    call = read_one(chat(logprobs=CONTENT, meta_info=meta))
    assert (numbers(call.token_logprobs), call.logprob_kind) == (L2, None)


def test_a_request_that_was_put_back_is_noted():
    """Its prompt was read anew, perhaps by other weights."""
    assert read_one(chat(token_ids=G2, meta_info={"num_retractions": 1})).notes == ("request_retracted",)


def test_extras_of_the_response_are_of_no_choice_where_there_are_two():
    """Nothing says whose they are."""
    answer = chat(head={"sglext": {"output_ids": G2}, "usage": None})
    answer["choices"].append({**answer["choices"][0], "index": 1})
    assert [call.token_ids for call in read(answer)] == [None, None]


@pytest.mark.parametrize("fields", [None, {}, {"token_ids": None}])
def test_extras_that_say_nothing_change_nothing(fields):
    """LiteLLM writes the key whether or not there is anything in it."""
    call = read_one(
        chat(logprobs=CONTENT, provider_specific_fields=fields, message={"provider_specific_fields": fields})
    )
    assert (call.token_ids, numbers(call.token_logprobs)) == (None, L2)
