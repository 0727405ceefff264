"""OpenAI's Responses: typed output items, no ids, thinking and earlier turns hidden, so never trainable.

Kept for scoring and reading. Ask for `include: ["message.output_text.logprobs"]` to have log-probabilities at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ingest.call import Call
from ingest.formats.body import Body, Wrapped, refuse_nul
from ingest.formats.chat import NULL, TokenEntry, as_logged
from ingest.formats.format import Keys, spelled
from ingest.formats.generation import packed
from ingest.formats.sizes import SmallInt
from schemas.errors import LineError

NAME = "openai_responses"


class Parameters(Struct, omit_defaults=True):
    """The sampling parameters of a request; a response repeats them as they were applied."""

    temperature: float | UnsetType | None = UNSET
    top_p: float | UnsetType | None = UNSET
    max_output_tokens: SmallInt | UnsetType | None = UNSET
    max_tool_calls: Any = UNSET
    top_logprobs: Any = UNSET
    include: Any = UNSET
    tool_choice: Any = UNSET
    reasoning: Any = UNSET
    truncation: Any = UNSET
    stream: Any = UNSET


class Text(Struct):
    """How the text is to be formed; a schema restricts the tokens."""

    format: Any = UNSET


class Request(Parameters):
    """What was asked: `input` is a text or a list of items."""

    model: str | None = None
    input: Raw = NULL
    text: Text | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    user: Any = None
    safety_identifier: Any = None


class Part(Struct):
    """One part of a message, of thinking or of its summary."""

    text: str | None = None
    refusal: str | None = None
    logprobs: list[TokenEntry] | None = None


class Item(Struct):
    """One item of the output; of tool calls only what says what was called."""

    type: str | None = None
    content: list[Part] | None = None
    summary: list[Part] | None = None
    name: str | None = None
    call_id: str | None = None
    arguments: str | None = None
    input: str | None = None


class Details(Struct):
    """Why a response is incomplete."""

    reason: str | None = None


class Usage(Struct):
    """The server's own counts; thinking is among the output."""

    input_tokens: SmallInt | None = None
    output_tokens: SmallInt | None = None


class Response(Parameters):
    """A whole response."""

    id: str | None = None
    object: str | None = None
    created_at: float | None = None
    model: str | None = None
    status: str | None = None
    incomplete_details: Details | None = None
    output: list[Item] | UnsetType | None = UNSET
    usage: Usage | None = None
    text: Text | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    user: Any = None
    safety_identifier: Any = None


class Event(Struct):
    """One event of a stream; the first and the last hold the response as it then was."""

    type: str | None = None
    response: Response | None = None
    delta: Any = None
    logprobs: list[TokenEntry] | None = None


_FINISHES = {
    "max_output_tokens": "length",
    "completed": "stop",
    "cancelled": "abort",
    "failed": "error",
}
"""In the words of `calls.finish_reason`; what is not named here stays as logged."""

_LAST = ("response.completed", "response.incomplete", "response.failed")


def claims(keys: Keys) -> bool:
    """Whether an object with these keys is a response."""
    return "output" in keys and spelled(keys, "object") == b'"response"'


def claims_event(keys: Keys) -> bool:
    """Whether an object with these keys is an event of a stream."""
    return spelled(keys, "type").startswith(b'"response.')


def join(events: Sequence[Event]) -> tuple[Response, tuple[str, ...]]:
    """The response of the last event; of a stream that was cut, what its deltas said (`stream_cut`)."""
    ended = next((event.response for event in reversed(events) if event.type in _LAST and event.response), None)
    if ended is not None:
        return ended, ()
    begun = next((event.response for event in events if event.response is not None), None)
    if begun is None:
        raise LineError(
            "stream_incomplete", f"{len(events)} events without a response; expected one: log all events of the stream"
        )
    said = [event for event in events if event.type == "response.output_text.delta"]
    text = "".join(event.delta for event in said if isinstance(event.delta, str))
    entries = [entry for event in said for entry in event.logprobs or ()]
    begun.output = [Item(type="message", content=[Part(text=text, logprobs=entries or None)])]
    begun.status = "cancelled"
    return begun, ("stream_cut",)


