"""Shapes of OpenAI-compatible chat requests, responses and chunks: only the fields that are used.

Fields that a server leaves out are None or UNSET; fields that are not named here are skipped without being decoded.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
SmallInt = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""A count or a position: what a column of 32 bits can hold."""

NULL = Raw(b"null")


class Request(Struct):
    """A chat request; every field but the first three is a sampling parameter and is kept as logged."""

    model: str | UnsetType | None = UNSET
    messages: Raw | UnsetType = UNSET
    user: Any = UNSET
    temperature: float | UnsetType | None = UNSET
    top_p: float | UnsetType | None = UNSET
    top_k: SmallInt | UnsetType | None = UNSET
    min_p: float | UnsetType | None = UNSET
    n: SmallInt | UnsetType | None = UNSET
    best_of: SmallInt | UnsetType | None = UNSET
    seed: int | UnsetType | None = UNSET
    max_tokens: SmallInt | UnsetType | None = UNSET
    max_completion_tokens: SmallInt | UnsetType | None = UNSET
    min_tokens: SmallInt | UnsetType | None = UNSET
    stop: Any = UNSET
    stop_token_ids: Any = UNSET
    ignore_eos: Any = UNSET
    presence_penalty: float | UnsetType | None = UNSET
    frequency_penalty: float | UnsetType | None = UNSET
    repetition_penalty: float | UnsetType | None = UNSET
    logit_bias: Any = UNSET
    bad_words: Any = UNSET
    allowed_token_ids: Any = UNSET
    response_format: Any = UNSET
    guided_json: Any = UNSET
    guided_regex: Any = UNSET
    guided_choice: Any = UNSET
    guided_grammar: Any = UNSET
    structured_outputs: Any = UNSET
    tool_choice: Any = UNSET
    reasoning_effort: Any = UNSET
    include_reasoning: Any = UNSET
    chat_template_kwargs: Any = UNSET
    logprobs: Any = UNSET
    top_logprobs: Any = UNSET
    return_token_ids: Any = UNSET
    return_tokens_as_token_ids: Any = UNSET
    stream: Any = UNSET


class TopToken(Struct, gc=False):
    """One of the likeliest tokens at a position."""

    token: str = ""
    logprob: float | None = None


class TokenEntry(Struct, gc=False):
    """One sampled token and its log-probability; `top_logprobs` is decoded only where it can be used."""

    token: str = ""
    logprob: float | None = None
    top_logprobs: Raw = NULL


class Logprobs(Struct):
    """The log-probabilities of a choice."""

    content: list[TokenEntry] | None = None


class Message(Struct):
    """A whole message, or one delta of it."""

    content: str | list[Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class WeightSpan(Struct):
    """Which weights sampled which of the tokens (vLLM's return_weight_versions)."""

    version: str | int
    start: SmallInt
    end: SmallInt


class Choice(Struct):
    """One reply, or one chunk of it; a chunk carries `delta` in the place of `message`."""

    index: SmallInt = 0
    message: Message | None = None
    delta: Message | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    token_ids: list[TokenId] | None = None
    weight_versions: list[WeightSpan] | None = None


class Usage(Struct):
    """The server's own counts; `completion_tokens` is the sum over all choices."""

    prompt_tokens: SmallInt | None = None
    completion_tokens: SmallInt | None = None


class Response(Struct):
    """A whole response, or one chunk of a stream."""

    id: str | None = None
    object: str | None = None
    created: float | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    choices: list[Choice] | None = None
    usage: Usage | None = None
    prompt_token_ids: list[TokenId] | None = None


def text_of(content: str | list[Any] | None) -> str | None:
    """The text of a message's content; of a list of parts, the text parts."""
    if content is None or isinstance(content, str):
        return content
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def reply_of(message: Message | None) -> str | None:
    """What a reply says: its text, then its tool calls as JSON."""
    if message is None:
        return None
    text = text_of(message.content)
    if not message.tool_calls:
        return text
    return (text or "") + msgspec.json.encode(message.tool_calls).decode()
