"""TensorRT-LLM's names are vLLM's, its marks are not."""

from __future__ import annotations

from tests.ingest.openai_made import L2, TEXTS, arrays, chat, codes, completion, entries, ids, read_one


def test_an_answer_with_ids_is_whole():
    """Under its own name."""
    answer = chat(
        avg_decoded_tokens_per_iter=1.0, stop_reason=None, token_ids=[401, 402, 13], logprobs={"content": entries(L2, TEXTS)},
        head={"prompt_token_ids": [[1, 2]]},
    )  # fmt: skip
    call = read_one(answer)
    assert (call.log_format, call.engine, ids(call.prompt_token_ids)) == ("trtllm_chat", "tensorrt-llm", [1, 2])
    assert ids(call.token_ids) == [401, 402, 13]


def test_ids_that_were_trimmed_at_a_stop_word_are_a_mismatch():
    """One list was cut, the other was not."""
    answer = completion(
        avg_decoded_tokens_per_iter=1.0, stop_reason="d", token_ids=[401, 402], logprobs=arrays(L2, TEXTS)
    )
    assert "len_mismatch" in codes(read_one(answer))
