"""Annotations of Arize Phoenix, as its REST interface gives them: one object a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.formats.format import Format, Keys
from ingest.formats.otel_attributes import SPAN_ID_BYTES, TRACE_ID_BYTES, spelled_id
from ingest.formats.score_line import fields_of, part
from ingest.outcome import Outcome, outcome_from
from ingest.words import USUAL, WordSettings
from schemas.outcome import SourceKind

NAME = "phoenix_annotation"

KINDS: dict[str, SourceKind] = {"HUMAN": "human", "LLM": "judge", "CODE": "program"}
"""Who scores, by `annotator_kind`; OpenInference uses the same words."""


def claims(keys: Keys) -> bool:
    """Whether the keys are those of an annotation."""
    return {"annotator_kind", "name"} <= keys.keys()


def annotation_outcome(annotation: Mapping[str, Any], words: WordSettings = USUAL) -> Outcome:
    """The outcome that a Phoenix annotation of a span, a trace or a session states.

    The server keeps one annotation for a name, a target and an identifier and writes over it, so what comes at
    `updated_at` is a revision; an annotation whose score and label were taken away withdraws them.
    """
    result = part(annotation, "result")
    fields = {
        "event_id": annotation.get("id"),
        "trace_id": spelled_id(annotation.get("trace_id"), TRACE_ID_BYTES),
        "call_id": spelled_id(annotation.get("span_id"), SPAN_ID_BYTES),
        "session_id": annotation.get("session_id"),
        "name": annotation.get("name"),
        "value": result.get("score"),
        "label": result.get("label"),
        "source_kind": words.kind_of("phoenix", annotation.get("annotator_kind"), KINDS),
        "source": annotation.get("identifier") or "phoenix",
        "event_time": annotation.get("updated_at") or annotation.get("created_at"),
    }
    return outcome_from(fields, words)


def format_of(words: WordSettings) -> Format:
    """The format, with what labels are worth."""

    def read(line: bytes) -> tuple[Outcome, ...]:
        return (annotation_outcome(fields_of(line), words),)

    return Format(NAME, claims, read, tells_apart=False)
