"""LiteLLM's standard logging payload: what its callbacks and its bucket sinks write, one object a call."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ingest.call import Call
from ingest.formats.chat import NULL
from ingest.formats.dialogue import messages_json
from ingest.formats.exported import Exported, count_or_none, sampling_of
from ingest.formats.format import Format, Keys, keys_of
from ingest.formats.litellm import (
    calls_with,
    engine_of,
    is_generation,
    notes_of,
    refuse_failure,
    without_redacted,
)
from ingest.formats.otel_attributes import TRACE_ID_BYTES, spelled_id
from ingest.times import parse_time

NAME = "litellm_standard"


class Payload(Struct):
    """The fields of a payload that are used."""

    id: str | None = None
    trace_id: str | None = None
    litellm_call_id: str | None = None
    session_id: str | None = None
    call_type: str | None = None
    stream: bool | None = None
    status: str | None = None
    cache_hit: Any = None
    guardrail_information: Any = None
    custom_llm_provider: str | None = None
    model: str | None = None
    model_id: str | None = None
    startTime: float | None = None  # noqa: N815 - the names of the payload
    endTime: float | None = None  # noqa: N815
    prompt_tokens: Any = None
    completion_tokens: Any = None
    end_user: str | None = None
    messages: Any = None
    response: Raw = NULL
    error_str: Any = None
    error_information: Any = None
    model_parameters: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


_PAYLOADS = msgspec.json.Decoder(Payload)


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is a payload."""
    return {"call_type", "model_parameters", "response"} <= keys.keys()


def read(line: bytes) -> tuple[Call, ...] | None:
    """The calls of one payload, one a choice; nothing of a call that samples no tokens.

    A retry or a fallback is a payload of its own with the same `trace_id`: another answer to the same prompt, not
    another attempt. Raises LineError for a failed call.
    """
    if b'"model_parameters"' not in line or b'"call_type"' not in line:
        return None
    payload = _PAYLOADS.decode(line)
    if payload.call_type is None and not claims(keys_of(line)):  # the names stand deeper, in another record
        return None
    return _calls(payload, line)


def _calls(payload: Payload, line: bytes) -> tuple[Call, ...]:
    if not is_generation(payload.call_type):
        return ()
    refuse_failure(payload.status, _error(payload))
    messages, is_redacted = without_redacted(payload.messages)
    sampling, found = sampling_of(parameters(payload.model_parameters or {}))
    notes = (*notes_of(line, cache_hit=payload.cache_hit, guardrails=payload.guardrail_information), *found)
    told = Exported(
        log_format=NAME,
        trace_id=str(spelled_id(payload.trace_id or "", TRACE_ID_BYTES)),
        span_id=payload.litellm_call_id or None,
        session_id=payload.session_id or None,
        user=_user(payload),
        ask_id=_ask_id(payload.metadata or {}),
        deployment=payload.model_id or None,
        engine=engine_of(payload.custom_llm_provider),
        started_at=None if payload.startTime is None else parse_time(payload.startTime, "startTime"),
        ended_at=None if payload.endTime is None else parse_time(payload.endTime, "endTime"),
        model=payload.model,
        sampling=sampling,
        messages_json=messages_json(messages),
        response_id=payload.id or None,
        num_prompt_tokens=count_or_none(payload.prompt_tokens),
        num_completion_tokens=None if payload.stream else count_or_none(payload.completion_tokens),
        streamed=bool(payload.stream),
        notes=(*notes, "text_redacted") if is_redacted else notes,
    )
    return calls_with(told, bytes(payload.response))


def parameters(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a call with those that went to the server as `extra_body`."""
    extra = given.get("extra_body")
    return {**given, **extra} if isinstance(extra, dict) else given


def _error(payload: Payload) -> str | None:
    told = payload.error_information
    name = told.get("error_class") if isinstance(told, dict) else None
    return str(name or payload.error_str) if name or payload.error_str else None


def _user(payload: Payload) -> str | None:
    if payload.end_user:
        return payload.end_user
    user = (payload.model_parameters or {}).get("user") or (payload.metadata or {}).get("user_api_key_user_id")
    return user if isinstance(user, str) and user else None


def _ask_id(metadata: dict[str, Any]) -> str | None:
    """The ask, where the client named it in the metadata of its request."""
    client = metadata.get("requester_metadata")
    for place in (client if isinstance(client, dict) else {}, metadata):
        if isinstance(place.get("ask_id"), str) and place["ask_id"]:
            return str(place["ask_id"])
    return None


FORMAT = Format(NAME, claims, read)
