"""Trace records of rLLM's gateway: one model call, the server's answer, and what was taken from it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ingest.call import Call, pack_ids, whole
from ingest.formats import bodies
from ingest.formats.body import Envelope, Wrapped, refuse_nul, text_or_none
from ingest.formats.chat import NULL
from ingest.formats.dialogue import messages_json
from ingest.formats.format import Format, Keys, Records
from ingest.formats.generation import packed, with_model
from ingest.formats.sizes import SmallInt, TokenId

NAME = "rllm_trace"


class Record(Struct):
    """One call; a session is one attempt, and holds several."""

    trace_id: str | int | None = None
    session_id: str | int | None = None
    model: str | None = None
    timestamp: str | float | None = None
    messages: Any = None
    prompt_token_ids: list[TokenId] | None = None
    completion_token_ids: list[TokenId] | None = None
    logprobs: list[float | None] | None = None
    finish_reason: str | None = None
    weight_version: str | SmallInt | None = None
    raw_request: Raw = NULL
    raw_response: Raw = NULL


_RECORD = msgspec.json.Decoder(Record)


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is a record."""
    return "trace_id" in keys and "session_id" in keys and "completion_token_ids" in keys


def read(line: bytes) -> Records | None:
    """The call of one record; None when the line is of another format.

    It is read from the server's answer where that is there: the lists beside it leave out numbers that are null.
    """
    record = _RECORD.decode(line)
    if record.trace_id is None or record.completion_token_ids is None:
        return None
    envelope = Envelope(
        ts=record.timestamp,
        trace_id=record.session_id or record.trace_id,
        session_id=record.session_id,
        span_id=record.trace_id,
    )
    refuse_nul({"trace_id": text_or_none(record.trace_id), "model": record.model})
    answered = _answered(record, envelope)
    return answered or (_extracted(record, envelope),)


FORMAT = Format(NAME, claims, read)


def _answered(record: Record, envelope: Envelope) -> Records:
    if record.raw_response == NULL:
        return ()
    records = bodies.read_answer(envelope, with_model(record.raw_request, record.model), record.raw_response) or ()
    for call in records:
        if isinstance(call, Call):
            call.log_format = NAME
            call.weight_spans = call.weight_spans or whole(record.weight_version, len(call.token_ids or b"") // 4)
    return records


def _extracted(record: Record, envelope: Envelope) -> Call:
    notes: list[str] = []
    ids = record.completion_token_ids or []
    return Call(
        **Wrapped(envelope=envelope, request=None, response=None).shared(),
        model=record.model or "",
        log_format=NAME,
        prompt_token_ids=pack_ids(record.prompt_token_ids or None),
        token_ids=pack_ids(ids or None),
        token_logprobs=packed(record.logprobs or None, notes),
        weight_spans=whole(record.weight_version, len(ids)),
        finish_reason=record.finish_reason,
        messages_json=messages_json(record.messages),
        notes=tuple(notes),
    )
