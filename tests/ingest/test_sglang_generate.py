"""SGLang's own /generate: triples, spans, streams in both forms, several answers."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ingest.hand_made import G2, P1, P2
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

NAME = "sglang_generate.response.json"
REQUEST = {
    "input_ids": P2,
    "sampling_params": {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    "return_logprob": True,
}


def answer(**meta):
    """The toy's answer, with other fields of meta_info."""
    document = payload(NAME)
    document["meta_info"] |= meta
    return document


def chunk(text, sampled_ids, triples, count, finish=None, **fields):
    """One chunk of a stream."""
    meta = {"id": "r-1", "prompt_tokens": 14, "completion_tokens": count, "finish_reason": finish}
    meta["output_token_logprobs"] = triples
    return {"text": text, "output_ids": sampled_ids, "meta_info": meta, **fields}


TRIPLES = [[-0.3, 401, None], [-0.2, 402, None], [-0.01, 13, None]]
STOP = {"type": "stop", "matched": 13}


@pytest.mark.parametrize("shape", ["wrapped", "envelope"])
def test_the_example_is_the_toys_second_call(shape):
    """Prompt as sent, tokens, numbers and version as answered."""
    (call,) = calls(wrappings(payload(NAME), REQUEST)[shape])
    assert is_the_toy(call)
    assert (call.log_format, call.engine, call.response_id) == ("sglang_generate", "sglang", "ask-41-a1-c2")
    assert (call.finish_reason, call.stop_reason, call.weight_spans) == ("stop", "13", (("7", 0, 3),))
    assert call.sampling["top_k"] == -1
    assert call.notes == ()


def test_a_bare_answer_lacks_only_its_prompt():
    """The server does not repeat the prompt's ids unless it is asked to."""
    (call,) = calls(payload(NAME))
    assert sampled(call) == (G2, LOGPROBS)
    assert "no_prompt_ids" in faults(call)
    assert "no_token_ids" not in faults(call)


def test_the_listed_prompt_counts_only_when_it_is_whole():
    """logprob_start_len may begin anywhere; as many ids as the server counted are the whole prompt."""
    listed = [[None if place == 0 else -1.0, one, None] for place, one in enumerate(P2)]
    (whole,) = calls(answer(input_token_logprobs=listed))
    (part,) = calls(answer(input_token_logprobs=listed[4:]))
    assert (ids(whole.prompt_token_ids), part.prompt_token_ids) == (P2, None)


def test_a_prompt_of_another_length_than_the_server_counted_is_no_prompt():
    """An image stands for many tokens that were never sent."""
    (call,) = calls({"request": {**REQUEST, "input_ids": P2[:-1]}, "response": payload(NAME)})
    assert call.prompt_token_ids is None


@pytest.mark.parametrize(
    "triple",
    [[401, -0.3, None], [-0.3, "401", None], ["-0.3", 401, None], [-0.3, 401.0, None], [-0.3], [-0.3, 401, None, 1]],
    ids=str,
)
def test_a_triple_of_another_order_or_type_is_refused(triple):
    """The log-probability comes first and is a number, the id second and is an integer."""
    assert refusal(answer(output_token_logprobs=[triple, *TRIPLES[1:]])) == "bad_field"


def test_ids_are_compared_one_by_one():
    """Lists shifted by one have the right length and the wrong tokens."""
    (call,) = calls({**answer(), "output_ids": [402, 13, 7]})
    assert call.notes == ("ids_disagree",)


def test_older_servers_name_the_ids_in_the_triples_alone():
    """output_ids is missing there."""
    document = answer()
    del document["output_ids"]
    (call,) = calls(document)
    assert sampled(call) == (G2, LOGPROBS)


def test_the_distribution_that_was_sampled_from_is_preferred():
    """Its numbers are processed; where it does not cover every token, the others stand, of a kind the settings say."""
    (call,) = calls(answer(output_token_sampling_logprobs=[-0.25, -0.1, 0.0]))
    assert (numbers(call.token_logprobs), call.logprob_kind) == ([-0.25, -0.1, 0.0], "processed")
    (call,) = calls(answer(output_token_sampling_logprobs=[-0.25]))
    assert (numbers(call.token_logprobs), call.logprob_kind) == (LOGPROBS, None)


def test_spans_win_over_the_version_at_the_end():
    """The single version is that of the moment when the answer was built."""
    spans = [{"version": "7", "start": 0, "end": 1}, {"version": "8", "start": 1, "end": 3}]
    (two,) = calls(answer(weight_version="8", weight_versions=spans))
    (one,) = calls(answer(weight_version="8", weight_versions=None))
    assert two.weight_spans == (("7", 0, 1), ("8", 1, 3))
    assert one.weight_spans == (("8", 0, 3),)


