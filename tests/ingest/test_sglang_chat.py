"""SGLang's chat completions."""

from __future__ import annotations

from tests.ingest.openai_made import chat, completion, ids, payload, read_one


def test_an_aborted_reply_is_kept_as_far_as_it_went():
    """Its tokens were sampled."""
    answer = payload("sglang_chat.response")
    answer["choices"][0] |= {"finish_reason": "abort", "matched_stop": None}
    call = read_one(answer)
    assert (call.finish_reason, ids(call.token_ids), call.stop_reason) == ("abort", [401, 402, 13], None)


def test_completions_of_sglang_go_by_openais_name_and_its_own_engine():
    """They add ids and nothing that reads differently."""
    call = read_one(completion(matched_stop=13, token_ids=[1, 2, 13], head={"metadata": {"weight_version": "7"}}))
    assert (call.log_format, call.engine, call.weight_spans) == ("openai_completions", "sglang", (("7", 0, 3),))


def test_thinking_of_another_server_does_not_make_it_sglang():
    """DeepSeek's API has the field and a fingerprint."""
    assert read_one(chat(message={"reasoning_content": "x"})).engine == "sglang"
    call = read_one(chat(message={"reasoning_content": "x"}, head={"system_fingerprint": "fp_8802369eaa"}))
    assert (call.log_format, call.engine) == ("openai_chat", None)
