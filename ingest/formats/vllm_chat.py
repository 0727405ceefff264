"""vLLM and OpenAI chat completions in an envelope: `{..., request, response}` or `{..., request, chunks}`."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ingest import streams
from ingest.call import Call, pack_ids, pack_logprobs
from ingest.formats.chat import Choice, Request, Response, SmallInt, TokenEntry, TopToken, reply_of
from ingest.formats.format import Format, Marks
from ingest.times import parse_time
from schemas.errors import LineError

NAME = "vllm_chat"

_TOKEN_ID = re.compile(r"token_id:(\d{1,10})", re.ASCII)
_LARGEST_ID = 2**31 - 1
_DEFAULT_WEIGHTS = "default"
"""What vLLM calls weights that nobody named. vLLM 0.33, docs/formats.md."""


class Envelope(Struct):
    """What a gateway writes around one request and its response."""

    ts: str | float | None = None
    trace_id: str | int | None = None
    call_index: SmallInt | None = None
    ask_id: str | int | None = None
    session_id: str | int | None = None
    user: str | int | None = None
    workload: str | int | None = None
    deployment: str | int | None = None
    request: Request | UnsetType | None = UNSET
    response: Response | UnsetType | None = UNSET
    chunks: list[Response] | UnsetType | None = UNSET


_DECODER = msgspec.json.Decoder(Envelope)
_TOP_DECODER = msgspec.json.Decoder(list[TopToken] | None)


def claims(marks: Marks) -> bool:
    """Whether a line with these top-level keys is ours: a request beside a response or the chunks of one."""
    return marks.request is not UNSET and (marks.response is not UNSET or marks.chunks is not UNSET)


def read(line: bytes) -> tuple[Call, ...] | None:
    """The calls of one line, one a choice; None for a line that is not of this format.

    A line that is of it and holds no call is refused (`LineError`).
    """
    envelope = _DECODER.decode(line)
    if envelope.request is UNSET or (envelope.response is UNSET and envelope.chunks is UNSET):
        return None
    streamed = isinstance(envelope.chunks, list)
    notes: tuple[str, ...] = ()
    if isinstance(envelope.chunks, list):
        response, notes = streams.join(envelope.chunks)
    elif isinstance(envelope.response, Response):
        response = envelope.response
    else:
        raise LineError("no_choices", "neither a response nor chunks in the line; expected one: log errors elsewhere")
    _refuse_nul(envelope, response)
    if not response.choices:
        raise LineError("no_choices", "the response has no choice; expected one at least: log errors elsewhere")
    shared = _shared(envelope, response, streamed=streamed)
    return tuple(_call(choice, response, shared, notes) for choice in response.choices)


FORMAT = Format(NAME, claims, read)


def _refuse_nul(envelope: Envelope, response: Response) -> None:
    """Refuse names with a NUL character: the catalog's SQL would end there."""
    names = ("trace_id", "ask_id", "session_id", "user", "workload", "deployment")
    values = {name: getattr(envelope, name) for name in names} | {"id": response.id, "model": response.model}
    for name, value in values.items():
        if isinstance(value, str) and "\x00" in value:
            raise LineError("bad_field", f"{name} holds a NUL character; expected a printable name: mend the writer")


def _shared(envelope: Envelope, response: Response, *, streamed: bool) -> dict[str, Any]:
    """What all choices of a response have in common."""
    if envelope.trace_id is None or envelope.trace_id == "":
        raise LineError(
            "no_trace_id", "trace_id is missing or empty; expected the id of the try that the call is part of"
        )
    request = envelope.request if isinstance(envelope.request, Request) else Request()
    model = response.model or request.model
    if not isinstance(model, str):
        raise LineError("bad_field", "neither the response nor the request names a model; expected its served name")
    fingerprint = response.system_fingerprint
    messages_json, sampling = _split(request)
    return {
        "trace_id": str(envelope.trace_id),
        "call_index": envelope.call_index,
        "response_id": response.id,
        "created": None if response.created is None else int(response.created),
        "ask_id": _text(envelope.ask_id),
        "session_id": _text(envelope.session_id),
        "user": _text(envelope.user),
        "workload": _text(envelope.workload),
        "deployment": _text(envelope.deployment),
        "model": model,
        "engine": "vllm" if fingerprint is not None and fingerprint.startswith("vllm-") else None,
        "engine_version": fingerprint,
        "log_format": NAME,
        "streamed": streamed,
        "num_choices": len(response.choices or ()),
        "prompt_token_ids": pack_ids(response.prompt_token_ids or None),
        "num_prompt_tokens": response.usage.prompt_tokens if response.usage is not None else None,
        "messages_json": messages_json,
        "sampling": sampling,
        "started_at": _started_at(envelope, response),
    }


