"""OpenInference's attributes of a model call, on a span or as one flat object a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ingest.call import Call
from ingest.formats.dialogue import encoded, message_of, messages_json, parsed, reply_text, said
from ingest.formats.exported import Exported, Reply, answer_in, calls_of, count_or_none, sampling_of, text_in
from ingest.formats.format import Format, Keys
from ingest.formats.spans import Span, flat, nested

NAME = "openinference"
KIND = "openinference.span.kind"


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is an object of attributes."""
    return KIND in keys


def read(line: bytes) -> tuple[Call, ...] | None:
    """The calls of one object of attributes; nothing of a span of another kind. No trace or time stands in one."""
    if KIND.encode() not in line:
        return None
    attributes = msgspec.json.decode(line)
    if not isinstance(attributes, dict) or KIND not in attributes:
        return None
    told = exported(Span(trace_id=None, span_id=None, attributes=dict(flat(attributes))), NAME)
    return () if told is None else calls_of(told)


def exported(span: Span, log_format: str) -> Exported | None:
    """The model call that a span tells of; None of a span that is none.

    The server's own answer, with ids and log-probabilities, is there only as the raw `output.value`.
    """
    told = span.attributes
    if told.get(KIND) != "LLM":
        return None
    parameters = parsed(told.get("llm.invocation_parameters"))
    parameters = parameters if isinstance(parameters, Mapping) else {}
    sampling, found = sampling_of(parameters)
    shared = span.shared(log_format)
    output = parsed(told.get("output.value"))
    inner = output if isinstance(output, Mapping) else {}
    return Exported(
        **{**shared, "notes": (*shared["notes"], *found)},
        model=text_in(told, "llm.model_name") or text_in(parameters, "model") or text_in(inner, "model"),
        sampling=sampling,
        messages_json=_messages(told),
        replies=_replies(told, output, is_several=isinstance(parameters.get("n"), int) and parameters["n"] > 1),
        response_id=text_in(inner, "id"),
        num_prompt_tokens=count_or_none(told.get("llm.token_count.prompt")),
        num_completion_tokens=count_or_none(told.get("llm.token_count.completion")),
        answer=answer_in(output),
    )


def _messages(told: Mapping[str, Any]) -> str | None:
    entries = _spoken(told, "llm.input_messages")
    if entries:
        return messages_json([_message(entry, "user") for entry in entries])
    prompts = _spoken(told, "llm.prompts")
    if prompts:
        return messages_json([text_in(entry, "prompt.text") or entry for entry in prompts])
    return messages_json(told.get("input.value"))


def _replies(told: Mapping[str, Any], output: Any, *, is_several: bool) -> tuple[Reply, ...]:
    """One reply, or one a choice where the request asked for several: parts of one reply are messages too."""
    reason = text_in(told, "llm.finish_reason")
    texts = [said(_message(entry, "assistant")) for entry in _spoken(told, "llm.output_messages")]
    if is_several and len(texts) > 1:
        return tuple(Reply(text, reason) for text in texts)
    if any(text is not None for text in texts):
        return (Reply("".join(text for text in texts if text is not None), reason),)
    return (Reply(reply_text(output), reason),)


def _spoken(told: Mapping[str, Any], prefix: str) -> list[Mapping[str, Any]]:
    entries = nested(told, prefix)
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _message(entry: Mapping[str, Any], speaker: str) -> dict[str, Any]:
    """A message in OpenAI's spelling, from the names with `message.` and `tool_call.` before each field."""
    inner = entry.get("message")
    fields = dict(inner) if isinstance(inner, Mapping) else dict(entry)
    parts = fields.pop("contents", None)
    calls = fields.pop("tool_calls", None)
    message = message_of({"content": None, **fields}, speaker)
    if isinstance(parts, list) and message["content"] is None:
        message["content"] = [_part(part) for part in parts]
    if isinstance(calls, list) and calls:
        message["tool_calls"] = [_tool_call(call) for call in calls]
    return message


def _part(part: Any) -> dict[str, Any]:
    inner = part.get("message_content") if isinstance(part, Mapping) else None
    return (
        dict(inner)
        if isinstance(inner, Mapping)
        else {"type": "text", "text": part if isinstance(part, str) else encoded(part)}
    )


def _tool_call(call: Any) -> dict[str, Any]:
    inner = call.get("tool_call") if isinstance(call, Mapping) else None
    fields = inner if isinstance(inner, Mapping) else {}
    return {"id": fields.get("id"), "type": "function", "function": fields.get("function")}


FORMAT = Format(NAME, claims, read)
