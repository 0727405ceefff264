"""Langfuse traces: `{"trace", "observations"}` of an export, the API's trace object, or one observation a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from ingest.call import Call
from ingest.formats.beside import with_scores
from ingest.formats.dialogue import messages_json, parsed, reply_text
from ingest.formats.exported import Exported, Reply, answer_in, calls_of, count_or_none, sampling_of, text_in
from ingest.formats.format import Format, Keys, Records
from ingest.formats.langfuse_score import score_outcome
from ingest.formats.otel_attributes import SPAN_ID_BYTES, TRACE_ID_BYTES, spelled_id
from ingest.formats.score_line import part, parts
from ingest.times import time_or_none
from ingest.words import USUAL, WordSettings

NAME = "langfuse_trace"

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,18})(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_TEXTS = ("stop", "reasoning_effort")
"""Parameters that are texts by themselves; in any other, a text that spells a number is Langfuse's spelling of it."""


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is a trace, with or without an object around it, or an observation."""
    if {"trace", "observations"} <= keys.keys() or {"trace", "scores"} <= keys.keys():
        return True
    is_trace = {"id", "timestamp", "observations"} <= keys.keys()
    return is_trace or {"id", "traceId", "type", "startTime"} <= keys.keys()


def format_of(words: WordSettings = USUAL) -> Format:
    """The format, with what labels are worth."""

    def read(line: bytes) -> Records | None:
        if b'"observations"' not in line and b'"traceId"' not in line and b'"scores"' not in line:
            return None
        document = msgspec.json.decode(line)
        if not isinstance(document, dict) or not claims(document):
            return None
        return _records(document, words)

    return Format(NAME, claims, read)


def _records(document: Mapping[str, Any], words: WordSettings) -> Records:
    """The calls and scores of a trace; observations that are no generation hold no call."""
    if "traceId" in document and "observations" not in document:
        return _calls(document, {})
    trace = part(document, "trace") or document
    calls = [call for one in _by_id(document, trace, "observations") for call in _calls(one, trace)]
    scores = [{"traceId": trace.get("id"), **score} for score in _by_id(document, trace, "scores")]
    return with_scores(calls, [partial(score_outcome, score, words) for score in scores])


def _by_id(document: Mapping[str, Any], trace: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Records that stand beside the trace and within it, each id once; those beside it are the fuller ones.

    Within a trace there may be ids instead of records: those say nothing.
    """
    within = trace.get(name) if trace is not document else None
    inner = [one for one in within if isinstance(one, Mapping)] if isinstance(within, list) else []
    outer = document.get(name)
    if isinstance(outer, list) and all(isinstance(one, str) for one in outer):
        outer = []
    beside = parts({name: outer}, name)
    known = {one["id"] for one in beside if isinstance(one.get("id"), str)}
    return [*beside, *(one for one in inner if one.get("id") not in known)]


def _calls(observation: Mapping[str, Any], trace: Mapping[str, Any]) -> tuple[Call, ...]:
    if observation.get("type") != "GENERATION":
        return ()
    output = parsed(observation.get("output"))
    if observation.get("level") == "ERROR" and output in (None, "", {}, []):
        return ()
    given = parsed(observation.get("input"))
    request = given if isinstance(given, Mapping) and "messages" in given else {}
    sampling, found = sampling_of({**request, **_parameters(observation.get("modelParameters"))})
    inner = output if isinstance(output, Mapping) else {}
    usage = parsed(observation.get("usageDetails")) or parsed(observation.get("usage"))
    counts: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
    trace_id = text_in(observation, "traceId") or text_in(trace, "id") or ""
    span_id = text_in(observation, "id")
    return calls_of(
        Exported(
            log_format=NAME,
            trace_id=str(spelled_id(trace_id, TRACE_ID_BYTES)),
            span_id=None if span_id is None else str(spelled_id(span_id, SPAN_ID_BYTES)),
            session_id=text_in(observation, "sessionId") or text_in(trace, "sessionId"),
            user=text_in(observation, "userId") or text_in(trace, "userId"),
            ask_id=_ask_id(observation) or _ask_id(trace),
            started_at=time_or_none(observation.get("startTime"), "startTime"),
            ended_at=time_or_none(observation.get("endTime"), "endTime"),
            model=text_in(observation, "model", "providedModelName") or text_in(inner, "model"),
            sampling=sampling,
            messages_json=messages_json(given),
            replies=(Reply(reply_text(output)),),
            response_id=text_in(inner, "id"),
            num_prompt_tokens=count_or_none(counts.get("input")),
            num_completion_tokens=count_or_none(counts.get("output")),
            answer=answer_in(output),
            notes=found,
        )
    )


def _parameters(given: Any) -> dict[str, Any]:
    """The parameters of a model, whose numbers Langfuse may spell as texts; one that was not set is left out."""
    told = parsed(given)
    if not isinstance(told, Mapping):
        return {}
    return {
        name: _number(value) if isinstance(value, str) and name not in _TEXTS else value
        for name, value in told.items()
        if value != "inf"  # max_tokens that was not set
    }


def _number(text: str) -> Any:
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _ask_id(holder: Mapping[str, Any]) -> str | None:
    metadata = parsed(holder.get("metadata"))
    return text_in(metadata, "ask_id") if isinstance(metadata, Mapping) else None
