"""Agent Lightning's spans before version 1: OpenTelemetry spans of one attempt, with ids among their attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ingest.call import Call, pack_ids
from ingest.formats import dialogue
from ingest.formats.body import Envelope, Wrapped, refuse_nul
from ingest.formats.exported import count_or_none, sampling_of, text_in
from ingest.formats.format import Format, Keys, Records
from ingest.formats.generation import packed
from ingest.formats.sizes import SmallInt, TokenId
from ingest.outcome import Outcome, outcome_from
from schemas.errors import LineError

NAME = "agent_lightning_span"

_OUTPUT = "agentlightning.operation.output"
_PROMPT_IDS = ("prompt_token_ids", f"{_OUTPUT}.prompt_token_ids", "llm.hosted_vllm.prompt_token_ids")
_SAMPLED_IDS = (
    "response_token_ids",
    f"{_OUTPUT}.response_token_ids.0",
    f"{_OUTPUT}.choices.0.token_ids",
    f"{_OUTPUT}.choices.0.provider_specific_fields.token_ids",
    "llm.hosted_vllm.response_token_ids",
)
_CHOICES = "llm.hosted_vllm.choices"
_RESPONSE_IDS = ("gen_ai.response.id", f"{_OUTPUT}.id", "llm.hosted_vllm.id")
_MODELS = ("gen_ai.response.model", f"{_OUTPUT}.model", "llm.hosted_vllm.model", "gen_ai.request.model")
_REWARD = re.compile(r"agentlightning\.reward\.(\d{1,4})\.value", re.ASCII)
_IDS_IN_TEXT = re.compile(r"""['"]token_ids['"]: *(\[[\d, ]*\])""", re.ASCII)
"""Choices are written as Python writes them, which is no JSON; a list of ids looks the same in both."""


class Span(Struct):
    """One span."""

    rollout_id: str | int | None = None
    attempt_id: str | int | None = None
    sequence_id: SmallInt | None = None
    span_id: str | None = None
    name: str | None = None
    start_time: float | None = None
    end_time: float | None = None
    attributes: dict[str, Any] | None = None


class Entry(Struct, gc=False):
    """One sampled token."""

    logprob: float | None = None


