"""MLflow assessments: feedback on a trace or a span, alone in a line or within the export of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ingest.formats.format import Format, Keys
from ingest.formats.otel_attributes import SPAN_ID_BYTES, TRACE_ID_BYTES, spelled_id
from ingest.formats.score_line import fields_of, part
from ingest.outcome import Outcome, outcome_from
from ingest.times import parse_time
from ingest.words import USUAL, WordSettings
from schemas.errors import LineError
from schemas.outcome import SourceKind

NAME = "mlflow_assessment"

KINDS: dict[str, SourceKind] = {"HUMAN": "human", "LLM_JUDGE": "judge", "AI_JUDGE": "judge", "CODE": "program"}
"""Who scores, by `source.source_type`."""

_MOMENT = timedelta(microseconds=1)


def claims(keys: Keys) -> bool:
    """Whether the keys are those of an assessment."""
    return "assessment_name" in keys and ("feedback" in keys or "expectation" in keys or "error" in keys)


def assessment_outcome(assessment: Mapping[str, Any], words: WordSettings = USUAL) -> Outcome | None:
    """The outcome that an MLflow assessment states; None for an expectation or a scorer's error, which is no score.

    An assessment with `valid: false` was overridden: it withdraws what it said, a moment before its last update, for
    the one that overrides it has that time.
    """
    feedback = part(assessment, "feedback")
    if "feedback" not in assessment or feedback.get("error") or assessment.get("error"):
        return None
    created, updated = _time(assessment, "create_time"), _time(assessment, "last_update_time")
    fields = {
        "event_id": assessment.get("assessment_id"),
        "trace_id": spelled_id(assessment.get("trace_id"), TRACE_ID_BYTES),
        "call_id": spelled_id(assessment.get("span_id"), SPAN_ID_BYTES),
        "name": assessment.get("assessment_name"),
        "source_kind": words.kind_of("mlflow", part(assessment, "source").get("source_type"), KINDS),
        "source": part(assessment, "source").get("source_id") or "mlflow",
        "event_time": updated or created,
    }
    if assessment.get("valid") is False:
        return _withdrawn(outcome_from(fields | {"value": None}, words), created)
    return outcome_from(fields | _value(feedback), words)


def _value(feedback: Mapping[str, Any]) -> dict[str, Any]:
    """A number or a truth is a value, a text is a label; MLflow allows lists and objects too."""
    value = feedback.get("value")
    if isinstance(value, str):
        return {"label": value}
    if not isinstance(value, bool | int | float):
        raise LineError(
            "bad_value", f"feedback.value is a {type(value).__name__}; expected a number, true, false or a label"
        )
    return {"value": value}


def _withdrawn(outcome: Outcome, created: object) -> Outcome:
    time = outcome.event_time
    if time is not None and created is not None and time > parse_time(str(created), "create_time"):
        return replace(outcome, event_time=time - _MOMENT, observed_time=time - _MOMENT)
    return outcome


def _time(assessment: Mapping[str, Any], name: str) -> object:
    """A time of the REST form, or of the Python form in milliseconds."""
    return assessment.get(name) or assessment.get(f"{name}_ms")


def format_of(words: WordSettings) -> Format:
    """The format, with what labels are worth."""

    def read(line: bytes) -> tuple[Outcome, ...]:
        outcome = assessment_outcome(fields_of(line), words)
        return () if outcome is None else (outcome,)

    return Format(NAME, claims, read, tells_apart=False)
