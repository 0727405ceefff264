"""vLLM's completions, whole and streamed."""

from __future__ import annotations

from tests.ingest.openai_made import G2, L2, P2, TEXTS, arrays, codes, completion, ids, numbers, read_one


def test_a_whole_answer_is_the_toys_second_call():
    """Prompt ids stand in the choice, not at the head."""
    answer = completion(
        logprobs=arrays(L2, TEXTS, text_offset=[0, 6, 9], top_logprobs=None), token_ids=G2, prompt_token_ids=P2,
        stop_reason=None, weight_versions=[{"version": "7", "start": 0, "end": 3}],
    )  # fmt: skip
    call = read_one(answer)
    assert (call.log_format, ids(call.prompt_token_ids), ids(call.token_ids)) == ("vllm_completions", P2, G2)
    assert (numbers(call.token_logprobs), call.weight_spans, call.notes) == (L2, (("7", 0, 3),), ())


def test_the_prompt_of_a_stream_stands_in_its_first_chunk():
    """Arrays and ids are deltas; an echo in the first chunk is cut as in a whole answer."""
    texts, logprobs, tokens = ["hi", *TEXTS], [None, *L2], [5, *G2]
    chunks = [
        {"id": "s", "object": "text_completion", "created": 1790000000, "model": "toy", "choices": [
            {"index": 0, "text": text, "token_ids": [one] if place else [], "logprobs": arrays([logprob], [text]),
             "finish_reason": "stop" if place == 3 else None, **({} if place else {"prompt_token_ids": [5]})}]}
        for place, (text, logprob, one) in enumerate(zip(texts, logprobs, tokens, strict=True))
    ]  # fmt: skip
    call = read_one({"request": {"model": "toy", "prompt": "hi", "echo": True}, "chunks": chunks})
    assert (ids(call.prompt_token_ids), ids(call.token_ids), numbers(call.token_logprobs)) == ([5], G2, L2)
    assert (call.reply_text, call.streamed) == ("".join(TEXTS), True)
    assert "len_mismatch" not in codes(call)


def test_numbers_of_a_prompt_that_was_not_asked_for_again_are_a_mismatch():
    """Ids and log-probabilities of two lengths are never cut to fit."""
    answer = completion(logprobs=arrays([None, *L2], ["hi", *TEXTS]), token_ids=G2, prompt_token_ids=[5])
    call = read_one({"request": {"model": "toy", "prompt": "hi", "echo": False}, "response": answer})
    assert len(numbers(call.token_logprobs) or []) == 4
    assert "len_mismatch" in codes(call)
