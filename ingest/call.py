"""What every format adapter makes of one choice of one logged response."""

from __future__ import annotations

import hashlib
import json
import struct
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from schemas.errors import LineError

_NONE = b"\xff" * 8


class Hashed(Protocol):
    """Something with a hash that is computed when it is asked for: a line."""

    @property
    def sha256(self) -> str:
        """SHA-256 of its bytes, as hex."""


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


def named(call: Call, line: Hashed) -> Call:
    """The call with a trace id: its own, else the id of its response, else the hash of its line.

    A line that names no trace is a trace of one call; it says so in its notes, as does one that has no time.
    """
    if call.started_at is None and call.ended_at is None:
        call.notes = (*call.notes, "time_of_reading")
    if not call.trace_id:
        call.trace_id = call.response_id or f"line-{line.sha256[:32]}"
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
    """The `call_id`: a hash of what the server returned, then of what its delivery says around it.

    Times, position, key order and number formatting do not enter, so a second delivery is the same call whatever
    forwarded it. Calls of different traces, responses, choices or tokens never share an id. Where the tokens were
    not logged the text stands in, and where the server gave no response id the request and its time do.

    The second part, behind a dot, makes a delivery that says more than another a copy of its own, so that what
    assembling makes of them (`ingest.together`) does not depend on which came first. It is left out where nothing but
    the id could tell that two rows are one call. Of a user only enters whether there is one: a hash without a salt
    would give the name away. Limits: times, position and user of a call are those of the copy that landed first. A row
    of version 1 is known by the first part alone (warehouse/sql/ingest/known_calls.sql), so what another delivery adds
    does not reach it; and a line in which version 1 read other tokens, numbers or text than is read now lands again,
    as a copy.
    """
    framed = _framed(_returned(call))
    if call.response_id is None and (call.prompt_token_ids is None or call.token_ids is None):
        return _hash(framed)
    return f"{_hash(framed)}.{_hash(_framed(_said_around(call)))[:16]}"


def _returned(call: Call) -> list[bytes | None]:
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
    return parts


def _said_around(call: Call) -> list[bytes | None]:
    texts = (call.ask_id, call.session_id, call.workload, call.deployment, call.reply_text, call.finish_reason)
    sampling = {name: _as_float(value) for name, value in call.sampling.items()}
    rest = [sampling, call.user is not None, call.weight_spans, call.masked_positions, call.logprob_kind]
    return [*map(_text, texts), _compact(call.messages_json), msgspec.json.encode(rest, order="sorted")]


def _as_float(value: Any) -> Any:
    """1 as 1.0, since another writer spells it so."""
    return float(value) if type(value) is int and abs(value) < 2**53 else value


def _framed(parts: list[bytes | None]) -> bytes:
    return b"".join(_NONE if part is None else len(part).to_bytes(8, "little") + part for part in parts)


def _hash(framed: bytes) -> str:
    return hashlib.sha256(framed).hexdigest()[:32]


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _compact(document: str | None) -> bytes | None:
    """Like `_canonical` at a fraction of its cost; the first part of an identity keeps the spelling of version 1."""
    if document is None:
        return None
    packed = document.encode(errors="backslashreplace")
    try:
        return msgspec.json.encode(msgspec.json.decode(packed), order="sorted")
    except (msgspec.MsgspecError, ValueError, RecursionError):  # what cannot be read is compared as it was written
        return packed


def _canonical(document: str | None) -> bytes | None:
    if document is None:
        return None
    try:
        return json.dumps(json.loads(document), sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):  # what Python cannot read again is compared as it was written
        return document.encode(errors="backslashreplace")
