"""Messages as tracing systems spell them, in the one spelling that the lake keeps: OpenAI's.

Read are OpenAI's chat messages, the parts of the GenAI conventions, LangChain's typed messages, Anthropic's blocks,
items of OpenAI's Responses, and plain texts; each may be a JSON text, once or twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ingest.formats.chat import text_of

_ROLES = {"human": "user", "user": "user", "ai": "assistant", "assistant": "assistant", "system": "system"}
_ROLES |= {"tool": "tool", "function": "tool", "developer": "developer"}

_ENVELOPE = {"id", "object", "created", "model", "usage", "system_fingerprint", "service_tier", "created_at", "type"}
"""What stands around a reply; an object of nothing else says nothing."""


def parsed(value: Any) -> Any:
    """A value, of a text that is JSON what it holds: exporters encode it once or twice."""
    for _ in range(2):
        if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
            break
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):  # a text that only looks like it
            break
    return value


def messages_json(value: Any) -> str | None:
    """The messages of a request as JSON; a plain text is what a user said. None where there is nothing."""
    value = parsed(value)
    if isinstance(value, Mapping) and "messages" in value:
        value = parsed(value["messages"])
    if value is None or value in ("", [], {}):
        return None
    entries = value if _is_list(value) else [value]
    return encoded([message_of(entry, "user") for entry in flattened(entries)])


def message_of(entry: Any, speaker: str) -> dict[str, Any]:
    """One message in OpenAI's spelling; `speaker` says a text that names nobody."""
    entry = parsed(entry)
    if not isinstance(entry, Mapping):
        return {"role": speaker, "content": entry if isinstance(entry, str) else encoded(entry)}
    if "parts" in entry:
        return _of_parts(entry, speaker)
    inner = entry.get("data", entry.get("kwargs"))
    if isinstance(inner, Mapping) and "content" in inner:  # LangChain's dumps
        entry = {"type": entry.get("type"), **inner}
    if "role" not in entry and "content" in entry and _role(entry.get("type")) is not None:
        rest = {name: part for name, part in entry.items() if name not in ("type", "additional_kwargs")}
        return {"role": _role(entry.get("type")), **rest}
    if "role" in entry or "content" in entry:
        return {"role": speaker, **entry}
    return {"role": speaker, "content": encoded(entry)}


def reply_text(value: Any) -> str | None:
    """What a reply says: its text, then its tool calls as JSON. None where it says nothing."""
    value = parsed(value)
    if value is None or value in ("", [], {}):
        return None
    if isinstance(value, Mapping) and value.keys() <= _ENVELOPE:
        return None
    entries = _spoken(value)
    texts = [said(message_of(entry, "assistant")) for entry in flattened(entries) if entry is not None]
    return "".join(text for text in texts if text is not None) if any(text is not None for text in texts) else None


def _spoken(value: Any) -> Sequence[Any]:
    """The messages of a reply: those of a whole answer's choices or output, of a list, or the one that it is."""
    if isinstance(value, Mapping) and _is_list(value.get("choices")):
        choices = [choice for choice in value["choices"] if isinstance(choice, Mapping)]
        return [choice.get("message", choice.get("text")) for choice in choices]
    if isinstance(value, Mapping) and _is_list(value.get("output")):
        return list(value["output"])
    if isinstance(value, Mapping) and _is_list(value.get("generations")):  # LangChain's results
        made = [one for one in flattened(value["generations"]) if isinstance(one, Mapping)]
        return [one.get("text") or one.get("message") for one in made]
    return value if _is_list(value) else [value]


def said(message: Mapping[str, Any]) -> str | None:
    """What one message in OpenAI's spelling says."""
    content = message.get("content")
    if isinstance(content, list):
        text = text_of([{"text": part} if isinstance(part, str) else part for part in content])
    elif content is None or isinstance(content, str):
        text = content
    else:
        text = encoded(content)
    calls = message.get("tool_calls")
    return (text or "") + encoded(calls) if calls else text


def encoded(value: Any) -> str:
    """A value as compact JSON."""
    return msgspec.json.encode(value).decode()


def flattened(entries: Sequence[Any]) -> list[Any]:
    """Entries of a list; a list in the place of an entry is a batch of one."""
    return [inner for entry in entries for inner in (entry if _is_list(entry) else (entry,))]


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _role(word: object) -> str | None:
    return _ROLES.get(word.lower()) if isinstance(word, str) else None


def _of_parts(entry: Mapping[str, Any], speaker: str) -> dict[str, Any]:
    """A message of the GenAI conventions: its content is a list of typed parts, media are kept without their bytes."""
    role = entry.get("role")
    message: dict[str, Any] = {"role": role if isinstance(role, str) else speaker, "content": None}
    texts, calls, media = [], [], []
    given = entry["parts"]
    for part in given if isinstance(given, list) else []:
        if not isinstance(part, Mapping):
            texts.append(part if isinstance(part, str) else encoded(part))
        elif part.get("type") == "tool_call":
            calls.append(_tool_call(part))
        elif part.get("type") == "tool_call_response":
            answer = part.get("response", part.get("result"))
            texts.append(answer if isinstance(answer, str) else encoded(answer))
            message["tool_call_id"] = part.get("id")
        elif part.get("type") == "text" and isinstance(part.get("content"), str):
            texts.append(part["content"])
        elif "modality" in part:
            media.append({name: one for name, one in part.items() if name != "content"})
    if texts:
        message["content"] = "".join(texts)
    if media:
        message["content"] = [{"type": "text", "text": "".join(texts)}, *media]
    return {**message, "tool_calls": calls} if calls else message


def _tool_call(part: Mapping[str, Any]) -> dict[str, Any]:
    arguments = part.get("arguments")
    told = arguments if isinstance(arguments, str) else encoded(arguments)
    return {"id": part.get("id"), "type": "function", "function": {"name": part.get("name"), "arguments": told}}
