"""Rows of the tables `llm_requests` and `llm_payloads` of litellm-ducklake-sink, one JSON object each."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ingest.call import Call
from ingest.formats.dialogue import messages_json, parsed
from ingest.formats.exported import Exported, calls_of, count_or_none
from ingest.formats.format import Format, Keys
from ingest.formats.litellm import calls_with, engine_of, notes_of, refuse_failure, without_redacted
from ingest.formats.litellm_spend import utc_time
from schemas.errors import LineError

NAME = "litellm_ducklake"


class Row(Struct):
    """The columns of both tables that are used."""

    request_id: str | None = None
    request_ts: str | float | None = None
    end_user_id: str | None = None
    deployment_model: str | None = None
    provider: str | None = None
    prompt_tokens: Any = None
    completion_tokens: Any = None
    cache_hit: Any = None
    status: str | None = None
    error_type: str | None = None
    messages: str | None = None
    response: str | None = None
    payload_bytes: int | None = None


_ROWS = msgspec.json.Decoder(Row)


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is a row of the sink."""
    return {"request_id", "request_day"} <= keys.keys() and ("payload_bytes" in keys or "deployment_model" in keys)


def read(line: bytes) -> tuple[Call, ...] | None:
    """The calls of one row.

    Neither table names a trace, so both rows of a call fall into the trace of their `request_id`: the request's row
    is a call without text, the payload's row has the text. Raises LineError for a response that was cut: its JSON
    ends in the middle, and what is missing is not known.
    """
    if b'"request_day"' not in line:
        return None
    row = _ROWS.decode(line)
    if row.request_id is None:  # the names stand deeper, in another record
        return None
    refuse_failure(row.status, row.error_type)
    told = Exported(
        log_format=NAME,
        user=row.end_user_id or None,
        engine=engine_of(row.provider),
        started_at=utc_time(row.request_ts, "request_ts"),
        model=row.deployment_model,
        response_id=row.request_id,
        num_prompt_tokens=count_or_none(row.prompt_tokens),
        num_completion_tokens=count_or_none(row.completion_tokens),
        notes=notes_of(line, cache_hit=row.cache_hit),
    )
    return calls_of(told) if row.payload_bytes is None else _payload(told, row)


def _payload(told: Exported, row: Row) -> tuple[Call, ...]:
    kept = sum(len(text.encode()) for text in (row.messages, row.response) if text is not None)
    is_cut = row.payload_bytes is not None and row.payload_bytes > kept
    if row.response is None:
        raise LineError("no_choices", "the row has no response; expected a reply: log errors elsewhere")
    response = _document(row.response)
    if is_cut and response is None:
        raise LineError(
            "payload_cut",
            f"the response was cut: {row.payload_bytes} bytes were sent, {kept} are here; expected all: raise "
            "payload_max_bytes of the sink",
        )
    messages, is_redacted = without_redacted(parsed(row.messages))
    if isinstance(messages, str) and is_cut:  # JSON that ends in the middle
        messages = None
    notes = (*told.notes, *(("payload_truncated",) if is_cut else ()), *(("text_redacted",) if is_redacted else ()))
    whole = Exported(log_format=NAME, response_id=told.response_id, messages_json=messages_json(messages), notes=notes)
    return calls_with(whole, msgspec.json.encode(row.response if response is None else response))


def _document(text: str) -> Any:
    """The object that a response's text holds; None where the text is no JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


FORMAT = Format(NAME, claims, read)
