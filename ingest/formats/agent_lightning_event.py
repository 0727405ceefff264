"""Agent Lightning 1's events: model requests with the server's answer inside, and rewards."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ingest.call import Call, pack_ids, whole
from ingest.formats import bodies
from ingest.formats.body import Envelope, Wrapped, refuse_nul
from ingest.formats.chat import NULL
from ingest.formats.format import Format, Keys, Records
from ingest.formats.generation import packed, with_model
from ingest.formats.sizes import SmallInt, TokenId
from ingest.outcome import outcome_from
from schemas.errors import LineError

NAME = "agent_lightning_event"

FALLBACK = "fallback"
"""The source of a reward that the system fills in because none was reported. `RewardData`, agentlightning 1.0.2."""


class Event(Struct):
    """One event of one attempt at a rollout."""

    event_type: str | None = None
    rollout_id: str | int | None = None
    attempt_id: str | int | None = None
    timestamp: float | str | None = None
    data: Raw = NULL


class Server(Struct):
    """The model server that answered."""

    model: str | None = None
    version: str | int | None = None


class Usage(Struct):
    """The server's count of sampled tokens."""

    completion_tokens: SmallInt | None = None


class ModelRequest(Struct):
    """One call through the proxy; an event that was trimmed to a triplet has ids in the place of the answer."""

    model: str | None = None
    model_version: str | int | None = None
    status: str | None = None
    http_status: SmallInt | None = None
    latency_ms: float | None = None
    request: Raw = NULL
    response: Raw = NULL
    server: Server | None = None
    usage: Usage | None = None
    prompt_token_ids: list[TokenId] | None = None
    response_token_ids: list[TokenId] | None = None
    response_log_probs: list[float | None] | None = None


class Reward(Struct):
    """One reward; its value may be missing, which is no score."""

    value: Any = None
    source: str | None = None
    reason: str | None = None
    message: str | None = None


_EVENT = msgspec.json.Decoder(Event)
_MODEL_REQUEST = msgspec.json.Decoder(ModelRequest)
_REWARD = msgspec.json.Decoder(Reward)


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is an event."""
    return "event_type" in keys and "rollout_id" in keys and "attempt_id" in keys


def read(line: bytes) -> Records | None:
    """The calls of a model request, the score of a reward, nothing of any other event.

    A rollout is tried in attempts: each attempt is a trace, and the rollout is what it was asked.
    """
    event = _EVENT.decode(line)
    if event.event_type is None or event.rollout_id is None or event.attempt_id is None:
        return None
    if event.event_type == "model_request":
        return _calls(event, _MODEL_REQUEST.decode(event.data))
    if event.event_type == "reward":
        return _score(event, _REWARD.decode(event.data))
    return ()


FORMAT = Format(NAME, claims, read)


def _trace_id(event: Event) -> str:
    return f"{event.rollout_id}/{event.attempt_id}"


def _calls(event: Event, asked: ModelRequest) -> Records:
    if asked.status in ("error", "failed") or (asked.http_status or 0) >= 400:
        raise LineError(
            "no_choices",
            f"the model request has status {asked.status}, HTTP {asked.http_status}; expected a model's reply",
        )
    server = asked.server or Server()
    model = asked.model or server.model
    refuse_nul({"rollout_id": event.rollout_id, "attempt_id": event.attempt_id, "model": model})
    envelope = _envelope(event, asked.latency_ms)
    version = asked.model_version if asked.model_version is not None else server.version
    if bytes(asked.response) == b"null":
        return (_trimmed(envelope, asked, model, version),)
    records = bodies.read_answer(envelope, with_model(asked.request, model), asked.response)
    if records is None:
        raise LineError("no_choices", "the model request holds no known response; expected a server's reply")
    for call in records:
        if isinstance(call, Call):
            _complete(call, asked, version)
    return records


def _envelope(event: Event, latency_ms: float | None) -> Envelope:
    """The event is written when the answer is there, so its time is the end of the call."""
    ended_at = event.timestamp
    started_at = ended_at
    if isinstance(ended_at, float) and latency_ms is not None and latency_ms >= 0.0:
        started_at = ended_at - latency_ms / 1000.0
    return Envelope(ts=started_at, ended_at=ended_at, trace_id=_trace_id(event), ask_id=event.rollout_id)


def _complete(call: Call, asked: ModelRequest, version: str | int | None) -> None:
    """What the event says beside the answer; the answer's own word wins."""
    call.log_format = NAME
    if not call.weight_spans:
        call.weight_spans = whole(version, len(call.token_ids or b"") // 4)
    if call.num_completion_tokens is None and call.num_choices == 1 and asked.usage is not None:
        call.num_completion_tokens = asked.usage.completion_tokens


def _trimmed(envelope: Envelope, asked: ModelRequest, model: str | None, version: str | int | None) -> Call:
    if asked.response_token_ids is None:
        raise LineError("no_choices", "the model request holds neither a response nor response_token_ids")
    notes: list[str] = []
    logprobs = packed(asked.response_log_probs, notes)
    return Call(
        **Wrapped(envelope=envelope, request=None, response=None).shared(),
        model=model or "",
        log_format=NAME,
        prompt_token_ids=pack_ids(asked.prompt_token_ids or None),
        token_ids=pack_ids(asked.response_token_ids),
        token_logprobs=logprobs,
        weight_spans=whole(version, len(asked.response_token_ids)),
        notes=tuple(notes),
    )


def _score(event: Event, reward: Reward) -> Records:
    """The reward as a score of its attempt; one without a value, or that the system filled in, is none."""
    if reward.value is None or reward.source == FALLBACK:
        return ()
    score = {
        "trace_id": _trace_id(event),
        "name": "reward",
        "value": reward.value,
        "label": reward.reason or reward.message,
        "source_kind": "program",
        "source": reward.source or "agent_lightning",
        "event_time": event.timestamp,
    }
    return (outcome_from(score),)