def test_spans_that_leave_a_token_out_are_a_fault():
    """The version of the first token is not that of the other two."""
    (call,) = calls(answer(weight_versions=[{"version": "v1", "start": 0, "end": 1}]))
    assert (call.weight_spans, "version_spans_incomplete" in faults(call)) == ((("v1", 0, 1),), True)


def test_a_retracted_request_is_noted():
    """Its cache was computed anew, perhaps under other weights."""
    (call,) = calls(answer(num_retractions=2))
    assert call.notes == ("request_retracted",)


def test_the_floor_of_speculative_decoding_is_a_sentinel():
    """float32's lowest number is no measurement."""
    triples = [[-3.4028234663852886e38, 401, None], *TRIPLES[1:]]
    (call,) = calls(answer(output_token_logprobs=triples))
    assert "sentinel_logprob" in faults(call)


def test_missing_numbers_are_missing():
    """A null keeps its place; an empty list beside tokens is no list."""
    (null,) = calls(answer(output_token_logprobs=[[None, 401, None], *TRIPLES[1:]]))
    (empty,) = calls(answer(output_token_logprobs=[]))
    assert null.notes == ("no_behavior_logprobs",)
    assert empty.token_logprobs is None


@pytest.mark.parametrize(
    ("sampling", "note"),
    [({"json_schema": "{}"}, "grammar_constrained"), ({"min_new_tokens": 4}, "truncated_support")],
)
def test_what_changed_the_distribution_is_noted(sampling, note):
    """Under SGLang's own names."""
    (call,) = calls({"request": {**REQUEST, "sampling_params": sampling}, "response": payload(NAME)})
    assert call.notes == (note,)


def test_an_abort_is_a_call_that_says_so():
    """Its tokens are partial."""
    (call,) = calls(answer(finish_reason={"type": "abort", "message": "stopped", "status_code": 503}))
    assert call.finish_reason == "abort"


CUMULATIVE = [
    chunk("Re", [401], TRIPLES[:1], 1),
    chunk("Refunded.", [401, 402], TRIPLES[:2], 2),
    chunk("Refunded.", [401, 402, 13], TRIPLES, 3, STOP),
]
DELTAS = [
    chunk("Re", [401], TRIPLES[:1], 1),
    chunk("funded.", [402], TRIPLES[1:2], 2),
    chunk("", [13], TRIPLES[2:], 3, STOP),
]


@pytest.mark.parametrize("chunks", [CUMULATIVE, DELTAS, CUMULATIVE[-1:]], ids=["cumulative", "deltas", "last"])
def test_both_forms_of_a_stream_are_one_answer(chunks):
    """The same fields mean everything so far, or what is new."""
    (call,) = calls({"request": REQUEST, "chunks": chunks})
    assert is_the_toy(call)
    assert (call.reply_text, call.finish_reason, call.num_completion_tokens) == ("Refunded.", "stop", 3)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.data())
def test_any_stream_of_either_form_gives_its_tokens(tokens, data):
    """However it was cut into chunks, with tokens repeated at will."""
    ends = sorted({*data.draw(st.lists(st.integers(1, len(tokens)), max_size=4)), len(tokens)})
    begins = [0, *ends[:-1]]
    triples = [[-0.5, one, None] for one in tokens]
    is_cumulative = data.draw(st.booleans())
    chunks = [
        chunk("", tokens[0 if is_cumulative else a : b], triples[0 if is_cumulative else a : b], b, STOP)
        for a, b in zip(begins, ends, strict=True)
    ]
    (call,) = calls({"chunks": chunks})
    assert sampled(call) == (tokens, [-0.5] * len(tokens))


@pytest.mark.parametrize("count", [2, None])
def test_a_text_that_is_sampled_again_is_kept(count):
    """The ids say that the stream goes on: the last text begins with the one before in either form."""
    pieces = [chunk("ha", [5], [[-0.5, 5, None]], 1), chunk("ha", [5], [[-0.5, 5, None]], count, STOP)]
    (call,) = calls({"chunks": pieces})
    assert (call.reply_text, ids(call.token_ids)) == ("haha", [5, 5])


def test_equal_pieces_without_a_count_are_tokens_sampled_again():
    """A stream that repeats itself grows; one that does not grow goes on."""
    pieces = [chunk("ha", [5], [[-0.5, 5, None]], None, finish) for finish in (None, None, STOP)]
    (call,) = calls({"chunks": pieces})
    assert (call.reply_text, ids(call.token_ids), len(numbers(call.token_logprobs))) == ("hahaha", [5, 5, 5], 3)


