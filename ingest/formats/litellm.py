"""What all records of LiteLLM have in common: what it does to an answer, and what it says of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from ingest.call import Call
from ingest.formats.dialogue import parsed, reply_text
from ingest.formats.exported import Exported, Reply, answered, calls_of
from schemas.errors import LineError

REDACTED = "redacted-by-litellm"
_CUT = b"litellm_truncated"
"""Stands in the middle of every text that was cut for the database."""

_INTERVENED = ("guardrail_intervened", "blocked")
"""A guardrail's status when it changed or blocked something; older versions have the second word."""

_ENGINES = {"hosted_vllm": "vllm", "vllm": "vllm"}

_GENERATING = ("completion", "responses", "anthropic_messages", "generate_content", "pass_through")
_KEEPING = ("get_", "delete_", "list_", "cancel_")
"""Parts of the names of `call_type`: what samples tokens, and what only looks after what was sampled. Embeddings,
images, files and the like do neither."""


def is_generation(call_type: str | None) -> bool:
    """Whether a `call_type` is of calls that sample tokens; a record without one is taken to be."""
    if not call_type:
        return True
    return any(word in call_type for word in _GENERATING) and not any(word in call_type for word in _KEEPING)


def engine_of(provider: str | None) -> str | None:
    """The serving engine behind a `custom_llm_provider`, where its name says one."""
    return _ENGINES.get(provider or "")


def refuse_failure(status: str | None, error: str | None) -> None:
    """Refuse a record of a failed call: it has an error in the place of a reply."""
    if status == "failure":
        raise LineError(
            "no_choices",
            f"the call failed with {(error or 'an error that is not named')[:80]}; expected a reply: log errors "
            "elsewhere",
        )


def is_cached(cache_hit: object) -> bool:
    """Whether a `cache_hit`, which is a truth or its name, says that nothing was sampled."""
    return cache_hit is True or cache_hit == "True"


def is_overridden(guardrails: object) -> bool:
    """Whether a `guardrail_information`, one object or a list, says that a guardrail changed or blocked the answer.

    One that acts before the call changes the prompt alone, and the ids of the prompt say what the engine saw of it;
    one that does not say when it acts is taken to have changed the answer.
    """
    told = guardrails if isinstance(guardrails, list) else [guardrails]
    return any(
        isinstance(one, dict)
        and one.get("guardrail_status") in _INTERVENED
        and (not one.get("guardrail_mode") or b"post_call" in msgspec.json.encode(one["guardrail_mode"]))
        for one in told
    )


def notes_of(record: bytes, *, cache_hit: object, guardrails: object = None) -> tuple[str, ...]:
    """What LiteLLM itself says was done to a record."""
    said = {
        "cache_hit": is_cached(cache_hit),
        "output_overridden": is_overridden(guardrails),
        "payload_truncated": _CUT in record,
    }
    return tuple(note for note, is_said in said.items() if is_said)


def without_redacted(messages: Any) -> tuple[Any, bool]:
    """The messages, and whether redaction took their texts; then they are None."""
    said = messages if isinstance(messages, list) else [messages]
    marked = any(one == REDACTED or (isinstance(one, dict) and one.get("content") == REDACTED) for one in said)
    return (None, True) if marked else (messages, False)


def calls_with(told: Exported, response: bytes) -> tuple[Call, ...]:
    """The calls of a record, with what its mapped response holds: JSON, JSON in a text, a plain text, or a marker."""
    value = parsed(msgspec.json.decode(response))
    if value in (REDACTED, {"text": REDACTED}):
        return calls_of(_with(told, Reply(None), "text_redacted"))
    if not isinstance(value, Mapping):
        return calls_of(_with(told, Reply(reply_text(value))))
    found = answered(told, response if response.lstrip()[:1] == b"{" else msgspec.json.encode(value))
    if found:
        return tuple(_corrected(call, told) for call in found)
    if "choices" in value or "error" in value:
        raise LineError("no_choices", "the response is an error or empty; expected a reply: log errors elsewhere")
    return calls_of(_with(told, Reply(reply_text(value))))


def _corrected(call: Call, told: Exported) -> Call:
    """The call without what redaction put in the place of its text, and without what LiteLLM made up of a stream.

    Of a stream it counts the tokens anew, with a tokenizer of its own, and drops log-probabilities and prompt ids.
    """
    if call.reply_text is not None and call.reply_text.startswith(REDACTED):
        call.reply_text = None
        call.notes = call.notes if "text_redacted" in call.notes else (*call.notes, "text_redacted")
    if told.streamed:
        call.num_prompt_tokens = call.num_completion_tokens = None
        if call.token_logprobs is None:
            call.notes = (*call.notes, "gateway_dropped_logprobs")
    return call


def _with(told: Exported, reply: Reply, *notes: str) -> Exported:
    return replace(told, replies=(reply,), notes=(*told.notes, *notes))