def _call(choice: Choice, response: Response, shared: dict[str, Any], notes: tuple[str, ...]) -> Call:
    entries = choice.logprobs.content if choice.logprobs is not None else None
    ids, found = _sampled_ids(choice, entries)
    logprobs = None
    if entries is not None:
        logprobs = pack_logprobs([float("nan") if entry.logprob is None else entry.logprob for entry in entries])
        if any(entry.logprob is None for entry in entries):
            found.append("no_behavior_logprobs")
    top_ids, top_logprobs = _top(entries, found)
    is_alone = shared["num_choices"] == 1
    return Call(
        **shared,
        choice_index=choice.index,
        token_ids=pack_ids(ids),
        token_logprobs=logprobs,
        top_token_ids=top_ids,
        top_token_logprobs=top_logprobs,
        weight_version=_weights(choice, found),
        finish_reason="abort" if "stream_cut" in notes and choice.finish_reason is None else choice.finish_reason,
        stop_reason=_text(choice.stop_reason),
        num_completion_tokens=response.usage.completion_tokens if response.usage is not None and is_alone else None,
        reply_text=reply_of(choice.message),
        notes=(*notes, *found),
    )


def _sampled_ids(choice: Choice, entries: list[TokenEntry] | None) -> tuple[list[int] | None, list[str]]:
    """The sampled ids, by the list of ids or the `token_id:N` strings; where both are there they must agree."""
    if not entries or not entries[0].token.startswith("token_id:"):
        return choice.token_ids, []
    spelled = [_spelled_id(entry.token) for entry in entries]
    if choice.token_ids is None:
        return (None, []) if None in spelled else ([one for one in spelled if one is not None], ["token_text_ids"])
    # Lists of another length are a mismatch of lengths; of one length, each id must be spelled the same.
    if len(spelled) == len(choice.token_ids) and spelled != choice.token_ids:
        return choice.token_ids, ["ids_disagree"]
    return choice.token_ids, []


def _spelled_id(token: str) -> int | None:
    match = _TOKEN_ID.fullmatch(token)
    value = int(match.group(1)) if match else -1
    return value if 0 <= value <= _LARGEST_ID else None


def _top(entries: list[TokenEntry] | None, found: list[str]) -> tuple[list[list[int]] | None, list[list[float]] | None]:
    """The top-K lists by id; where the log names texts they are left out, for a text is not one token's alone."""
    if not entries or not _top_of(entries[0]):
        return None, None
    ids, logprobs = [], []
    for entry in entries:
        top = _top_of(entry)
        spelled = [_spelled_id(one.token) for one in top]
        numbers = [one.logprob for one in top]
        if None in spelled or None in numbers:
            found.append("top_tokens_without_ids")
            return None, None
        ids.append([one for one in spelled if one is not None])
        logprobs.append([one for one in numbers if one is not None])
    return ids, logprobs


def _top_of(entry: TokenEntry) -> list[TopToken]:
    return _TOP_DECODER.decode(entry.top_logprobs) or []


def _weights(choice: Choice, found: list[str]) -> str | None:
    versions = {str(span.version) for span in choice.weight_versions or ()} - {_DEFAULT_WEIGHTS}
    if len(versions) > 1:
        found.append("version_ambiguous")
    return next(iter(versions)) if len(versions) == 1 else None


def _split(request: Request) -> tuple[str | None, dict[str, Any]]:
    """The messages as logged, and the sampling parameters; what the request left out is left out."""
    messages = request.messages
    request.model = request.messages = request.user = UNSET
    parameters: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(request))  # quicker than field by field
    if not isinstance(messages, Raw):
        return None, parameters
    try:
        return bytes(messages).decode("utf-8"), parameters
    except UnicodeDecodeError as error:
        raise LineError("bad_unicode", f"request.messages: {error}; expected UTF-8: mend the writer") from error


def _started_at(envelope: Envelope, response: Response) -> Any:
    if envelope.ts is not None:
        return parse_time(envelope.ts, "ts")
    if response.created is not None:
        return parse_time(response.created, "response.created")
    raise LineError("bad_time", "neither ts nor response.created is there; expected the time of the call")


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)