def test_a_stream_of_text_alone_goes_by_its_growth():
    """Without ids three growing texts say that each repeats the one before."""
    growing = [{"text": text, "meta_info": {"id": "r-1"}} for text in ("Re", "Refund", "Refunded.")]
    equal = [{"text": "ha", "meta_info": {"id": "r-1"}} for _ in range(3)]
    assert [calls({"chunks": pieces})[0].reply_text for pieces in (growing, equal)] == ["Refunded.", "hahaha"]


def test_ids_that_go_on_beside_numbers_that_repeat_are_both_whole():
    """Each list goes by its own ids; the text goes by `output_ids`."""
    pieces = [chunk("Re", [401], TRIPLES[:1], 1), chunk("funded.", [402], TRIPLES[:2], 2)]
    (call,) = calls({"request": REQUEST, "chunks": [*pieces, chunk("", [13], TRIPLES, 3, STOP)]})
    assert is_the_toy(call)
    assert call.reply_text == "Refunded."


@pytest.mark.parametrize(
    ("texts", "masked", "notes"),
    [(["ok ", "END", "more"], (2,), ()), (["ok ", "EN", "D."], (), ()),
     (["ok ", None, "more"], (), ("stop_string_not_found",))],
)  # fmt: skip
def test_tokens_behind_a_stop_string_are_masked(texts, masked, notes):
    """Where the triples have the texts of the tokens; else it is noted that nothing can say it."""
    triples = [[*triple[:2], text] for triple, text in zip(TRIPLES, texts, strict=True)]
    finish = {"type": "stop", "matched": "END"}
    (call,) = calls({**answer(output_token_logprobs=triples, finish_reason=finish), "text": "ok "})
    assert (call.masked_positions, call.stop_reason, call.notes) == (masked, "END", notes)


def test_a_stream_without_its_end_is_cut():
    """Its tokens are exact as far as they go."""
    (call,) = calls({"request": REQUEST, "chunks": DELTAS[:2]})
    assert (call.finish_reason, ids(call.token_ids)) == ("abort", G2[:2])
    assert "stream_cut" in call.notes


def test_several_answers_are_choices_of_one_response():
    """A selection among them may have followed, which no log says."""
    first = answer(id="r-1")
    both = [first, answer(id="r-2")]
    calls_ = calls({"request": REQUEST, "response": both})
    assert [(c.choice_index, c.num_choices, c.streamed) for c in calls_] == [(0, 2, False), (1, 2, False)]
    assert "best_of_n" in faults(calls_[0])


def test_a_batch_is_a_call_for_each_prompt():
    """Each answer has its own prompt and parameters."""
    short = answer(id="r-1", prompt_tokens=6)
    request = {"input_ids": [P1, P2], "sampling_params": [{"temperature": 1.0}, {"temperature": 0.5}]}
    one, two = calls({"request": request, "response": [short, answer(id="r-2")]})
    assert (ids(one.prompt_token_ids), ids(two.prompt_token_ids)) == (P1, P2)
    assert (one.num_choices, two.num_choices, two.sampling) == (1, 1, {"temperature": 0.5})


def test_a_batch_with_an_answer_missing_is_refused():
    """Nothing says which prompt it was."""
    request = {"input_ids": [P1, P2], "sampling_params": {"temperature": 1.0}}
    assert refusal({"request": request, "response": [answer(id="r-1")]}) == "no_choices"


def test_a_text_prompt_is_kept_as_what_was_asked():
    """Its ids are not known, for a text is not its tokens."""
    (call,) = calls({"request": {"text": "refund 41?"}, "response": answer()})
    assert (call.messages_json, call.prompt_token_ids) == ('[{"role":"user","content":"refund 41?"}]', None)


def test_top_lists_are_kept_by_id():
    """They are triples as well."""
    tops = [[[-0.3, 401, None], [-1.5, 9, None]], None, [[-0.01, 13, None]]]
    (call,) = calls(answer(output_top_logprobs=tops))
    assert call.top_token_ids == [[401, 9], [], [13]]
    assert call.top_token_logprobs == [[-0.3, -1.5], [], [-0.01]]


def test_reading_changes_nothing_for_the_next_line():
    """Two readings of one document are equal."""
    document = {"chunks": copy.deepcopy(CUMULATIVE)}
    assert calls(document) == calls(document)
    assert sampled(calls(document)[0])[0] == G2
