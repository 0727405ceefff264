"""Anthropic's Messages: text, thinking and tool calls as blocks, never ids and never log-probabilities.

No ratio can be formed of them, whatever is sent. Kept for scoring, preferences and reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ingest.call import Call
from ingest.formats.body import Body, Wrapped, refuse_nul
from ingest.formats.chat import NULL, as_logged
from ingest.formats.format import Keys, spelled
from ingest.formats.sizes import SmallInt
from schemas.errors import LineError

NAME = "anthropic_messages"


class User(Struct):
    """Who asked, by an opaque name."""

    user_id: str | None = None


class Request(Struct):
    """What was asked; `system` stands apart from the messages."""

    model: str | None = None
    messages: Raw = NULL
    system: Raw = NULL
    metadata: User | None = None
    temperature: float | UnsetType | None = UNSET
    top_p: float | UnsetType | None = UNSET
    top_k: SmallInt | UnsetType | None = UNSET
    max_tokens: SmallInt | UnsetType | None = UNSET
    stop_sequences: Any = UNSET
    tool_choice: Any = UNSET
    thinking: Any = UNSET
    stream: Any = UNSET


_SAMPLING = Request.__struct_fields__[4:]


class Block(Struct):
    """One block of a reply; a redacted one holds nothing to read."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NULL


class Usage(Struct):
    """The server's own counts; cached tokens of the prompt are not among `input_tokens`."""

    input_tokens: SmallInt | None = None
    output_tokens: SmallInt | None = None
    cache_creation_input_tokens: SmallInt | None = None
    cache_read_input_tokens: SmallInt | None = None


class Response(Struct):
    """A whole message."""

    id: str | None = None
    type: str | None = None
    model: str | None = None
    content: list[Block] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Usage | None = None


class Delta(Struct):
    """What an event adds to a block, or to the message at its end."""

    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class Event(Struct):
    """One event of a stream."""

    type: str | None = None
    index: SmallInt = 0
    message: Response | None = None
    content_block: Block | None = None
    delta: Delta | None = None
    usage: Usage | None = None


_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""In the words of `calls.finish_reason`; what is not named here stays as logged."""


def claims(keys: Keys) -> bool:
    """Whether an object with these keys is a message of the assistant."""
    return "content" in keys and "model" in keys and spelled(keys, "type") == b'"message"'


def claims_event(keys: Keys) -> bool:
    """Whether an object with these keys begins a stream."""
    return spelled(keys, "type") == b'"message_start"' and "message" in keys


def join(events: Sequence[Event]) -> tuple[Response, tuple[str, ...]]:
    """The message of all events: deltas of each block in order of arrival; one that never stopped was cut."""
    whole = next((event.message for event in events if event.message is not None), None)
    if whole is None:
        raise LineError(
            "stream_incomplete", f"{len(events)} events without message_start; expected one: log all events"
        )
    blocks: dict[int, Block] = {}
    deltas: dict[int, list[Delta]] = {}
    for event in events:
        if event.content_block is not None:
            blocks[event.index] = event.content_block
        elif event.type == "message_delta" and event.delta is not None:
            whole.stop_reason = event.delta.stop_reason or whole.stop_reason
            whole.stop_sequence = event.delta.stop_sequence or whole.stop_sequence
            whole.usage = _added(whole.usage, event.usage)
        elif event.delta is not None:
            deltas.setdefault(event.index, []).append(event.delta)
    whole.content = [_block(blocks.get(index, Block()), deltas.get(index, ())) for index in sorted({*blocks, *deltas})]
    return whole, () if whole.stop_reason is not None else ("stream_cut",)


def calls(wrapped: Wrapped) -> tuple[Call, ...] | None:
    """One call, of which nobody has the log-probabilities; None when the response is no message."""
    response: Response = wrapped.response
    if response.type != "message" or response.content is None:
        return None
    request = wrapped.request if isinstance(wrapped.request, Request) else Request()
    model = response.model or request.model
    if model is None:
        raise LineError("bad_field", "neither the response nor the request names a model; expected its served name")
    shared = wrapped.shared()
    shared["user"] = shared["user"] or (request.metadata.user_id if request.metadata is not None else None)
    refuse_nul({"id": response.id, "model": model, "user": shared["user"]})
    usage = response.usage or Usage()
    finish = "abort" if "stream_cut" in wrapped.notes else response.stop_reason
    call = Call(
        **shared,
        response_id=response.id,
        model=model,
        log_format=NAME,
        sampling={name: value for name in _SAMPLING if (value := getattr(request, name)) is not UNSET},
        finish_reason=_FINISHES.get(finish or "", finish),
        stop_reason=response.stop_sequence,
        num_prompt_tokens=_prompt_tokens(usage),
        num_completion_tokens=usage.output_tokens,
        messages_json=_messages(request),
        reply_text=_reply(response.content),
        notes=(*wrapped.notes, "provider_no_logprobs"),
    )
    return (call,)


BODY = Body(
    name=NAME,
    request=Request,
    response=Response,
    claims=claims,
    calls=calls,
    chunk=Event,
    claims_chunk=claims_event,
    join=join,
)


def _block(block: Block, deltas: Sequence[Delta]) -> Block:
    block.text = "".join([block.text or "", *(one.text or "" for one in deltas)]) or None
    block.thinking = "".join([block.thinking or "", *(one.thinking or "" for one in deltas)]) or None
    spelled = "".join(one.partial_json or "" for one in deltas)
    if spelled:  # the text of an object, or what a cut stream left of one
        block.input = Raw(msgspec.json.encode(spelled))
    return block


def _added(begun: Usage | None, ended: Usage | None) -> Usage | None:
    """The counts of the beginning, replaced by those that the end gives again."""
    if begun is None or ended is None:
        return ended or begun
    for name in Usage.__struct_fields__:
        if getattr(ended, name) is not None:
            setattr(begun, name, getattr(ended, name))
    return begun


def _prompt_tokens(usage: Usage) -> int | None:
    """Tokens of the whole prompt, read from a cache, written to one, or neither."""
    if usage.input_tokens is None:
        return None
    return usage.input_tokens + (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)


def _messages(request: Request) -> str | None:
    """The messages as logged, the system's text before them."""
    messages = as_logged(request.messages, "request.messages")
    system = as_logged(request.system, "request.system")
    if messages is None or system is None or messages[:1] != "[":
        return messages
    rest = messages[1:].lstrip()
    comma = "" if rest[:1] == "]" else ","
    return f'[{{"role":"system","content":{system}}}{comma}{rest}'


def _reply(blocks: Sequence[Block]) -> str | None:
    """What the blocks say, one after the other, a tool call as JSON."""
    parts = [_said(block) for block in blocks]
    return "\n\n".join(part for part in parts if part) or None


def _said(block: Block) -> str | None:
    if block.type in ("tool_use", "server_tool_use"):
        called = {"type": block.type, "id": block.id, "name": block.name, "input": block.input}
        return msgspec.json.encode(called).decode()
    return block.text or block.thinking
