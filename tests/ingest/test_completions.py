"""One call a choice, with what request and response say of it."""

from __future__ import annotations

import json

import pytest

from ingest.formats.detect import RecordReader
from schemas.errors import LineError
from tests.ingest.hand_made import envelope
from tests.ingest.openai_made import L2, TEXTS, arrays, chat, codes, completion, entries, ids, numbers, read, read_one

G2 = [401, 402, 13]


def test_completions_are_read_like_chat():
    """Arrays in the place of entries, a text in the place of a message."""
    answer = completion(logprobs=arrays(L2, TEXTS), token_ids=G2, prompt_token_ids=[1, 2], stop_reason=None)
    call = read_one({"request": {"model": "toy", "prompt": "hi", "logprobs": 0}, "response": answer})
    assert (ids(call.token_ids), numbers(call.token_logprobs), ids(call.prompt_token_ids)) == (G2, L2, [1, 2])
    assert (call.reply_text, call.messages_json, call.sampling) == ("Refunded.", '"hi"', {"logprobs": 0})


def test_the_end_that_openai_counts_and_does_not_list_is_no_mismatch():
    """One more is normal there, and thinking is counted too; anything else is not."""

    def counted(number, **details):
        usage = {"prompt_tokens": 1, "completion_tokens": number, "completion_tokens_details": details or None}
        return "len_mismatch" in codes(read_one(chat(logprobs={"content": entries(L2, TEXTS)}, head={"usage": usage})))

    assert [counted(number) for number in (2, 3, 4, 5)] == [True, False, False, True]
    assert not counted(104, reasoning_tokens=100)


@pytest.mark.parametrize("mark", [{"stop_reason": None}, {"matched_stop": None}])
def test_logprobs_that_a_stream_parser_lost_are_a_mismatch(mark):
    """Of servers that count what they list, one missing is one lost, whether ids were logged or not."""
    short = {"content": entries(L2[:2], TEXTS[:2])}
    assert "len_mismatch" in codes(read_one(chat(logprobs=short, **mark)))
    assert "len_mismatch" in codes(read_one(chat(logprobs=short, token_ids=G2, **mark)))


def test_the_count_of_all_choices_is_compared_with_all_of_them():
    """`completion_tokens` is their sum."""

    def two(total):
        answer = chat(token_ids=G2, stop_reason=None, head={"usage": {"completion_tokens": total}})
        answer["choices"].append({**answer["choices"][0], "index": 1, "token_ids": [1, 2]})
        return ["len_mismatch" in call.notes for call in read(answer)]

    assert two(5) == [False, False]
    assert two(6) == [True, True]


def test_a_choice_that_a_gateway_dropped_still_counts():
    """Two were asked for: somebody chose."""
    call = read_one({"request": {"model": "toy", "n": 2, "messages": []}, "response": chat(token_ids=G2)})
    assert call.num_choices == 2
    assert "best_of_n" in codes(call)


@pytest.mark.parametrize(
    ("logged", "kept"),
    [("stop", "stop"), ("eos", "stop"), ("length", "length"), ("abort", "abort"), ("tool_calls", "tool_calls"),
     ("function_call", "function_call"), ("content_filter", "content_filter"), (None, None)],
)  # fmt: skip
def test_finish_reasons_are_kept_in_one_spelling(logged, kept):
    """Only Together's word for the end is another."""
    assert read_one(chat(finish_reason=logged)).finish_reason == kept


def test_thinking_that_was_left_out_takes_ids_and_logprobs_with_it():
    """With include_reasoning false the call stays, its tokens are named as missing."""
    request = {"model": "toy", "messages": [], "include_reasoning": False}
    call = read_one(
        {"request": request, "response": chat(stop_reason=None, logprobs=None, message={"reasoning": None})}
    )
    assert {"no_token_ids", "no_behavior_logprobs"} <= codes(call)
    assert call.sampling["include_reasoning"] is False


def test_what_a_request_says_of_session_and_user_stands_in_for_the_envelope():
    """TensorRT-LLM's conversation, vLLM's session_id; the envelope's own come first."""
    request = {"model": "toy", "messages": [], "user": "u-9", "conversation_params": {"conversation_id": "c-9"}}
    bare = read_one({"request": request, "response": chat()})
    assert (bare.session_id, bare.user, bare.sampling) == ("c-9", "u-9", {})
    inside = read_one(envelope(chat(), request={"session_id": "s-9", "user": "u-9"}))
    assert (inside.session_id, inside.user) == ("s-1", "user-1@example.com")


def test_all_sampling_parameters_are_kept_as_logged():
    """SGLang's grammars are among them: the settings' rules look for them."""
    request = {"max_completion_tokens": 5, "seed": 1, "regex": "a+", "min_p": 0.1, "stop": ["x"], "n": 1, "best_of": 1,
               "stop_token_ids": [5], "temperature": None}  # fmt: skip
    call = read_one({"request": {"model": "toy", "messages": [], **request}, "response": chat()})
    assert call.sampling == request
    assert "grammar_constrained" in codes(call)


def test_tool_calls_and_old_function_calls_are_part_of_the_reply():
    """As JSON, their arguments word for word."""
    called = {"name": "lookup", "arguments": '{"order":  41}'}
    tools = [{"id": "c", "type": "function", "function": called}]
    assert json.loads(read_one(chat(message={"content": None, "tool_calls": tools})).reply_text or "") == tools
    assert json.loads(read_one(chat(message={"content": None, "function_call": called})).reply_text or "") == called


def test_thinking_stands_in_for_a_reply_that_was_cut_before_it():
    """Else it is not part of what was said."""
    assert read_one(chat(message={"content": None, "reasoning": "Let me"})).reply_text == "Let me"
    assert read_one(chat(message={"content": "Yes", "reasoning_content": "Let me"})).reply_text == "Yes"


def test_messages_that_are_no_utf8_are_refused():
    """The decoder skips them, so they are looked at when they are kept."""
    line = json.dumps({"request": {"model": "toy", "messages": [{"content": "QQ"}]}, "response": chat()}).encode()
    with pytest.raises(LineError) as refused:
        RecordReader()(line.replace(b"QQ", b"\xff"))
    assert refused.value.reason == "bad_unicode"
