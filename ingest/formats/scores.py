"""All forms in which scores come as JSON lines."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.formats import (
    langfuse_score,
    mlflow_assessment,
    openinference_feedback,
    otel_evaluation,
    outcome_json,
    phoenix_annotation,
    webhook,
)
from ingest.formats.format import Format
from ingest.webhooks import WebhookEvent
from ingest.words import WordSettings


def score_formats(words: WordSettings, events: Mapping[str, WebhookEvent]) -> tuple[Format, ...]:
    """The formats, a special one before a general one."""
    return (
        webhook.format_of(words, events),
        otel_evaluation.format_of(words),
        openinference_feedback.format_of(words),
        langfuse_score.format_of(words),
        phoenix_annotation.format_of(words),
        mlflow_assessment.format_of(words),
        outcome_json.format_of(words),
    )