_SPAN = msgspec.json.Decoder(Span)


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is a span of an attempt."""
    return all(name in keys for name in ("rollout_id", "attempt_id", "sequence_id", "attributes"))


def read(line: bytes) -> Records | None:
    """The call of a span that has token ids or is a chat completion, the scores of a reward span, else nothing."""
    span = _SPAN.decode(line)
    if span.rollout_id is None or span.attempt_id is None or span.attributes is None:
        return None
    scores = _scores(span, span.attributes)
    return scores or _calls(span, span.attributes)


FORMAT = Format(NAME, claims, read)


def _trace_id(span: Span) -> str:
    return f"{span.rollout_id}/{span.attempt_id}"


def _calls(span: Span, attributes: Mapping[str, Any]) -> Records:
    prompt = _ids(attributes, _PROMPT_IDS)
    sampled, num_choices = _sampled(attributes)
    response_id = text_in(attributes, *_RESPONSE_IDS)
    if prompt is None and sampled is None and not (span.name == "openai.chat.completion" and response_id):
        return ()
    model = text_in(attributes, *_MODELS) or ""
    refuse_nul({"response id": response_id, "model": model})
    asked = {
        name.removeprefix("gen_ai.request."): v for name, v in attributes.items() if name.startswith("gen_ai.request.")
    }
    sampling, notes = sampling_of(asked)
    found = list(notes)
    logprobs = _logprobs(attributes.get("logprobs.content"))
    fingerprint = text_in(attributes, "gen_ai.openai.system_fingerprint")
    envelope = Envelope(
        ts=span.start_time,
        ended_at=span.end_time,
        trace_id=_trace_id(span),
        ask_id=span.rollout_id,
        span_id=span.span_id,
        call_index=span.sequence_id,
    )
    call = Call(
        **Wrapped(envelope=envelope, request=None, response=None).shared(),
        response_id=response_id,
        model=model,
        engine="vllm" if fingerprint is not None and fingerprint.startswith("vllm-") else None,
        engine_version=fingerprint,
        log_format=NAME,
        num_choices=num_choices,
        prompt_token_ids=pack_ids(prompt),
        token_ids=pack_ids(sampled),
        token_logprobs=packed(logprobs, found),
        sampling=sampling,
        finish_reason=text_in(attributes, "gen_ai.completion.0.finish_reason"),
        num_prompt_tokens=count_or_none(attributes.get("gen_ai.usage.prompt_tokens")),
        num_completion_tokens=count_or_none(attributes.get("gen_ai.usage.completion_tokens")),
        messages_json=_messages(attributes),
        reply_text=text_in(attributes, "gen_ai.completion.0.content"),
        notes=tuple(found),
    )
    return (call,)


def _ids(attributes: Mapping[str, Any], names: tuple[str, ...]) -> list[int] | None:
    """The first of these attributes that is there: a list of ids, or its text."""
    for name in names:
        value = attributes.get(name)
        if value:
            ids: list[int] = _convert(value, list[TokenId], name)
            return ids
    return None


def _sampled(attributes: Mapping[str, Any]) -> tuple[list[int] | None, int]:
    """The sampled ids of the first choice, and the number of choices."""
    lists = attributes.get("llm.hosted_vllm.response_token_ids")
    plain = {name: value for name, value in attributes.items() if name != "llm.hosted_vllm.response_token_ids"}
    ids = _ids(plain, _SAMPLED_IDS)
    if lists:
        choices = _convert(lists, list[list[TokenId]], "llm.hosted_vllm.response_token_ids")
        return ids or (choices[0] if choices else None), max(len(choices), 1)
    text = attributes.get(_CHOICES)
    if ids is None and isinstance(text, str):
        spelled = _IDS_IN_TEXT.findall(text)
        return (_convert(spelled[0], list[TokenId], _CHOICES), len(spelled)) if spelled else (None, 1)
    return ids, 1


def _convert(value: Any, kind: Any, name: str) -> Any:
    """A value of that type, or its text as JSON."""
    try:
        return msgspec.json.decode(value, type=kind) if isinstance(value, str) else msgspec.convert(value, kind)
    except msgspec.DecodeError as error:
        raise LineError("bad_field", f"{name}: {error}; expected its own types: mend the exporter") from error


def _logprobs(content: Any) -> list[float | None] | None:
    if content is None:
        return None
    entries: list[Entry] = _convert(content, list[Entry], "logprobs.content")
    return [entry.logprob for entry in entries]


def _messages(attributes: Mapping[str, Any]) -> str | None:
    """The prompt's messages, one attribute a field: gen_ai.prompt.0.role, gen_ai.prompt.0.content."""
    messages: list[dict[str, Any]] = []
    while f"gen_ai.prompt.{len(messages)}.role" in attributes:
        start = f"gen_ai.prompt.{len(messages)}."
        messages.append({"role": attributes[f"{start}role"], "content": attributes.get(f"{start}content")})
    return dialogue.messages_json(messages)


def _scores(span: Span, attributes: Mapping[str, Any]) -> tuple[Outcome, ...]:
    """The scores of a reward span, one a dimension; a value that is null is no score."""
    found: dict[str, Any] = {}
    for key, value in attributes.items():
        match = _REWARD.fullmatch(key)
        if match:
            found[text_in(attributes, f"agentlightning.reward.{match[1]}.name") or "reward"] = value
    if not found:
        found["reward"] = _older_reward(span, attributes)
    shared = {
        "trace_id": _trace_id(span),
        "source_kind": "program",
        "source": "agent_lightning",
        "event_time": span.end_time if span.end_time is not None else span.start_time,
    }
    return tuple(
        outcome_from({**shared, "name": name, "value": value}) for name, value in found.items() if value is not None
    )


def _older_reward(span: Span, attributes: Mapping[str, Any]) -> Any:
    """The reward as versions before 0.3 wrote it."""
    for name in ("agentops.task.output", "agentops.entity.output"):
        output = dialogue.parsed(attributes.get(name))
        if isinstance(output, dict) and output.get("type") == "reward":
            return output.get("value")
    return attributes.get("reward") if span.name == "agentlightning.annotation" else None
