"""The four dialects in which spans of OpenTelemetry tell of a model call (`gen_ai.*`).

Messages with parts (the current conventions), events named after roles (2024), `gen_ai.prompt` and `gen_ai.completion`
as JSON, and Traceloop's numbered attributes. None of them has token ids or log-probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ingest.formats.dialogue import encoded, message_of, messages_json, parsed, said
from ingest.formats.exported import Exported, Reply, answer_in, count_or_none, sampling_of, text_in, whole_number
from ingest.formats.spans import Event, Span, nested

OPERATIONS = ("chat", "text_completion", "generate_content")
REQUEST_TYPES = ("chat", "completion")
DETAILS = "gen_ai.client.inference.operation.details"
CHOICE = "gen_ai.choice"
_SPEAKERS = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}

_SAMPLING = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "max_tokens": "max_tokens",
    "stop_sequences": "stop",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "choice.count": "n",
}
"""What a parameter of a request is called here, by its name in `gen_ai.request.*`."""


def is_message_event(name: str) -> bool:
    """Whether an event holds a part of a call's dialogue."""
    return name == CHOICE or name in _SPEAKERS


def exported(span: Span, log_format: str) -> Exported | None:
    """The model call that a span tells of; None of a span that is none."""
    told = dict(span.attributes)
    for event in span.events:  # some put messages on an event of the span, under the names of attributes
        told.update({name: value for name, value in event.attributes.items() if name not in told})
    if not _is_call(told):
        return None
    given = {name: told.get(f"gen_ai.request.{key}") for key, name in _SAMPLING.items()}
    sampling, found = sampling_of(
        {name: whole_number(value) if name == "top_k" else value for name, value in given.items()}
    )
    shared = span.shared(log_format)
    completion = parsed(told.get("gen_ai.completion"))
    return Exported(
        **{**shared, "notes": (*shared["notes"], *found)},
        model=text_in(told, "gen_ai.response.model", "gen_ai.request.model"),
        sampling=sampling,
        messages_json=_messages(told, span.events),
        replies=_replies(told, span.events),
        response_id=text_in(told, "gen_ai.response.id"),
        num_prompt_tokens=_count(told, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        num_completion_tokens=_count(told, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        engine="vllm" if text_in(told, "gen_ai.provider.name", "gen_ai.system") == "vllm" else None,
        answer=answer_in(completion),
    )


def _is_call(told: Mapping[str, Any]) -> bool:
    operation = told.get("gen_ai.operation.name")
    if operation is not None:
        return operation in OPERATIONS
    if told.get("llm.request.type") is not None:
        return told["llm.request.type"] in REQUEST_TYPES
    has_reply = any(
        name.startswith(("gen_ai.completion", "gen_ai.output.messages", "gen_ai.response.")) for name in told
    )
    return "gen_ai.request.model" in told and has_reply


def _messages(told: Mapping[str, Any], events: Sequence[Event]) -> str | None:
    given = parsed(nested(told, "gen_ai.input.messages"))
    if given is None:
        given = [_from_event(event) for event in events if event.name in _SPEAKERS] or None
    if given is None:
        given = [_from_numbered(one) for one in _numbered(told, "gen_ai.prompt")] or told.get("gen_ai.prompt")
    system = parsed(nested(told, "gen_ai.system_instructions"))
    if not system:
        return messages_json(given)
    spoken = given if isinstance(given, list) else [given] if given else []
    return messages_json([{"role": "system", "parts": system if isinstance(system, list) else [system]}, *spoken])


def _replies(told: Mapping[str, Any], events: Sequence[Event]) -> tuple[Reply, ...]:
    """One reply a choice; their reasons for ending stand on the span, or with the reply."""
    entries = _outputs(told, events)
    reasons = parsed(told.get("gen_ai.response.finish_reasons"))
    ends = reasons if isinstance(reasons, list) else []
    replies = []
    for index, entry in enumerate(entries):
        own = entry.get("finish_reason") if isinstance(entry, Mapping) else None
        reason = ends[index] if index < len(ends) else own
        text = said(message_of(entry, "assistant")) if entry is not None else None
        replies.append(Reply(text, reason if isinstance(reason, str) else None))
    return tuple(replies)


def _outputs(told: Mapping[str, Any], events: Sequence[Event]) -> list[Any]:
    """The messages of the reply, one a choice; one of None where none was captured."""
    current = parsed(nested(told, "gen_ai.output.messages"))
    if current:
        return current if isinstance(current, list) else [current]
    choices = [_choice(event) for event in events if event.name == CHOICE]
    numbered = choices or [_from_numbered(one) for one in _numbered(told, "gen_ai.completion")]
    if numbered:
        return numbered
    completion = parsed(told.get("gen_ai.completion"))
    if not completion:
        return [None]
    return completion if isinstance(completion, list) else [completion]


def _numbered(told: Mapping[str, Any], prefix: str) -> list[Any]:
    entries = nested({name: value for name, value in told.items() if name != prefix}, prefix)
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _from_numbered(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A message of Traceloop's numbered attributes, whose tool calls have no `function` around their name."""
    calls = entry.get("tool_calls")
    if not isinstance(calls, list):
        return dict(entry)
    made = [
        {
            "id": call.get("id"),
            "type": "function",
            "function": {"name": call.get("name"), "arguments": call.get("arguments")},
        }
        for call in calls
        if isinstance(call, Mapping)
    ]
    return {**entry, "tool_calls": made}


def _from_event(event: Event) -> dict[str, Any]:
    """The message that an event of 2024 holds, in its body or in its attributes."""
    body = parsed(event.body)
    fields = dict(body) if isinstance(body, Mapping) else {} if body is None else {"content": body}
    for name in ("role", "content", "tool_calls", "id"):
        if name not in fields and event.attributes.get(name) is not None:
            fields[name] = parsed(event.attributes[name]) if name == "tool_calls" else event.attributes[name]
    role = fields.pop("role", None)
    called = fields.pop("id", None)
    told = {"tool_call_id": called} if called is not None else {}
    return {"role": role if isinstance(role, str) else _SPEAKERS.get(event.name, "assistant"), **fields, **told}


def _choice(event: Event) -> dict[str, Any]:
    body = parsed(event.body)
    fields = {**event.attributes, **(body if isinstance(body, Mapping) else {})}
    message = parsed(fields.get("message"))
    if not isinstance(message, Mapping):
        message = (
            _from_event(event)
            if message is None
            else {"content": message if isinstance(message, str) else encoded(message)}
        )
    calls = parsed(fields.get("tool_calls"))
    if calls and "tool_calls" not in message:
        message = {**message, "tool_calls": calls}
    return {"role": "assistant", **message, "finish_reason": fields.get("finish_reason")}


def _count(told: Mapping[str, Any], *names: str) -> int | None:
    return next((count for count in (count_or_none(told.get(name)) for name in names) if count is not None), None)
