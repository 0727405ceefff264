"""What the responses of engines' own endpoints have in common once each has been decoded by its own types."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ingest.call import pack_logprobs
from ingest.formats.format import keys_of

TopList = Sequence[tuple[int | None, float | None]]
"""The likeliest tokens at one position: ids and log-probabilities."""


def packed(logprobs: list[float | None] | None, notes: list[str]) -> bytes | None:
    """Log-probabilities as float32, one that is null as NaN in its place, which is then added to the notes."""
    if logprobs is None:
        return None
    try:
        return pack_logprobs(logprobs)  # type: ignore[arg-type]  # a None among them is what the error says
    except struct.error:
        notes.append("no_behavior_logprobs")
        return pack_logprobs([float("nan") if value is None else value for value in logprobs])


def top_lists(
    positions: Iterable[TopList], notes: list[str]
) -> tuple[list[list[int]] | None, list[list[float]] | None]:
    """The top-K lists as two columns; None where there are none, or where one token has no id or no number."""
    lists = list(positions)
    if not any(lists):
        return None, None
    if any(one is None or value is None for top in lists for one, value in top):
        notes.append("top_tokens_without_ids")
        return None, None
    ids = [[one for one, _ in top if one is not None] for top in lists]
    return ids, [[value for _, value in top if value is not None] for top in lists]


def parameters(sampling: Struct | None) -> dict[str, Any]:
    """The sampling parameters that a request states, by the engine's own names; what it leaves out is left out."""
    stated: dict[str, Any] = msgspec.to_builtins(sampling) if sampling is not None else {}
    return stated


def prompt_messages(text: str | None) -> str | None:
    """A prompt that was sent as one text, as the one message of a user."""
    return None if text is None else msgspec.json.encode([{"role": "user", "content": text}]).decode()


def with_model(request: Raw, model: str | None) -> Raw:
    """A request with the model that a gateway chose, where the request itself names none."""
    fields = dict(keys_of(request))
    if model is not None and "model" not in fields:
        fields["model"] = Raw(msgspec.json.encode(model))
    return Raw(msgspec.json.encode(fields))
