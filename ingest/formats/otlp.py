"""OTLP/JSON lines: spans and log records as OpenTelemetry's file exporters and collectors write them.

One `TracesData`, `ResourceSpans`, `LogsData`, `ResourceLogs` or span a line. The binary form of the protocol is not
read: it has no lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from ingest.call import Call
from ingest.formats import genai_attributes
from ingest.formats.beside import Score, feedback, with_scores
from ingest.formats.format import Format, Keys, Records
from ingest.formats.genai_attributes import is_message_event
from ingest.formats.otel_attributes import decode_attributes, decode_value
from ingest.formats.otel_evaluation import EVENT, evaluation_outcome
from ingest.formats.score_line import part, parts
from ingest.formats.span_calls import span_calls
from ingest.formats.spans import Event, Span, flat
from ingest.times import time_or_none
from ingest.words import USUAL, WordSettings
from schemas.errors import LineError

NAME = "otlp"

_MARKS = ("resourceSpans", "scopeSpans", "resourceLogs", "scopeLogs")
_IN_LINE = tuple(f'"{mark}"'.encode() for mark in (*_MARKS, "startTimeUnixNano"))
_FAILED = (2, "STATUS_CODE_ERROR")

Key = tuple[str, str]
"""Trace and span, as the line spells them."""


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is of OTLP/JSON."""
    return any(mark in keys for mark in _MARKS) or {"traceId", "spanId", "startTimeUnixNano"} <= keys.keys()


def format_of(words: WordSettings = USUAL) -> Format:
    """The format, with what labels are worth."""

    def read(line: bytes) -> Records | None:
        if not any(mark in line for mark in _IN_LINE):
            return None
        document = msgspec.json.decode(line)
        if not isinstance(document, dict) or not claims(document):
            return None
        return records_of(document, words)

    return Format(NAME, claims, read)


def records_of(document: Mapping[str, Any], words: WordSettings) -> Records:
    """The calls and scores of one decoded line; spans of other kinds and events of other names hold neither.

    Messages of calls whose spans stand elsewhere are of no use, for nothing in the line names their model: the calls
    of the line are noted, and a line that holds nothing else is refused (LineError). A line with scores and without a
    call keeps its scores; the calls themselves are noted where their spans stand (`text_not_logged`).
    """
    messages: dict[Key, list[Event]] = defaultdict(list)
    calls: list[Call] = []
    scores: list[Score] = []
    for record, source in _log_records(document):
        if _is_evaluation(record):
            scores.append(partial(evaluation_outcome, record, words, source=source))
        else:
            calls += _of_record(record, messages)
    for span in _spans(document):
        told = messages.pop(_key(span), [])
        attributes = decode_attributes(span.get("attributes"))
        calls += _of_span(span, attributes, told)
        scores += _scores(span, attributes, words)
    if messages and not calls and not scores:
        raise LineError(
            "orphan_event",
            f"messages of {len(messages)} model calls without their spans; expected both in one line, or the messages "
            "on the span: see docs/formats.md",
        )
    for call in calls if messages else ():
        call.notes = (*call.notes, "orphan_messages")
    return with_scores(calls, scores)


def _spans(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "startTimeUnixNano" in document:
        yield document
    resources = parts(document, "resourceSpans") or ([document] if "scopeSpans" in document else [])
    for resource in resources:
        for scope in parts(resource, "scopeSpans"):
            yield from parts(scope, "spans")


def _log_records(document: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Each log record, and who wrote it: its scope, else its service."""
    resources = parts(document, "resourceLogs") or ([document] if "scopeLogs" in document else [])
    for resource in resources:
        service = decode_attributes(part(resource, "resource").get("attributes")).get("service.name")
        for scope in parts(resource, "scopeLogs"):
            source = part(scope, "scope").get("name") or service
            for record in parts(scope, "logRecords"):
                yield record, source if isinstance(source, str) and source else "otel"


def _scores(span: Mapping[str, Any], attributes: Mapping[str, Any], words: WordSettings) -> Iterator[Score]:
    """The scores that stand on a span: of itself, as events, or of another, to which it links."""
    names = {"traceId": span.get("traceId"), "spanId": span.get("spanId")}
    for event in parts(span, "events"):
        if event.get("name") == EVENT:
            yield partial(evaluation_outcome, {**event, **names}, words)
    links = parts(span, "links")
    if links:
        yield from feedback(attributes, links, span.get("endTimeUnixNano"), words)


def _of_span(span: Mapping[str, Any], attributes: Mapping[str, Any], told: list[Event]) -> tuple[Call, ...]:
    return span_calls(
        Span(
            trace_id=span.get("traceId"),
            span_id=span.get("spanId"),
            attributes=dict(flat(attributes)),
            started_at=time_or_none(span.get("startTimeUnixNano"), "startTimeUnixNano"),
            ended_at=time_or_none(span.get("endTimeUnixNano"), "endTimeUnixNano"),
            events=(*(_event(event) for event in parts(span, "events")), *told),
            has_failed=part(span, "status").get("code") in _FAILED,
            notes=_notes(span),
        ),
        NAME,
    )


def _is_evaluation(record: Mapping[str, Any]) -> bool:
    return EVENT in (record.get("eventName"), _name(record))


def _of_record(record: Mapping[str, Any], messages: dict[Key, list[Event]]) -> tuple[Call, ...]:
    """The call that a log record tells of; a message of one is kept for the span that it belongs to."""
    attributes = decode_attributes(record.get("attributes"))
    name = _name(record)
    body = decode_value(record.get("body"), "body")
    if name == genai_attributes.DETAILS:
        inner = body if isinstance(body, Mapping) else {}
        times = (time_or_none(record.get(name), name) for name in ("timeUnixNano", "observedTimeUnixNano"))
        return span_calls(
            Span(
                trace_id=record.get("traceId"),
                span_id=record.get("spanId"),
                attributes={**inner, **attributes},
                ended_at=next((time for time in times if time is not None), None),
                notes=_notes(record),
            ),
            NAME,
        )
    if isinstance(name, str) and is_message_event(name):
        messages[_key(record)].append(Event(name=name, attributes=attributes, body=body))
    return ()


def _key(record: Mapping[str, Any]) -> Key:
    return str(record.get("traceId")), str(record.get("spanId"))


def _name(record: Mapping[str, Any]) -> Any:
    """The name of a log record that is an event, in a field of its own or in an attribute."""
    return record.get("eventName") or decode_attributes(record.get("attributes")).get("event.name")


def _event(event: Mapping[str, Any]) -> Event:
    name = event.get("name")
    return Event(name=name if isinstance(name, str) else "", attributes=decode_attributes(event.get("attributes")))


def _notes(record: Mapping[str, Any]) -> tuple[str, ...]:
    dropped = record.get("droppedAttributesCount")
    return () if dropped in (None, 0, "0") else ("attributes_dropped",)
