"""LiteLLM's spend logs: rows of the table `LiteLLM_SpendLogs`, exported as one JSON object each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ingest.call import Call
from ingest.formats.chat import NULL
from ingest.formats.dialogue import messages_json, parsed
from ingest.formats.exported import Exported, calls_of, count_or_none, sampling_of, text_in
from ingest.formats.format import Format, Keys, keys_of
from ingest.formats.litellm import (
    calls_with,
    engine_of,
    is_generation,
    notes_of,
    refuse_failure,
    without_redacted,
)
from ingest.formats.litellm_standard import parameters
from ingest.formats.otel_attributes import TRACE_ID_BYTES, spelled_id
from ingest.times import parse_time

NAME = "litellm_spend"


class Row(Struct):
    """The columns of a row that are used."""

    request_id: str | None = None
    call_type: str | None = None
    startTime: str | float | None = None  # noqa: N815 - the names of the columns
    endTime: str | float | None = None  # noqa: N815
    model: str | None = None
    model_id: str | None = None
    custom_llm_provider: str | None = None
    user: str | None = None
    end_user: str | None = None
    metadata: Any = None
    cache_hit: Any = None
    session_id: str | None = None
    status: str | None = None
    prompt_tokens: Any = None
    completion_tokens: Any = None
    messages: Any = None
    response: Raw = NULL
    proxy_server_request: Any = None


_ROWS = msgspec.json.Decoder(Row)


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is a row of the spend logs."""
    return {"request_id", "spend", "startTime"} <= keys.keys()


def read(line: bytes) -> tuple[Call, ...] | None:
    """The calls of one row, one a choice; text and ids are there only where the proxy stores prompts.

    The session of a row is the trace of the call's standard payload, so it is the trace here too. Lists of numbers
    are whole even where texts were cut.
    """
    if b'"request_id"' not in line or b'"spend"' not in line:
        return None
    row = _ROWS.decode(line)
    if row.request_id is None and not claims(keys_of(line)):  # the names stand deeper, in another record
        return None
    return _calls(row, line)


def _calls(row: Row, line: bytes) -> tuple[Call, ...]:
    if not is_generation(row.call_type):
        return ()
    metadata = _object(row.metadata)
    error = metadata.get("error_information")
    refuse_failure(
        row.status or text_in(metadata, "status"), text_in(error, "error_class") if isinstance(error, dict) else None
    )
    request = _object(row.proxy_server_request)
    sampling, found = sampling_of(parameters(request))
    messages, is_redacted = without_redacted(parsed(row.messages) or request.get("messages"))
    streamed = request.get("stream") is True
    guardrails = metadata.get("guardrail_information")
    notes = (*notes_of(line, cache_hit=row.cache_hit, guardrails=guardrails), *found)
    told = Exported(
        log_format=NAME,
        trace_id=str(spelled_id(row.session_id or "", TRACE_ID_BYTES)),
        user=row.end_user or row.user or None,
        deployment=row.model_id or None,
        engine=engine_of(row.custom_llm_provider),
        started_at=utc_time(row.startTime, "startTime"),
        ended_at=utc_time(row.endTime, "endTime"),
        model=row.model,
        sampling=sampling,
        messages_json=messages_json(messages),
        response_id=row.request_id or None,
        num_prompt_tokens=count_or_none(row.prompt_tokens),
        num_completion_tokens=None if streamed else count_or_none(row.completion_tokens),
        streamed=streamed,
        notes=(*notes, "text_redacted") if is_redacted else notes,
    )
    stored = bytes(row.response).strip()
    return calls_of(told) if stored in (b"null", b"{}", b'"{}"', b'""') else calls_with(told, stored)


def utc_time(value: str | float | None, field: str) -> datetime | None:
    """A time of a database column that LiteLLM fills in UTC and whose type has no zone."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            return parse_time(value, field)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
    return None if value is None or value == "" else parse_time(value, field)


def _object(value: Any) -> dict[str, Any]:
    """A column that holds an object, or its JSON as a text."""
    value = parsed(value)
    return value if isinstance(value, dict) else {}


FORMAT = Format(NAME, claims, read)
