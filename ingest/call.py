"""What every format adapter makes of one choice of one logged response."""

from __future__ import annotations

import hashlib
import json
import struct
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

_NONE = b"\xff" * 8


class Call(msgspec.Struct, kw_only=True):
    """One logged model call as the line states it, before the settings give it its meaning.

    `prompt_token_ids`, `token_ids` (little-endian int32) and `token_logprobs` (float32) are packed, None when not
    logged. A log-probability that the log gives as null, NaN or infinite is NaN or infinite in the packed list.
    `notes` are reason codes of what only the adapter can see.
    """

    trace_id: str
    model: str
    log_format: str
    started_at: datetime
    ended_at: datetime | None = None
    call_index: int | None = None
    response_id: str | None = None
    created: int | None = None
    ask_id: str | None = None
    session_id: str | None = None
    user: str | None = None
    workload: str | None = None
    deployment: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    weight_version: str | None = None
    streamed: bool = False
    choice_index: int = 0
    num_choices: int = 1
    prompt_token_ids: bytes | None = None
    token_ids: bytes | None = None
    token_logprobs: bytes | None = None
    top_token_ids: list[list[int]] | None = None
    top_token_logprobs: list[list[float]] | None = None
    sampling: dict[str, Any] = {}
    finish_reason: str | None = None
    stop_reason: str | None = None
    num_prompt_tokens: int | None = None
    num_completion_tokens: int | None = None
    messages_json: str | None = None
    reply_text: str | None = None
    notes: tuple[str, ...] = ()


def pack_ids(ids: list[int] | None) -> bytes | None:
    """Token ids as little-endian int32; None stays None."""
    return None if ids is None else struct.pack(f"<{len(ids)}i", *ids)


def pack_logprobs(logprobs: list[float]) -> bytes:
    """Log-probabilities as float32; a finite one beyond float32 becomes infinite, as it would in any cast."""
    try:
        return struct.pack(f"<{len(logprobs)}f", *logprobs)
    except OverflowError:
        with np.errstate(over="ignore"):
            return np.array(logprobs).astype("<f4").tobytes()


def identity(call: Call) -> str:
    """The `call_id`: a hash of what the server returned, equal for each delivery of the same call.

    Envelope times, key order and number formatting do not enter, so a second delivery is the same call whatever
    forwarded it. Calls of different traces, responses, choices or tokens never share an id. Where the tokens were
    not logged the text stands in, and where the server gave no response id the request and its time do.
    """
    parts = [
        _text(call.trace_id),
        _text(call.response_id),
        _text(str(call.choice_index)),
        call.prompt_token_ids,
        call.token_ids,
        call.token_logprobs,
    ]
    if call.token_ids is None:
        parts.append(_text(call.reply_text))
    if call.response_id is None:
        parts += [_text(call.model), _text(str(call.created)), _canonical(call.messages_json)]
    framed = b"".join(_NONE if part is None else len(part).to_bytes(8, "little") + part for part in parts)
    return hashlib.sha256(framed).hexdigest()[:32]


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _canonical(document: str | None) -> bytes | None:
    if document is None:
        return None
    try:
        return json.dumps(json.loads(document), sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):  # what Python cannot read again is compared as it was written
        return document.encode(errors="backslashreplace")
