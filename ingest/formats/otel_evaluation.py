"""OpenTelemetry evaluation events: `gen_ai.evaluation.result`, one log record a line; `otlp` reads whole log lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.formats.format import Format, Keys
from ingest.formats.otel_attributes import SPAN_ID_BYTES, TRACE_ID_BYTES, decode_attributes, hex_id
from ingest.formats.score_line import fields_of
from ingest.outcome import Outcome, outcome_from
from ingest.words import USUAL, WordSettings
from schemas.errors import LineError
from schemas.outcome import SourceKind

NAME = "otel_evaluation"
EVENT = "gen_ai.evaluation.result"

UNSAID: SourceKind = "judge"
"""The event does not say who scored. It is taken for a judge, which is trusted least."""


def claims(keys: Keys) -> bool:
    """Whether the keys are those of a log record by itself."""
    return {"attributes", "timeUnixNano"} <= keys.keys() and ("eventName" in keys or "body" in keys)


def evaluation_outcome(
    record: Mapping[str, Any], words: WordSettings = USUAL, *, source: str = "otel"
) -> Outcome | None:
    """The outcome of a log record or span event; None for another event, or for an evaluation that failed.

    `record` is of OTLP/JSON; of a span event `traceId` and `spanId` are those of its span. The score is of the span
    that it stands under, or of the response that it names, whichever is known here.
    """
    attributes = decode_attributes(record.get("attributes"))
    name = record.get("eventName") or record.get("name") or attributes.get("event.name")
    if name != EVENT or attributes.get("error.type") is not None:
        return None
    fields = {
        "event_id": attributes.get("log.record.uid"),
        "trace_id": hex_id(record.get("traceId"), TRACE_ID_BYTES, "traceId"),
        "call_id": hex_id(record.get("spanId"), SPAN_ID_BYTES, "spanId"),
        "response_id": attributes.get("gen_ai.response.id"),
        "session_id": attributes.get("gen_ai.conversation.id"),
        "name": attributes.get("gen_ai.evaluation.name"),
        "label": attributes.get("gen_ai.evaluation.score.label"),
        "source_kind": words.kind_of("otel", source, {source: UNSAID}),
        "source": source,
        "event_time": _nanos(record, "timeUnixNano") or _nanos(record, "observedTimeUnixNano"),
        "observed_time": _nanos(record, "observedTimeUnixNano"),
    }
    if "gen_ai.evaluation.score.value" in attributes:
        fields["value"] = _number(attributes["gen_ai.evaluation.score.value"])
    return outcome_from(fields, words)


def _number(value: object) -> float:
    """The score; an attribute of another type is refused, as a text is no number here."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LineError(
            "bad_value", f"gen_ai.evaluation.score.value is {str(value)[:40]!r}; expected an intValue or a doubleValue"
        )
    return value


def _nanos(record: Mapping[str, Any], name: str) -> int | None:
    """A time in nanoseconds, exactly: text or a whole number; 0 means that there is none."""
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        return int(value) or None
    if isinstance(value, int) and not isinstance(value, bool):
        return value or None
    raise LineError("bad_time", f"{name} is {str(value)[:40]!r}; expected whole nanoseconds since 1970")


def format_of(words: WordSettings) -> Format:
    """The format, with what labels are worth; log records of other events hold nothing to keep."""

    def read(line: bytes) -> tuple[Outcome, ...] | None:
        record = fields_of(line)
        if not claims(record):
            return None
        outcome = evaluation_outcome(record, words)
        return () if outcome is None else (outcome,)

    return Format(NAME, claims, read, tells_apart=False)
