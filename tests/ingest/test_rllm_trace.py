"""Records of rLLM's gateway: the server's answer is the truth, the lists beside it are not."""

from __future__ import annotations

from tests.ingest.hand_made import G2, P2, entries
from tests.ingest.native_made import LOGPROBS, calls, faults, is_the_toy, sampled


def record(**changes):
    """The toy's second call as the gateway keeps it."""
    return {
        "trace_id": "call-1",
        "session_id": "s-1",
        "model": "toy",
        "timestamp": 1_790_000_000.5,
        "messages": [{"role": "user", "content": "refund 41?"}],
        "prompt_token_ids": P2,
        "completion_token_ids": G2,
        "logprobs": LOGPROBS,
        "finish_reason": "stop",
        "weight_version": 7,
        **changes,
    }


def answer(logprobs):
    """The server's answer as it came."""
    choice = {"index": 0, "finish_reason": "stop", "token_ids": G2, "logprobs": {"content": entries(logprobs)}}
    choice["message"] = {"role": "assistant", "content": "Refunded."}
    return {"id": "chatcmpl-1", "prompt_token_ids": P2, "choices": [choice]}


def test_a_record_is_the_toys_second_call():
    """A session is one attempt; its calls are named by the record."""
    (call,) = calls(record())
    assert is_the_toy(call)
    assert (call.log_format, call.trace_id, call.span_id) == ("rllm_trace", "s-1", "call-1")
    assert (call.weight_spans, call.finish_reason) == ((("7", 0, 3),), "stop")


def test_the_answer_wins_over_the_lists():
    """A null number was left out there, so those after it moved up."""
    (call,) = calls(record(logprobs=[-0.3, -0.01], raw_request={}, raw_response=answer([-0.3, None, -0.01])))
    assert (sampled(call)[0], call.response_id, call.model) == (G2, "chatcmpl-1", "toy")
    assert "no_behavior_logprobs" in call.notes
    assert call.weight_spans == (("7", 0, 3),)


def test_without_the_answer_a_shorter_list_is_a_fault():
    """Nothing says which number is missing."""
    (call,) = calls(record(logprobs=[-0.3, -0.01]))
    assert "len_mismatch" in faults(call)
