"""Shapes of OpenAI-compatible requests, responses and chunks, chat and completions: only the fields that are used.

Fields that a server leaves out are None or UNSET; fields that are not named here are skipped without being decoded.
One set of types holds what all servers of the family add, for gateways mix their fields; `servers` tells them apart.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ingest.formats.sizes import SmallInt, TokenId
from schemas.errors import LineError

NULL = Raw(b"null")

LARGEST_ID = 2**31 - 1


class Conversation(Struct):
    """TensorRT-LLM's name of a conversation, in the request."""

    conversation_id: str | int | None = None


class Request(Struct):
    """A chat or completions request; all fields but `NOT_SAMPLING` are sampling parameters and are kept as logged."""

    model: str | UnsetType | None = UNSET
    messages: Raw | UnsetType = UNSET
    prompt: Raw | UnsetType = UNSET
    user: Any = UNSET
    session_id: str | int | UnsetType | None = UNSET
    conversation_params: Conversation | UnsetType | None = UNSET
    temperature: float | UnsetType | None = UNSET
    top_p: float | UnsetType | None = UNSET
    top_k: SmallInt | UnsetType | None = UNSET
    min_p: float | UnsetType | None = UNSET
    typical_p: Any = UNSET
    top_a: Any = UNSET
    n: SmallInt | UnsetType | None = UNSET
    best_of: SmallInt | UnsetType | None = UNSET
    use_beam_search: Any = UNSET
    seed: int | UnsetType | None = UNSET
    max_tokens: SmallInt | UnsetType | None = UNSET
    max_completion_tokens: SmallInt | UnsetType | None = UNSET
    min_tokens: SmallInt | UnsetType | None = UNSET
    echo: Any = UNSET
    stop: Any = UNSET
    stop_token_ids: Any = UNSET
    include_stop_str_in_output: Any = UNSET
    no_stop_trim: Any = UNSET
    ignore_eos: Any = UNSET
    presence_penalty: float | UnsetType | None = UNSET
    frequency_penalty: float | UnsetType | None = UNSET
    repetition_penalty: float | UnsetType | None = UNSET
    length_penalty: Any = UNSET
    logit_bias: Any = UNSET
    bad_words: Any = UNSET
    allowed_token_ids: Any = UNSET
    response_format: Any = UNSET
    guided_json: Any = UNSET
    guided_regex: Any = UNSET
    guided_choice: Any = UNSET
    guided_grammar: Any = UNSET
    structured_outputs: Any = UNSET
    regex: Any = UNSET
    ebnf: Any = UNSET
    tool_choice: Any = UNSET
    function_call: Any = UNSET
    reasoning_effort: Any = UNSET
    include_reasoning: Any = UNSET
    separate_reasoning: Any = UNSET
    chat_template_kwargs: Any = UNSET
    logprobs: Any = UNSET
    top_logprobs: Any = UNSET
    return_token_ids: Any = UNSET
    return_tokens_as_token_ids: Any = UNSET
    stream: Any = UNSET


NOT_SAMPLING = ("model", "messages", "prompt", "user", "session_id", "conversation_params")


def sampling_in(request: Request) -> dict[str, Any]:
    """The sampling parameters as logged; what the request left out is left out. It loses the rest: read that first."""
    for name in NOT_SAMPLING:
        setattr(request, name, UNSET)
    stated: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(request))  # quicker than field by field
    return stated


class TopToken(Struct, gc=False):
    """One of the likeliest tokens at a position."""

    token: str = ""
    logprob: float | None = None
    token_id: TokenId | None = None


class TokenEntry(Struct, gc=False):
    """One sampled token and its log-probability; `top_logprobs` is decoded only where it can be used."""

    token: str = ""
    logprob: float | None = None
    top_logprobs: Raw = NULL
    sampling_logprob: float | UnsetType | None = UNSET
    token_id: TokenId | None = None


class Logprobs(Struct, gc=False):
    """The log-probabilities of a choice: entries in chat, parallel arrays in completions (and Together's chat)."""

    content: list[TokenEntry] | None = None
    refusal: list[TokenEntry] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    token_ids: list[int | float | None] | None = None
    top_logprobs: Raw = NULL
    text_offset: list[int] | None = None


