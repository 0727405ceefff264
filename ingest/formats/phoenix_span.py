"""Spans as Arize Phoenix's REST interface and OpenTelemetry's own `span.to_json` write them, one a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ingest.formats import agent_lightning_span, openinference, openinference_feedback
from ingest.formats.beside import feedback, with_scores
from ingest.formats.format import Format, Keys, Records
from ingest.formats.score_line import part, parts
from ingest.formats.span_calls import span_calls
from ingest.formats.spans import Event, Span, flat
from ingest.times import time_or_none
from ingest.words import USUAL, WordSettings

NAME = "phoenix_span"


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is a span; one that carries feedback for another is read elsewhere."""
    return {"context", "attributes", "start_time"} <= keys.keys() and not openinference_feedback.claims(keys)


def format_of(words: WordSettings = USUAL) -> Format:
    """The format, with what labels are worth."""

    def read(line: bytes) -> Records | None:
        if b'"context"' not in line:
            return None
        span = msgspec.json.decode(line)
        if not isinstance(span, dict) or not {"context", "attributes", "start_time"} <= span.keys():
            return None
        if agent_lightning_span.claims(span):  # the same fields and more
            return None
        return _records(span, words)

    return Format(NAME, claims, read)


def _records(span: Mapping[str, Any], words: WordSettings) -> Records:
    attributes = part(span, "attributes")
    context = part(span, "context")
    links = parts(span, "links")
    status = span.get("status_code") or part(span, "status").get("status_code")
    calls = span_calls(
        Span(
            trace_id=context.get("trace_id"),
            span_id=context.get("span_id"),
            attributes=_spelled(dict(flat(attributes)), span.get("span_kind")),
            started_at=time_or_none(span.get("start_time"), "start_time"),
            ended_at=time_or_none(span.get("end_time"), "end_time"),
            events=tuple(_event(event) for event in parts(span, "events")),
            has_failed=status == "ERROR",
        ),
        NAME,
    )
    return with_scores(calls, feedback(attributes, links, span.get("end_time"), words) if links else ())


def _spelled(attributes: dict[str, Any], kind: object) -> dict[str, Any]:
    """The attributes with the kind that Phoenix took out of them and keeps beside them."""
    return attributes if openinference.KIND in attributes else {**attributes, openinference.KIND: kind}


def _event(event: Mapping[str, Any]) -> Event:
    name = event.get("name")
    return Event(name=name if isinstance(name, str) else "", attributes=part(event, "attributes"))
