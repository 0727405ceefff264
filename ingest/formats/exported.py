"""Calls as gateways and tracing systems export them: their own fields, and the server's answer where they kept it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Any

import msgspec
from msgspec import Raw

from ingest.call import Call
from ingest.formats import bodies
from ingest.formats.body import Envelope, refuse_nul
from ingest.formats.chat import NOT_SAMPLING, Request
from ingest.formats.dialogue import encoded
from ingest.formats.sizes import SmallInt
from schemas.errors import LineError

_UNSET = (None, "", "None", "null")
"""What exporters write for a parameter that a request left out."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One choice of a response, as text."""

    text: str | None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One call as an export tells it; `answer` is the JSON of the server's own response where the export has it."""

    log_format: str
    trace_id: str = ""
    span_id: str | None = None
    session_id: str | None = None
    user: str | None = None
    ask_id: str | None = None
    deployment: str | None = None
    engine: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    model: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    messages_json: str | None = None
    replies: Sequence[Reply] = (Reply(None),)
    response_id: str | None = None
    num_prompt_tokens: int | None = None
    num_completion_tokens: int | None = None
    streamed: bool = False
    answer: bytes | None = None
    notes: tuple[str, ...] = ()


def calls_of(told: Exported) -> tuple[Call, ...]:
    """The calls of one exported record, one a choice.

    Where the server's own answer is there, ids and log-probabilities are read from it as from any log of that server;
    the export's fields say the rest. Else the calls are text alone. An answer that cannot be read is noted, for the
    record has its text still.
    """
    names = ("trace_id", "span_id", "session_id", "user", "ask_id", "deployment", "model", "response_id")
    refuse_nul({name: getattr(told, name) for name in names})
    notes = told.notes
    if told.answer is not None:
        try:
            records = _answered(told, told.answer)
        except (LineError, msgspec.MsgspecError, RecursionError):
            records, notes = (), (*notes, "answer_unreadable")
        if records:
            return records
    return _texts(told, notes)


def answered(told: Exported, answer: bytes) -> tuple[Call, ...]:
    """The calls of the server's answer alone; raises what its format raises, and gives nothing of an unknown one."""
    return _answered(told, answer)


def _answered(told: Exported, answer: bytes) -> tuple[Call, ...]:
    envelope = Envelope(
        ts=None if told.started_at is None else told.started_at.isoformat(),
        ended_at=None if told.ended_at is None else told.ended_at.isoformat(),
        trace_id=told.trace_id or None,
        span_id=told.span_id,
        ask_id=told.ask_id,
        session_id=told.session_id,
        user=told.user,
        deployment=told.deployment,
    )
    request: dict[str, Any] = {"model": told.model}
    if told.messages_json is not None:
        request["messages"] = Raw(told.messages_json.encode())
    records = bodies.read_answer(envelope, Raw(msgspec.json.encode(request)), Raw(answer)) or ()
    found = tuple(record for record in records if isinstance(record, Call))
    for call in found:
        call.log_format = told.log_format
        call.sampling = {**call.sampling, **told.sampling}
        call.engine = call.engine or told.engine
        call.messages_json = call.messages_json if call.messages_json is not None else told.messages_json
        call.response_id = call.response_id or told.response_id
        call.streamed = call.streamed or told.streamed
        call.notes = (*call.notes, *told.notes)
    return found


def _texts(told: Exported, notes: tuple[str, ...]) -> tuple[Call, ...]:
    if not told.model:
        notes = (*notes, "model_unknown")
    return tuple(
        Call(
            model=told.model or "",
            log_format=told.log_format,
            trace_id=told.trace_id,
            span_id=told.span_id,
            session_id=told.session_id,
            user=told.user,
            ask_id=told.ask_id,
            deployment=told.deployment,
            engine=told.engine,
            started_at=told.started_at,
            ended_at=told.ended_at,
            response_id=told.response_id,
            streamed=told.streamed,
            choice_index=index,
            num_choices=len(told.replies),
            sampling=dict(told.sampling),
            finish_reason=reply.finish_reason,
            num_prompt_tokens=told.num_prompt_tokens,
            num_completion_tokens=told.num_completion_tokens if len(told.replies) == 1 else None,
            messages_json=told.messages_json,
            reply_text=reply.text,
            notes=notes if reply.text is not None else (*notes, "text_not_logged"),
        )
        for index, reply in enumerate(told.replies)
    )


def sampling_of(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The sampling parameters among those of a request, and a note where one was left out as it is of no known type.

    A parameter that is left out is unknown. Numbers are numbers: nothing is made of a text here.
    """
    kept: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    for name, value in parameters.items():
        if name not in Request.__struct_fields__ or name in NOT_SAMPLING or value in _UNSET:
            continue
        try:
            if isinstance(value, float) and not isfinite(value):
                raise msgspec.ValidationError(name)
            msgspec.convert({name: value}, Request)
            encoded(value)
        except (msgspec.MsgspecError, RecursionError, TypeError):
            notes = ("parameter_unreadable",)
        else:
            kept[name] = value
    return kept, notes


def count_or_none(value: Any) -> int | None:
    """A count of tokens; None of anything that is none."""
    try:
        return msgspec.convert(value, SmallInt)
    except msgspec.ValidationError:
        return None


def whole_number(value: Any) -> Any:
    """A float without a fraction as an integer, anything else as it is: OTLP has one type for both."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def text_in(fields: Mapping[str, Any], *names: str) -> str | None:
    """The first of these fields that is a text with something in it, or a whole number, as text."""
    for name in names:
        value = fields.get(name)
        if (isinstance(value, str) and value) or (isinstance(value, int) and not isinstance(value, bool)):
            return str(value)
    return None


_OF_A_MESSAGE = {"role", "content", "tool_calls", "parts", "name", "refusal", "finish_reason", "function_call"}


def answer_in(value: Any) -> bytes | None:
    """The JSON of what may be a server's whole answer; None of a message, a text, or the stub of an answer."""
    if isinstance(value, Mapping):
        return None if value.keys() <= _OF_A_MESSAGE or len(value) == 1 else msgspec.json.encode(value)
    is_stream = isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)
    return msgspec.json.encode(value) if is_stream and all("choices" in one for one in value) else None