class Message(Struct, gc=False):
    """A whole message, or one delta of it; Together's deltas carry the id of their token."""

    content: str | list[Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    function_call: dict[str, Any] | None = None
    refusal: Any = None
    reasoning: Any = None
    reasoning_content: Any = UNSET
    token_id: TokenId | UnsetType | None = UNSET
    provider_specific_fields: Raw = NULL


class WeightSpan(Struct, gc=False):
    """Which weights sampled which of the tokens (vLLM's return_weight_versions)."""

    version: str | int
    start: SmallInt
    end: SmallInt


class Choice(Struct, gc=False):
    """One reply, or one chunk of it; a chunk carries `delta` in the place of `message`, completions carry `text`.

    `logprobs` is a bare number in Together's chunks.
    """

    index: SmallInt = 0
    message: Message | None = None
    delta: Message | None = None
    text: str | UnsetType | None = UNSET
    logprobs: Logprobs | int | float | None = None
    finish_reason: str | None = None
    stop_reason: str | int | UnsetType | None = UNSET
    matched_stop: str | int | UnsetType | None = UNSET
    token_ids: list[TokenId] | UnsetType | None = UNSET
    response_token_ids: list[TokenId] | UnsetType | None = UNSET
    prompt_token_ids: list[TokenId] | UnsetType | None = UNSET
    prompt_logprobs: Raw | UnsetType = UNSET
    weight_versions: list[WeightSpan] | UnsetType | None = UNSET
    meta_info: Raw | UnsetType = UNSET
    sglext: Raw | UnsetType = UNSET
    raw_output: Raw | UnsetType = UNSET
    avg_decoded_tokens_per_iter: Raw | UnsetType = UNSET
    provider_specific_fields: Raw = NULL


class CompletionDetails(Struct, gc=False):
    """What the count of completion tokens is made of."""

    reasoning_tokens: SmallInt | None = None


class Usage(Struct, gc=False):
    """The server's own counts; `completion_tokens` is the sum over all choices."""

    prompt_tokens: SmallInt | None = None
    completion_tokens: SmallInt | None = None
    completion_tokens_details: CompletionDetails | None = None


class Response(Struct, gc=False):
    """A whole response, or one chunk of a stream."""

    id: str | None = None
    object: str | None = None
    created: float | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    choices: list[Choice] | None = None
    usage: Usage | None = None
    prompt_token_ids: list[TokenId | list[TokenId]] | UnsetType | None = UNSET
    prompt_token_ids_b64: str | list[str] | UnsetType | None = UNSET
    prompt_logprobs: Raw | UnsetType = UNSET
    prompt: Raw | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET
    sglext: Raw | UnsetType = UNSET


class ProviderFields(Struct):
    """Fields of the server that LiteLLM moves out of its mapped response."""

    token_ids: list[TokenId] | None = None
    prompt_token_ids: list[TokenId] | None = None
    stop_reason: str | int | None = None


class SglExt(Struct):
    """SGLang's extension: what went in and came out, as ids."""

    input_ids: list[TokenId] | None = None
    output_ids: list[TokenId] | None = None


class ServerMetadata(Struct):
    """The metadata of a response, as far as SGLang writes weight versions into it."""

    weight_version: str | int | None = None
    weight_versions: list[WeightSpan] | None = None


class RawOutput(Struct):
    """Fireworks' raw_output: the ids before any parsing."""

    prompt_token_ids: list[TokenId] | None = None
    completion_token_ids: list[TokenId] | None = None


class PromptLogprobs(Struct):
    """The arrays of one prompt of Together; its ids are JSON numbers."""

    token_ids: list[int | float | None] | None = None


class PromptPart(Struct):
    """One prompt of Together's `prompt` list."""

    logprobs: PromptLogprobs | None = None


def as_logged(raw: Raw, field: str) -> str | None:
    """A value as JSON text, word for word; None of null. Raises LineError (`bad_unicode`) where it is not UTF-8."""
    try:
        text = bytes(raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineError("bad_unicode", f"{field}: {error}; expected UTF-8: mend the writer") from error
    return None if text == "null" else text


def text_of(content: str | list[Any] | None) -> str | None:
    """The text of a message's content; of a list of parts, the text parts."""
    if content is None or isinstance(content, str):
        return content
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def reply_of(message: Message | None) -> str | None:
    """What a reply says: its text, then its tool calls as JSON.

    A refusal stands in for a missing text, and so does thinking that was cut before any text.
    """
    if message is None:
        return None
    text = text_of(message.content)
    called: Any = message.tool_calls or message.function_call
    if called:
        return (text or "") + msgspec.json.encode(called).decode()
    if text:
        return text
    stand_ins = (message.refusal, message.reasoning, message.reasoning_content)
    return next((one for one in stand_ins if isinstance(one, str) and one), text)
