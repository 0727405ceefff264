"""Calls as rows of `calls`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from ingest.call import Call
from ingest.columns import list_column
from ingest.meaning import Deployment, Meaning
from ingest.redact import Redactor, hash_user
from schemas.tables import table

if TYPE_CHECKING:
    from ingest.batch import Placed
    from ingest.log_source import ReadCall

_SCHEMA = table("calls").schema
_PACKED = {"prompt_token_ids": pa.int32(), "token_ids": pa.int32(), "token_logprobs": pa.float32()}
_AS_LOGGED = (
    "trace_id",
    "call_index",
    "response_id",
    "ask_id",
    "session_id",
    "workload",
    "model",
    "log_format",
    "streamed",
    "choice_index",
    "num_choices",
    "top_token_ids",
    "top_token_logprobs",
    "finish_reason",
    "stop_reason",
    "num_prompt_tokens",
    "num_completion_tokens",
    "messages_json",
    "reply_text",
    "span_id",
    "ended_at",
)
_AS_MEANT = ("logprob_kind", "temperature", "top_p", "top_k")


def call_rows(
    landed: Sequence[Placed], redactor: Redactor, salt: bytes, configured: Mapping[str, Deployment], now: datetime
) -> pa.Table:
    """Calls as columns of `calls`, redacted; the time of reading stands where a line has none.

    Names that the settings hold, or read a version off, are an operator's words and stay as they are: by them the
    calls get their meaning again when the settings change.
    """
    items: list[ReadCall] = [placed.item for placed in landed]
    redacted = [_redact(item, redactor, configured) for item in items]
    columns: dict[str, Any] = {
        name: list_column([getattr(item.call, name) for item in items], kind) for name, kind in _PACKED.items()
    }
    columns |= {name: [getattr(item.call, name) for item in items] for name in _AS_LOGGED}
    columns |= {name: [getattr(item.meaning, name) for item in items] for name in _AS_MEANT}
    for name in ("deployment", "policy_version"):
        columns[name] = [
            value if item.meaning.deployment in configured else redactor.identifier(value)
            for item, value in ((item, getattr(item.meaning, name)) for item in items)
        ]
    for name in ("engine", "engine_version"):
        columns[name] = [redactor.identifier(getattr(item.call, name)) for item in items]
    columns["call_id"] = [item.item_id for item in items]
    columns["logged_deployment"] = [item.call.deployment for item in items]
    columns["user_hash"] = [hash_user(salt, item.call.user) for item in items]
    columns["sampling_json"] = [redactor.json_text(_json(item.call.sampling), numbers="keep") for item in items]
    columns["version_spans"] = [_version_spans(item.call, redactor) for item in items]
    columns["masked_positions"] = [item.call.masked_positions or None for item in items]
    columns["started_at"] = [item.call.started_at or item.call.ended_at or now for item in items]
    columns["notes"] = [sorted({*item.codes, *more}) for item, more in zip(items, redacted, strict=True)]
    columns["uri"] = [placed.uri for placed in landed]
    columns["byte_offset"] = [placed.byte_offset for placed in landed]
    columns["line_sha256"] = [placed.line_sha256 for placed in landed]
    columns["ingested_at"] = [now] * len(items)
    return pa.table({name: pa.array(values, _SCHEMA.field(name).type) for name, values in columns.items()})


def _redact(item: ReadCall, redactor: Redactor, configured: Mapping[str, Deployment]) -> tuple[str, ...]:
    """Redact the call in place but for the name of a deployment that the settings hold; what to note of it.

    A model's name is the client's to choose, so it stays only where the settings spell it out.
    """
    call = item.call
    deployment, model = call.deployment, call.model
    notes = redactor.call(call)
    if deployment in configured:
        call.deployment = deployment
    if call.model != model and _is_spelled_out(model, item.meaning, configured):
        call.model = model
    return notes


def _is_spelled_out(model: str, meaning: Meaning, configured: Mapping[str, Deployment]) -> bool:
    """Whether the settings of its deployment name the model, or read its version off the name."""
    settings = configured.get(meaning.deployment or "")
    if settings is None:
        return False
    names_version = settings.version_pattern is not None and (meaning.policy_version or model + "?") in model
    return names_version or any(fnmatchcase(model, pattern) for pattern in settings.models)


def _version_spans(call: Call, redactor: Redactor) -> list[dict[str, Any]] | None:
    if not call.weight_spans:
        return None
    return [
        {"policy_version": redactor.identifier(span.version), "start": span.start, "end": span.end}
        for span in call.weight_spans
    ]


def _json(sampling: Mapping[str, Any]) -> str:
    return msgspec.json.encode(sampling, order="sorted").decode()
