"""Which server answered, by the marks that each leaves in a response of the OpenAI family."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ingest.formats.chat import NULL, Choice, Logprobs, Response, TokenEntry
from ingest.formats.format import Keys, is_null

Server = Literal["vllm", "sglang", "fireworks", "together", "tensorrt-llm", "openai"]
Shape = Literal["chat", "completions"]

_CHOICES = msgspec.json.Decoder(list[Choice] | None)
_TEXT = msgspec.json.Decoder(str | None)


class _Fields(Struct):
    token_ids: Raw | UnsetType = UNSET
    stop_reason: Raw | UnsetType = UNSET


_PROVIDER_FIELDS = msgspec.json.Decoder(_Fields | None)


def shape_of(response: Response) -> Shape:
    """Chat or completions: a choice of completions has a `text` and no message (Together's chat chunks have both)."""
    choices = response.choices
    if not choices:
        return "completions" if response.object == "text_completion" else "chat"
    first = choices[0]
    return "completions" if first.text is not UNSET and first.message is first.delta is None else "chat"


def server_of(response: Response) -> Server:
    """The server that wrote a response, by its first choice; "openai" when nothing says another.

    The servers copy each other's fields, so the order counts: TensorRT-LLM has all that marks vLLM, and Fireworks
    has vLLM's lists of ids.
    """
    choice = response.choices[0] if response.choices else Choice()
    logprobs = choice.logprobs if isinstance(choice.logprobs, Logprobs) else None
    entry = logprobs.content[0] if logprobs is not None and logprobs.content else None
    if response.prompt_token_ids_b64 is not UNSET or choice.avg_decoded_tokens_per_iter is not UNSET:
        return "tensorrt-llm"
    if _is_fireworks(response, choice, entry):
        return "fireworks"
    if _is_together(response, choice, logprobs):
        return "together"
    if _is_sglang(response, choice):
        return "sglang"
    return "vllm" if _is_vllm(response, choice, logprobs, entry) else "openai"


def _is_fireworks(response: Response, choice: Choice, entry: TokenEntry | None) -> bool:
    return (
        choice.raw_output is not UNSET
        or (response.model is not None and response.model.startswith("accounts/"))
        or (entry is not None and entry.sampling_logprob is not UNSET)
    )


def _is_together(response: Response, choice: Choice, logprobs: Logprobs | None) -> bool:
    return (
        (isinstance(response.prompt, Raw) and bytes(response.prompt).lstrip()[:1] == b"[")
        or isinstance(choice.logprobs, int | float)
        or (logprobs is not None and logprobs.token_ids is not None)
        or (choice.delta is not None and choice.delta.token_id is not UNSET)
        or choice.finish_reason == "eos"
    )


def _is_sglang(response: Response, choice: Choice) -> bool:
    if any(
        mark is not UNSET
        for mark in (
            choice.matched_stop,
            choice.response_token_ids,
            choice.meta_info,
            choice.sglext,
            response.sglext,
        )
    ):
        return True
    if isinstance(response.metadata, Raw) and b'"weight_version' in bytes(response.metadata):
        return True
    # Older vLLM and others name the thinking so too; they leave another mark, or a fingerprint.
    said = choice.message or choice.delta
    return (
        said is not None
        and said.reasoning_content is not UNSET
        and response.system_fingerprint is None
        and choice.stop_reason is UNSET
        and response.prompt_logprobs is UNSET
        and response.prompt_token_ids is UNSET
        and choice.token_ids is UNSET
    )


def _is_vllm(response: Response, choice: Choice, logprobs: Logprobs | None, entry: TokenEntry | None) -> bool:
    marks = (
        choice.stop_reason,
        choice.token_ids,
        choice.prompt_token_ids,
        choice.weight_versions,
        choice.prompt_logprobs,
        response.prompt_token_ids,
        response.prompt_logprobs,
    )
    if any(mark is not UNSET for mark in marks):
        return True
    if response.system_fingerprint is not None and response.system_fingerprint.startswith("vllm-"):
        return True
    names = [entry.token] if entry is not None else (logprobs.tokens or ())[:1] if logprobs is not None else ()
    return any(name.startswith("token_id:") for name in names) or _has_moved_fields(choice)


def _has_moved_fields(choice: Choice) -> bool:
    """Whether LiteLLM moved vLLM's fields aside."""
    moved = [choice.provider_specific_fields]
    if choice.message is not None:
        moved.append(choice.message.provider_specific_fields)
    found = [_PROVIDER_FIELDS.decode(fields) for fields in moved if bytes(fields) != b"null"]
    return any(one is not None and (one.token_ids is not UNSET or one.stop_reason is not UNSET) for one in found)


def claimed(keys: Keys) -> tuple[Shape, Server] | None:
    """Shape and server of a response with these keys; None of what has no choices.

    A response with a value of the wrong type is claimed as OpenAI's chat, whose reader then says what is wrong.
    """
    if "choices" not in keys:
        return None
    response = _sketched(_told(keys))
    return ("chat", "openai") if response is None else (shape_of(response), server_of(response))


def claimed_chunk(keys: Keys) -> tuple[Shape, Server] | None:
    """Shape and server of a chunk with these keys, as far as the first chunk says; None of a whole response.

    A list may hold whole responses instead: one with a message, or a completion that has ended and is counted.
    """
    response = _sketched(_told(keys)) if "choices" in keys else None
    first = response.choices[0] if response is not None and response.choices else Choice()
    has_ended = first.delta is None and first.finish_reason is not None and not is_null(keys, "usage")
    return None if first.message is not None or has_ended else claimed(keys)


_TEXTS = ("object", "model", "system_fingerprint")
_PRESENCE = ("prompt_token_ids", "prompt_token_ids_b64", "prompt_logprobs")
_VALUES = ("prompt", "metadata", "sglext")

Told = tuple[bytes | None, ...]


def _told(keys: Keys) -> Told:
    """What tells the servers apart, as bytes: choices, then the fields in the order of the names above."""
    presence = tuple(b"null" if name in keys else None for name in _PRESENCE)
    values = tuple(bytes(keys[name]) if name in keys else None for name in _VALUES)
    return (bytes(keys["choices"]), *(bytes(keys.get(name, NULL)) for name in _TEXTS), *presence, *values)


@lru_cache(maxsize=2)  # all bodies ask about the same response, one after the other
def _sketched(told: Told) -> Response | None:
    """The same decoded; None where a value is of the wrong type."""
    choices, *rest = told
    texts = rest[: len(_TEXTS)]
    marks = zip((*_PRESENCE, *_VALUES), rest[len(_TEXTS) :], strict=True)
    try:
        response = Response(choices=_CHOICES.decode(choices or b""))
        for name, text in zip(_TEXTS, texts, strict=True):
            setattr(response, name, _TEXT.decode(text or b""))
    except msgspec.ValidationError:
        return None
    for name, value in marks:
        if value is not None:
            setattr(response, name, Raw(value))
    return response