def calls(wrapped: Wrapped) -> tuple[Call, ...] | None:
    """One call; None when the response is no Responses object. One without output is refused (`LineError`)."""
    response: Response = wrapped.response
    if response.object != "response" or response.output is UNSET:
        return None
    if not response.output:
        raise LineError(
            "no_choices", f"the response is {response.status} and has no output; expected some: log errors elsewhere"
        )
    request = wrapped.request if isinstance(wrapped.request, Request) else Request()
    return (_call(response, response.output, request, wrapped),)


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


def _call(response: Response, output: list[Item], request: Request, wrapped: Wrapped) -> Call:
    found = [*wrapped.notes]
    model = response.model or request.model
    if model is None:
        raise LineError("bad_field", "neither the response nor the request names a model; expected its served name")
    if response.previous_response_id or request.previous_response_id or response.conversation or request.conversation:
        found.append("prompt_not_in_log")
    shared = wrapped.shared(response.created_at)
    shared["session_id"] = shared["session_id"] or _conversation(response) or _conversation(request)
    shared["user"] = shared["user"] or _user(response) or _user(request)
    refuse_nul({"id": response.id, "model": model, "session_id": shared["session_id"], "user": shared["user"]})
    entries = [entry for item in output for part in item.content or () for entry in part.logprobs or ()]
    has_logprobs = any(part.logprobs is not None for item in output for part in item.content or ())
    return Call(
        **shared,
        response_id=response.id,
        model=model,
        log_format=NAME,
        token_logprobs=packed([entry.logprob for entry in entries] if has_logprobs else None, found),
        sampling={**_parameters(request), **_parameters(response)},
        finish_reason=_finish(response, output),
        num_prompt_tokens=response.usage.input_tokens if response.usage is not None else None,
        num_completion_tokens=response.usage.output_tokens if response.usage is not None else None,
        messages_json=as_logged(request.input, "request.input"),
        reply_text=_reply(output),
        notes=tuple(found),
    )


def _conversation(told: Request | Response) -> str | None:
    """The conversation that a response is part of: an id, or an object that has one."""
    named = told.conversation.get("id") if isinstance(told.conversation, dict) else told.conversation
    return named if isinstance(named, str) else None


def _user(told: Request | Response) -> str | None:
    return next((one for one in (told.user, told.safety_identifier) if isinstance(one, str) and one), None)


def _parameters(told: Request | Response) -> dict[str, Any]:
    """The sampling parameters; the form of the text goes by the name that chat has for it."""
    stated: dict[str, Any] = {
        name: msgspec.to_builtins(value)
        for name in Parameters.__struct_fields__
        if (value := getattr(told, name)) is not UNSET
    }
    if told.text is not None and told.text.format is not UNSET:
        stated["response_format"] = told.text.format
    return stated


def _finish(response: Response, output: list[Item]) -> str | None:
    reason = response.incomplete_details.reason if response.incomplete_details is not None else None
    finish = reason or response.status
    if finish == "completed" and any(_is_call(item) for item in output):
        return "tool_calls"
    return _FINISHES.get(finish or "", finish)


def _is_call(item: Item) -> bool:
    return item.type in ("function_call", "custom_tool_call")


def _reply(output: list[Item]) -> str | None:
    """What the messages say, then the tool calls as JSON; the summaries of thinking where there is nothing else."""
    said = [part.text or part.refusal or "" for item in output if item.type == "message" for part in item.content or ()]
    called = [
        {"type": item.type, "name": item.name, "call_id": item.call_id, "arguments": item.arguments or item.input}
        for item in output
        if _is_call(item)
    ]
    if called:
        said.append(msgspec.json.encode(called).decode())
    if said:
        return "".join(said)
    thought = [part.text or "" for item in output for part in (*(item.summary or ()), *(item.content or ()))]
    return "\n".join(thought) or None
