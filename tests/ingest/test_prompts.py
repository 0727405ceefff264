"""Prompts as ids, whichever way they come, and echoes of them."""

from __future__ import annotations

import base64
import json
import struct

import pytest

from schemas.errors import LineError
from tests.ingest.openai_made import arrays, chat, codes, completion, ids, numbers, read, read_one


def encoded(*values: int) -> str:
    """Base64 of little-endian int32."""
    return base64.b64encode(struct.pack(f"<{len(values)}i", *values)).decode()


@pytest.mark.parametrize(
    "answer",
    [
        chat(head={"prompt_token_ids": [5, 6]}, stop_reason=None),
        chat(head={"prompt_token_ids": [[5, 6]]}, stop_reason=None),
        chat(head={"prompt_token_ids_b64": encoded(5, 6)}),
        chat(head={"prompt_token_ids_b64": [encoded(5, 6)]}),
        chat(prompt_token_ids=[5, 6], matched_stop=None),
        chat(head={"sglext": {"input_ids": [5, 6]}}),
        chat(raw_output={"prompt_token_ids": [5, 6]}),
        chat(head={"prompt": [{"text": "hi", "logprobs": {"token_ids": [5.0, 6.0]}}]}),
        completion(prompt_token_ids=[5, 6]),
    ],
)
def test_prompt_ids_are_found_wherever_a_server_puts_them(answer):
    """A list, a list of lists, base64, an extension, or Together's own."""
    assert ids(read_one(answer).prompt_token_ids) == [5, 6]


@pytest.mark.parametrize(
    "head",
    [
        {"prompt_token_ids": [5, [6]]}, {"prompt_token_ids": [[5], 6]}, {"prompt_token_ids": [5.5]},
        {"prompt_token_ids_b64": "AAA"}, {"prompt_token_ids_b64": "AAAAAAA="}, {"prompt_token_ids_b64": encoded(-1)},
        {"prompt_token_ids_b64": "é"},
        {"prompt": [{"logprobs": {"token_ids": [5.5]}}]},
    ],
)  # fmt: skip
def test_prompt_ids_that_are_none_are_refused(head):
    """Mixed, cut, negative or broken."""
    with pytest.raises(LineError) as refused:
        read(chat(head=head))
    assert refused.value.reason == "bad_field"


def asked(prompt: object, answer: dict, **request: object) -> dict:
    """A completions request and its response."""
    return {"request": {"model": "toy", "prompt": prompt, **request}, "response": answer}


def test_a_prompt_that_was_sent_as_ids_is_the_prompt_where_the_server_counts_as_many():
    """A server that adds or cuts tokens read something else."""
    answer = completion(head={"usage": {"prompt_tokens": 2, "completion_tokens": 3}})
    assert ids(read_one(asked([5, 6], answer)).prompt_token_ids) == [5, 6]
    assert read_one(asked([5, 6, 7], answer)).prompt_token_ids is None
    assert read_one(asked(["5", 6], answer)).prompt_token_ids is None
    assert read_one(asked([5, 6], completion(head={"usage": None}))).prompt_token_ids is None


def test_a_batch_is_answered_prompt_by_prompt():
    """Two prompts, two choices each: no prompt has four."""
    answer = completion(head={"prompt_token_ids": [[5], [6, 7]]}, stop_reason=None)
    answer["choices"] = [{**answer["choices"][0], "index": index} for index in range(4)]
    calls = read(asked(["a", "b"], answer, n=2))
    assert [ids(call.prompt_token_ids) for call in calls] == [[5], [5], [6, 7], [6, 7]]
    assert {call.num_choices for call in calls} == {2}
    assert {call.num_prompt_tokens for call in calls} == {None}


def test_an_echo_is_cut_by_the_count_of_the_prompt():
    """The first number is null, for nothing came before it."""
    logprobs = arrays([None, -3.0, -0.3, -0.2], ["re", "fund", " 41", "."], text_offset=[0, 2, 6, 9])
    answer = completion("refund 41.", logprobs, head={"usage": {"prompt_tokens": 2, "completion_tokens": 2}})
    call = read_one(asked("refund", answer, echo=True))
    assert (numbers(call.token_logprobs), call.reply_text, call.notes) == ([-0.3, -0.2], " 41.", ())
    assert json.loads(call.messages_json or "") == "refund"
    assert "len_mismatch" not in codes(call)


def test_an_echo_is_seen_without_the_request():
    """The counts and the null say it."""
    logprobs = arrays([None, -3.0, -0.3], ["a", "b", "c"], text_offset=[0, 1, 2])
    call = read_one(completion("abc", logprobs, head={"usage": {"prompt_tokens": 2, "completion_tokens": 1}}))
    assert (numbers(call.token_logprobs), call.notes) == ([-0.3], ())


@pytest.mark.parametrize(
    ("offsets", "usage"),
    [([0, 2, 4], {"prompt_tokens": 2, "completion_tokens": 1}), ([0, 2, 6], None),
     ([0, 2, 6], {"prompt_tokens": 9, "completion_tokens": 1})],
)  # fmt: skip
def test_an_echo_that_cannot_be_cut_is_a_mismatch(offsets, usage):
    """Offsets within the prompt, no count, or too large a one."""
    logprobs = arrays([None, -3.0, -0.3], ["re", "fund", " 41"], text_offset=offsets)
    call = read_one(asked("refund", completion("refund 41", logprobs, head={"usage": usage}), echo=True))
    assert "len_mismatch" in call.notes


def test_an_echo_of_ids_gives_the_ids_of_the_prompt():
    """They are spelled like those that were sampled."""
    logprobs = arrays([None, -0.3, -0.2], ["token_id:5", "token_id:401", "token_id:13"])
    answer = completion("x", logprobs, head={"usage": {"prompt_tokens": 1, "completion_tokens": 2}})
    call = read_one(asked("hi", answer, echo=True))
    assert (ids(call.prompt_token_ids), ids(call.token_ids), call.notes) == ([5], [401, 13], ("token_text_ids",))


def test_a_null_first_entry_without_an_echo_is_missing():
    """It is a step that the server skipped, not a prompt."""
    logprobs = arrays([None, -0.2, -0.01], ["a", "b", "c"])
    call = read_one(asked("hi", completion("abc", logprobs)))
    assert len(numbers(call.token_logprobs) or []) == 3
    assert call.notes == ("no_behavior_logprobs",)
