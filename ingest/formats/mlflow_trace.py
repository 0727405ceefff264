"""MLflow traces: `{"info": ..., "data": {"spans": ...}}`, one trace a line, with its assessments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from ingest.call import Call
from ingest.formats import mlflow_attributes
from ingest.formats.beside import with_scores
from ingest.formats.exported import calls_of, text_in
from ingest.formats.format import Format, Keys, Records, keys_of
from ingest.formats.mlflow_assessment import assessment_outcome
from ingest.formats.otel_attributes import TRACE_ID_BYTES, spelled_id
from ingest.formats.score_line import part, parts
from ingest.formats.span_calls import exported_call
from ingest.formats.spans import Span
from ingest.times import time_or_none
from ingest.words import USUAL, WordSettings

NAME = "mlflow_trace"
_FAILED = ("STATUS_CODE_ERROR", "ERROR")


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is a trace."""
    return {"info", "data"} <= keys.keys() and "spans" in keys_of(keys["data"])


def format_of(words: WordSettings = USUAL) -> Format:
    """The format, with what labels are worth."""

    def read(line: bytes) -> Records | None:
        if b'"info"' not in line or b'"spans"' not in line:
            return None
        trace = msgspec.json.decode(line)
        if not isinstance(trace, dict) or not {"info", "data"} <= trace.keys():
            return None
        return _records(part(trace, "info"), part(trace, "data"), words)

    return Format(NAME, claims, read)


def _records(info: Mapping[str, Any], data: Mapping[str, Any], words: WordSettings) -> Records:
    """The calls and scores of one trace."""
    trace_id = spelled_id(text_in(info, "trace_id", "request_id") or "", TRACE_ID_BYTES)
    beside = {**part(info, "tags"), **part(info, "request_metadata"), **part(info, "trace_metadata")}
    calls = [call for span in parts(data, "spans") for call in _calls(span, str(trace_id), beside)]
    assessments = [{"trace_id": trace_id, **assessment} for assessment in parts(info, "assessments")]
    return with_scores(calls, [partial(assessment_outcome, assessment, words) for assessment in assessments])


def _calls(span: Mapping[str, Any], trace_id: str, beside: Mapping[str, Any]) -> tuple[Call, ...]:
    context = part(span, "context")  # the form before 3.5 has the ids in it, and `0x` before them
    status = span.get("status_code") or part(span, "status").get("code")
    call = exported_call(
        Span(
            trace_id=None,
            span_id=span.get("span_id", context.get("span_id")),
            attributes={**beside, **part(span, "attributes")},
            started_at=_first_time(span, "start_time_unix_nano", "start_time"),
            ended_at=_first_time(span, "end_time_unix_nano", "end_time"),
            has_failed=status in _FAILED,
        ),
        NAME,
        (mlflow_attributes.exported,),
    )
    return () if call is None else calls_of(replace(call, trace_id=trace_id))  # an id may be of any form here


def _first_time(span: Mapping[str, Any], *names: str) -> datetime | None:
    """The first of these times that is there."""
    return next((time for name in names if (time := time_or_none(span.get(name), name)) is not None), None)
