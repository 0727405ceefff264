"""OpenInference feedback: annotations and evaluations that a span carries for another span, which it links to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ingest.formats.format import Format, Keys
from ingest.formats.otel_attributes import SPAN_ID_BYTES, TRACE_ID_BYTES, hex_id
from ingest.formats.phoenix_annotation import KINDS
from ingest.formats.score_line import fields_of, part, parts
from ingest.outcome import Outcome, outcome_from
from ingest.words import USUAL, WordSettings
from schemas.errors import LineError

NAME = "openinference_feedback"

_FIELD = re.compile(r"(?:(trace|session)\.)?(annotation|evaluation)s\.(\d{1,6})\.\2\.(\w+)", re.ASCII)
_MARKS = (b"annotation", b"evaluation")


def claims(keys: Keys) -> bool:
    """Whether the keys are those of a span that carries feedback and links to what it is about."""
    return {"attributes", "links", "context"} <= keys.keys() and any(
        mark in bytes(keys["attributes"]) for mark in _MARKS
    )


def feedback_outcomes(
    attributes: Mapping[str, Any], links: Sequence[Mapping[str, Any]], ended_at: object, words: WordSettings = USUAL
) -> tuple[Outcome, ...]:
    """The outcomes that a span carries for the one span that it links to; none where it carries none.

    `attributes` are flattened or nested, with plain values; a link names its span by `context`, or by `trace_id` and
    `span_id`, or by `traceId` and `spanId`. The parent of the span says nothing. `ended_at` is any time that
    `outcome_from` reads; None where the span has none, and then the time of reading will stand for it.
    """
    flat = dict(_flattened(attributes))
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for key, value in flat.items():
        if match := _FIELD.fullmatch(key):
            scope, kind, index, field = match.groups()
            found.setdefault((scope or "span", kind, int(index)), {})[field] = value
    if not found:
        return ()
    trace_id, span_id = _target(links)
    targets = {
        "span": {"trace_id": trace_id, "call_id": span_id},
        "trace": {"trace_id": trace_id},
        "session": {"session_id": flat.get("session.id")},
    }
    rows = (targets[scope] | _fields(entry, words) for (scope, _, _), entry in sorted(found.items()))
    return tuple(outcome_from(row | {"event_time": ended_at}, words, needs_time=False) for row in rows if row)


def _fields(entry: Mapping[str, Any], words: WordSettings) -> dict[str, Any]:
    fields = {
        "name": entry.get("name"),
        "label": entry.get("label"),
        "source_kind": words.kind_of("openinference", entry.get("annotator_kind"), KINDS),
        "source": entry.get("identifier") or "openinference",
    }
    if "score" in entry:
        score = entry["score"]
        if isinstance(score, bool) or not isinstance(score, int | float):
            raise LineError("bad_value", f"a score is {str(score)[:40]!r}; expected a number: mend the exporter")
        fields["value"] = score
    return fields


def _target(links: Sequence[Mapping[str, Any]]) -> tuple[str | None, str | None]:
    """The trace and the span of the one link."""
    if len(links) != 1:
        raise LineError(
            "no_join_key", f"{len(links)} links on a span with feedback; expected one, to the span that it is about"
        )
    (link,) = links
    place = part(link, "context") or link
    return (
        hex_id(place.get("trace_id", place.get("traceId")), TRACE_ID_BYTES, "the link's trace_id"),
        hex_id(place.get("span_id", place.get("spanId")), SPAN_ID_BYTES, "the link's span_id"),
    )


def _flattened(value: object, place: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested attributes, by their path; flat attributes are their own leaves."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flattened(inner, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        for number, inner in enumerate(value):
            yield from _flattened(inner, f"{place}.{number}")
    else:
        yield place, value


def format_of(words: WordSettings) -> Format:
    """The format, with what labels are worth."""

    def read(line: bytes) -> tuple[Outcome, ...] | None:
        span = fields_of(line)
        ended_at = span.get("end_time") or span.get("start_time")
        return feedback_outcomes(part(span, "attributes"), parts(span, "links"), ended_at, words) or None

    return Format(NAME, claims, read, tells_apart=False)
