"""What every format adapter makes of one choice of one logged response."""

from __future__ import annotations

import hashlib
import json
import struct
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np

from schemas.errors import LineError

_NONE = b"\xff" * 8


class WeightSpan(NamedTuple):
    """Which weights sampled the tokens from `start` to `end` of a reply, as the server names them."""

    version: str
    start: int
    end: int


class Call(msgspec.Struct, kw_only=True):
    """One logged model call as the line states it, before the settings give it its meaning.

    `prompt_token_ids`, `token_ids` (little-endian int32) and `token_logprobs` (float32) are packed, None when not
    logged. A log-probability that the log gives as null, NaN or infinite is NaN or infinite in the packed list.
    `notes` are reason codes of what only the adapter can see.
    """

    model: str
    log_format: str
    trace_id: str = ""
    """Empty when the line does not say; `named` fills it in."""
    started_at: datetime | None = None
    """None when the line has no time."""
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
    span_id: str | None = None
    weight_spans: tuple[WeightSpan, ...] = ()
    streamed: bool = False
    choice_index: int = 0
    num_choices: int = 1
    prompt_token_ids: bytes | None = None
    token_ids: bytes | None = None
    token_logprobs: bytes | None = None
    logprob_kind: str | None = None
    """raw, temperature or processed where the very field says it; most logs cannot."""
    masked_positions: tuple[int, ...] = ()
    """Positions in `token_ids` that were forced, or that lie wholly behind a stop string: no action tokens."""
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


def whole(version: str | int | None, num_tokens: int) -> tuple[WeightSpan, ...]:
    """One version for all tokens of a reply; nothing where the server names none."""
    return () if version is None or version == "" else (WeightSpan(str(version), 0, num_tokens),)


def named(call: Call, line_sha256: str) -> Call:
    """The call with a trace id: its own, else the id of its response, else the hash of its line.

    A line that names no trace is a trace of one call; it says so in its notes, as does one that has no time.
    """
    if call.started_at is None and call.ended_at is None:
        call.notes = (*call.notes, "time_of_reading")
    if not call.trace_id:
        call.trace_id = call.response_id or f"line-{line_sha256[:32]}"
        call.notes = (*call.notes, "trace_id_from_response" if call.response_id else "trace_id_from_line")
    return call


_SMALL = ("call_index", "choice_index", "num_choices", "num_prompt_tokens", "num_completion_tokens")
_LARGEST = 2**31 - 1


def refuse_wide(call: Call) -> None:
    """Raise LineError (`bad_field`) for a count or position that no column of 32 bits can hold."""
    for name in _SMALL:
        value = getattr(call, name)
        if value is not None and not -_LARGEST <= value <= _LARGEST:
            raise LineError("bad_field", f"{name} is {value}; expected a number of 32 bits: mend the writer")
    for span in call.weight_spans:
        if not (0 <= span.start <= _LARGEST and 0 <= span.end <= _LARGEST):
            raise LineError("bad_field", f"weights of the tokens {span.start} to {span.end}; expected positions")


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
        if call.span_id is not None:  # two calls of one request are two spans
            parts.append(_text(call.span_id))
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
