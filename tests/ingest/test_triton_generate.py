"""TensorRT-LLM behind Triton: flattened tensors, padding, beams."""

from __future__ import annotations

import pytest

from tests.ingest.hand_made import G2, P2
from tests.ingest.native_made import LOGPROBS, calls, faults, ids, is_the_toy, payload, refusal, sampled, wrappings

NAME = "triton_generate.response.json"
REQUEST = {"text_input": "refund 41?", "max_tokens": 16, "temperature": 1.0, "return_log_probs": True}
SEQUENCE = [*P2, *G2]


def answer(**tensors):
    """A response with these tensors."""
    return {**payload(NAME), "output_log_probs": LOGPROBS, **tensors}


@pytest.mark.parametrize("shape", ["bare", "wrapped", "envelope"])
def test_numbers_tell_the_reply_from_the_prompt(shape):
    """The ids begin with the prompt and end with padding; the numbers are of the reply alone."""
    (call,) = calls(wrappings(answer(output_ids=[*SEQUENCE, -1, -1]), REQUEST)[shape])
    assert is_the_toy(call)
    assert (call.log_format, call.engine, call.model) == ("triton_generate", "tensorrt-llm", "ensemble")
    assert call.weight_spans == ()
    assert call.logprob_kind is None


def test_the_example_has_neither_tokens_nor_numbers():
    """Numbers that are all zero were not asked for."""
    (call,) = calls(payload(NAME))
    assert (call.token_ids, call.token_logprobs, call.reply_text) == (None, None, "Refunded.")
    assert {"no_token_ids", "no_behavior_logprobs", "no_prompt_ids"} <= set(faults(call))


def test_the_stated_length_wins_over_the_padding():
    """What stands behind it may be anything."""
    (call,) = calls(answer(output_ids=[*SEQUENCE, 2, 2], sequence_length=17))
    assert is_the_toy(call)


def test_ids_without_their_prompt_are_the_reply():
    """The request says that the prompt is left out, or there are as many numbers as ids."""
    (stated,) = calls({"request": {**REQUEST, "exclude_input_in_output": True}, "response": answer(output_ids=G2)})
    (counted,) = calls(answer(output_ids=G2))
    assert sampled(stated) == sampled(counted) == (G2, LOGPROBS)
    assert stated.prompt_token_ids is None


def test_the_prompt_that_was_sent_splits_the_ids():
    """Also where no numbers were asked for."""
    request = {"input_ids": [P2], "runtime_top_k": 1, "runtime_top_p": 0.5}
    (call,) = calls({"request": request, "response": answer(output_ids=[[SEQUENCE]], output_log_probs=[0.0] * 3)})
    assert (ids(call.prompt_token_ids), ids(call.token_ids), call.token_logprobs) == (P2, G2, None)
    assert call.sampling == {"top_k": 1, "top_p": 0.5}


def test_ids_that_nothing_splits_are_left_out():
    """Prompt and reply cannot be told apart."""
    (call,) = calls(answer(output_ids=SEQUENCE, output_log_probs=0.0))
    assert (call.token_ids, call.prompt_token_ids) == (None, None)


def test_a_single_element_is_a_scalar():
    """The HTTP endpoint flattens it."""
    (call,) = calls(answer(output_ids=401, output_log_probs=-0.3, sequence_length=1))
    assert sampled(call) == ([401], [-0.3])


def test_each_beam_is_a_choice():
    """A beam search chooses by likelihood."""
    first, second = calls(
        answer(output_ids=[*G2, 401, 13, -1], output_log_probs=[*LOGPROBS, -0.3, -0.5, 0.0], sequence_length=[3, 2])
    )
    assert (ids(first.token_ids), first.num_choices) == (G2, 2)
    assert "best_of_n" in faults(first)
    assert "len_mismatch" in faults(second) or second.token_ids is None


def test_the_tensors_of_infer_are_read_by_name():
    """Their shape is in the way of nothing."""
    outputs = [
        {"name": "output_ids", "datatype": "INT32", "shape": [1, 1, 17], "data": SEQUENCE},
        {"name": "output_log_probs", "datatype": "FP32", "shape": [1, 1, 3], "data": LOGPROBS},
        {"name": "text_output", "datatype": "BYTES", "shape": [1], "data": ["Refunded."]},
    ]
    (call,) = calls({"id": "r-1", "model_name": "tensorrt_llm", "model_version": "1", "outputs": outputs})
    assert is_the_toy(call)
    assert (call.response_id, call.reply_text) == ("r-1", "Refunded.")


@pytest.mark.parametrize(
    "tensors",
    [
        {"output_ids": [401, 1.5]},
        {"output_ids": [401, "402"]},
        {"output_ids": [401, True]},
        {"output_ids": [401, -1, 13]},
        {"output_ids": [2**31]},
        {"output_log_probs": ["-0.3"]},
        {"output_log_probs": [10**400]},
        {"output_ids": [401, 402, 13], "sequence_length": [1, 1]},
        {"sequence_length": [1] * 2000},
    ],
    ids=lambda tensors: str(tensors)[:40],
)
def test_a_tensor_of_other_things_is_refused(tensors):
    """Nothing is coerced and nothing is cut to fit."""
    assert refusal(answer(**tensors)) == "bad_field"
