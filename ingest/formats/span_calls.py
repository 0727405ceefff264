"""The calls of a span, whichever dialect its attributes are in."""

from __future__ import annotations

from collections.abc import Callable

from ingest.call import Call
from ingest.formats import genai_attributes, mlflow_attributes, openinference
from ingest.formats.exported import Exported, calls_of
from ingest.formats.spans import Span

Dialect = Callable[[Span, str], Exported | None]
"""Reads a span under the name of a format; None of a span that it does not know."""

DIALECTS: tuple[Dialect, ...] = (openinference.exported, mlflow_attributes.exported, genai_attributes.exported)
"""The first that knows a span reads it; OpenInference and MLflow keep the raw answer, so they stand before GenAI's."""


def exported_call(span: Span, log_format: str, dialects: tuple[Dialect, ...] = DIALECTS) -> Exported | None:
    """What the first dialect that knows a span's attributes reads of it; None for a span that is no model call.

    A span that failed without a reply is none either: nothing was sampled.
    """
    for read in dialects:
        told = read(span, log_format)
        if told is not None:
            is_empty = told.answer is None and all(reply.text is None for reply in told.replies)
            return None if span.has_failed and is_empty else told
    return None


def span_calls(span: Span, log_format: str) -> tuple[Call, ...]:
    """The calls of a span, one a choice; none of a span that is no model call."""
    told = exported_call(span, log_format)
    return () if told is None else calls_of(told)
