"""tracemill's own lines, for whoever writes a logger: one call a line, by the names of the columns it becomes."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from ingest.call import Call, WeightSpan, pack_ids, pack_logprobs, whole
from ingest.formats.body import Envelope, Wrapped, refuse_nul, text_or_none
from ingest.formats.chat import NULL, sampling_in
from ingest.formats.chat import Request as Sampling
from ingest.formats.format import Format, Keys, Records, keys_of
from ingest.formats.generation import packed
from ingest.formats.sizes import SmallInt, TokenId
from schemas.errors import LineError

NAME = "tracemill"

_NAMED = ("trace_id", "model", "prompt_token_ids", "token_ids", "token_logprobs")
"""Fields whose misspelling would otherwise only show as something missing."""


class VersionSpan(Struct):
    """Which version sampled the tokens from `start` to `end`."""

    policy_version: str | int
    start: SmallInt
    end: SmallInt


class Line(Struct, kw_only=True):
    """One call."""

    trace_id: str | int | None = None
    model: str | None = None
    token_ids: list[TokenId] | None = None
    token_logprobs: list[float | None] | None = None
    prompt_token_ids: list[TokenId] | None = None
    logprob_kind: Literal["raw", "temperature", "processed"] | None = None
    masked_positions: list[SmallInt] | None = None
    policy_version: str | int | None = None
    version_spans: list[VersionSpan] | None = None
    sampling: Sampling | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: SmallInt | None = None
    started_at: str | float | None = None
    ended_at: str | float | None = None
    call_index: SmallInt | None = None
    response_id: str | int | None = None
    span_id: str | int | None = None
    ask_id: str | int | None = None
    session_id: str | int | None = None
    user: str | int | None = None
    workload: str | int | None = None
    deployment: str | int | None = None
    engine: str | None = None
    engine_version: str | None = None
    streamed: bool = False
    choice_index: SmallInt = 0
    num_choices: SmallInt = 1
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    num_prompt_tokens: SmallInt | None = None
    num_completion_tokens: SmallInt | None = None
    messages: Raw = NULL
    reply_text: str | None = None
    top_token_ids: list[list[TokenId]] | None = None
    top_token_logprobs: list[list[float]] | None = None
    request: Raw = NULL
    response: Raw = NULL


_LINE = msgspec.json.Decoder(Line)


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is one of tracemill's own."""
    if "response" in keys or "request" in keys:
        return False
    if "trace_id" in keys:
        return "token_ids" in keys or "token_logprobs" in keys or "reply_text" in keys
    return "token_ids" in keys and "token_logprobs" in keys


def read(line: bytes) -> Records | None:
    """The call of one line; None when it is of another format."""
    told = _LINE.decode(line)
    if told.token_ids is None and told.token_logprobs is None and told.reply_text is None:
        return None
    if told.request != NULL or told.response != NULL:
        return None
    if None in (told.trace_id, told.model, told.prompt_token_ids, told.token_ids, told.token_logprobs):
        _refuse_misspelt(line, told)
    if told.model is None:
        raise LineError("bad_field", "model is missing; expected the served model's name")
    refuse_nul({"response_id": told.response_id, "model": told.model})
    num_tokens = len(told.token_ids or ())
    notes: list[str] = []
    return (
        Call(
            **_shared(told),
            model=told.model,
            log_format=NAME,
            prompt_token_ids=pack_ids(told.prompt_token_ids),
            token_ids=pack_ids(told.token_ids),
            token_logprobs=_logprobs(told, notes),
            logprob_kind=told.logprob_kind,
            masked_positions=_masked(told.masked_positions, num_tokens),
            weight_spans=_weights(told, num_tokens),
            sampling=_sampling(told),
            messages_json=_messages(told.messages),
            notes=tuple(notes),
        ),
    )


FORMAT = Format(NAME, claims, read)

_AS_LOGGED = (
    "engine",
    "engine_version",
    "streamed",
    "choice_index",
    "num_choices",
    "finish_reason",
    "num_prompt_tokens",
    "num_completion_tokens",
    "reply_text",
    "top_token_ids",
    "top_token_logprobs",
)
_ENVELOPE = ("trace_id", "call_index", "span_id", "ask_id", "session_id", "user", "workload", "deployment", "ended_at")


def _shared(told: Line) -> dict[str, Any]:
    envelope = Envelope(ts=told.started_at, **{name: getattr(told, name) for name in _ENVELOPE})
    fields = Wrapped(envelope=envelope, request=None, response=None).shared()
    fields |= {name: getattr(told, name) for name in _AS_LOGGED}
    fields["response_id"] = text_or_none(told.response_id)
    fields["stop_reason"] = text_or_none(told.stop_reason)
    return fields


def _refuse_misspelt(line: bytes, told: Line) -> None:
    """Refuse a line that has a needed field under a name much like its own."""
    unknown = [key for key in keys_of(line) if key not in Line.__struct_fields__]
    for name in _NAMED:
        close = get_close_matches(name, unknown, n=1, cutoff=0.8) if getattr(told, name) is None else []
        if close:
            raise LineError("bad_field", f"{name} is missing, and {close[0]!r} is no field; expected {name}: rename it")


def _logprobs(told: Line, notes: list[str]) -> bytes | None:
    """The numbers as float32; at masked positions nothing was sampled, so null there is not missing."""
    given = told.token_logprobs
    if given is None or not told.masked_positions:
        return packed(given, notes)
    masked = set(told.masked_positions)
    if any(value is None and place not in masked for place, value in enumerate(given)):
        return packed(given, notes)
    return pack_logprobs([float("nan") if value is None else value for value in given])


def _masked(positions: list[int] | None, num_tokens: int) -> tuple[int, ...]:
    for place in positions or ():
        if not 0 <= place < num_tokens:
            raise LineError("bad_field", f"masked_positions has {place} for {num_tokens} tokens; expected one of them")
    return tuple(sorted(set(positions or ())))


def _weights(told: Line, num_tokens: int) -> tuple[WeightSpan, ...]:
    for span in told.version_spans or ():
        if not 0 <= span.start <= span.end <= num_tokens:
            raise LineError(
                "bad_field",
                f"version_spans has {span.start} to {span.end} for {num_tokens} tokens; expected within them",
            )
    if told.version_spans:
        return tuple(WeightSpan(str(span.policy_version), span.start, span.end) for span in told.version_spans)
    return whole(told.policy_version, num_tokens)


def _sampling(told: Line) -> dict[str, Any]:
    stated = sampling_in(told.sampling) if told.sampling is not None else {}
    for name in ("temperature", "top_p", "top_k"):
        value = getattr(told, name)
        if value is not None:
            stated.setdefault(name, value)
    return stated


def _messages(messages: Raw) -> str | None:
    try:
        return None if messages == NULL else bytes(messages).decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineError("bad_unicode", f"messages: {error}; expected UTF-8: mend the writer") from error
