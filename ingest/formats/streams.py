"""Chunks of a stream put together into the response that the server would have sent whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw

from ingest.formats.chat import NULL, Choice, Logprobs, Message, Response, text_of
from ingest.formats.extras import moved_ids
from schemas.errors import LineError

T = TypeVar("T")

_LIST = msgspec.json.Decoder(list[Raw])

_HEAD = ("model", "system_fingerprint", "prompt_token_ids", "prompt_token_ids_b64", "prompt_logprobs", "prompt")
_HEAD_OF_CHOICE = ("prompt_token_ids", "prompt_logprobs")
_TAIL_OF_CHOICE = (
    "stop_reason", "matched_stop", "weight_versions", "meta_info", "sglext", "raw_output",
    "avg_decoded_tokens_per_iter",
)  # fmt: skip
"""What stands in one chunk alone: at its head the first that says it counts, at its tail the last."""


def join(chunks: Sequence[Response]) -> tuple[Response, tuple[str, ...]]:
    """The whole response, choices in order of their index, and notes as reason codes.

    Lists of a choice are concatenated in order of arrival; a stream whose chunks each repeat what came before (the
    cumulative form) is told apart by the server's count of tokens, or by every list beginning with the one before.
    A stream in which a choice has no finish_reason was cut: it is noted as `stream_cut`, exact as far as it goes.
    Chunks of several responses, or of none, are refused as `stream_incomplete`.
    """
    ids = {chunk.id for chunk in chunks if chunk.id is not None}
    if len(ids) > 1:
        raise LineError(
            "stream_incomplete",
            f"chunks of {len(ids)} responses, {sorted(ids)[:2]} among them; expected one: mend the log",
        )
    by_index: dict[int, list[Choice]] = {}
    for chunk in chunks:
        for choice in chunk.choices or ():
            by_index.setdefault(choice.index, []).append(choice)
    if not by_index:
        raise LineError(
            "stream_incomplete", f"{len(chunks)} chunks without a choice; expected one at least: log all chunks"
        )
    usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage is not None), None)
    num_expected = usage.completion_tokens if usage is not None and len(by_index) == 1 else None
    whole = Response(
        id=next(iter(ids), None),
        created=chunks[0].created,
        choices=[_choice(index, pieces, num_expected) for index, pieces in sorted(by_index.items())],
        usage=usage,
    )
    _take(whole, _HEAD, chunks)
    _take(whole, ("metadata", "sglext"), chunks[::-1])
    is_cut = any(choice.finish_reason is None for choice in whole.choices or ())
    return whole, ("stream_cut",) if is_cut else ()


def _take(whole: Response | Choice, names: Sequence[str], pieces: Sequence[Response | Choice]) -> None:
    """Set fields to what the first piece says that says anything; a null only where nothing else is said."""
    for name, values in zip(names, zip(*map(attrgetter(*names), pieces), strict=True), strict=True):
        if values.count(values[0]) == len(values) and values[0] is UNSET:  # quicker than one by one, and the rule
            continue
        said = [value for value in values if value is not UNSET]
        setattr(whole, name, next((value for value in said if value is not None and not _is_null(value)), said[0]))


def _is_null(value: object) -> bool:
    return isinstance(value, Raw) and bytes(value) == b"null"


def _choice(index: int, pieces: list[Choice], num_expected: int | None) -> Choice:
    ids = [one for piece in pieces if (one := _ids_of(piece)) is not None]
    filled = [one for one in ids if one]
    logprobs = [found for piece in pieces if (found := _logprobs_of(piece)) is not None]
    texts = [text for piece in pieces if (text := _text_of(piece))]
    keys: Sequence[Sequence[Any]] = filled or [key for one in logprobs if (key := _key_of(one))]
    joined = _Joiner(is_cumulative(keys, num_expected) if keys else is_cumulative(texts, None))
    ended = [piece for piece in pieces if piece.finish_reason is not None]
    whole = Choice(
        index=index,
        logprobs=joined.logprobs(logprobs) if logprobs else None,
        finish_reason=ended[-1].finish_reason if ended else None,
    )
    if any(piece.delta is not None for piece in pieces):
        whole.message = _message([piece.delta for piece in pieces if piece.delta is not None], joined)
    else:
        whole.text = joined.text(texts)
    if ids:
        whole.token_ids = joined.row(filled)
    _take(whole, _HEAD_OF_CHOICE, pieces)
    _take(whole, _TAIL_OF_CHOICE, pieces[::-1])
    return whole


def _ids_of(piece: Choice) -> list[int] | None:
    return piece.token_ids if isinstance(piece.token_ids, list) else moved_ids(piece)


def _text_of(piece: Choice) -> str | None:
    if piece.delta is not None:
        return text_of(piece.delta.content)
    return piece.text if isinstance(piece.text, str) else None


def _logprobs_of(piece: Choice) -> Logprobs | None:
    """The log-probabilities of one chunk; Together's bare number and the id in its delta as lists of one."""
    if isinstance(piece.logprobs, Logprobs):
        return piece.logprobs
    token_id = piece.delta.token_id if piece.delta is not None else None
    if piece.logprobs is None and not isinstance(token_id, int):
        return None
    return Logprobs(
        tokens=[_text_of(piece) or ""],
        token_logprobs=[piece.logprobs],
        token_ids=[token_id if isinstance(token_id, int) else None],
    )


def _listed(raw: Raw) -> list[Raw] | None:
    """The elements of a list; None of anything else, which is not looked at further."""
    return _LIST.decode(raw) if bytes(raw).lstrip()[:1] == b"[" else None


def _key_of(logprobs: Logprobs) -> list[Any]:
    """What tells whether a chunk repeats the one before."""
    entries = [*(logprobs.content or ()), *(logprobs.refusal or ())]
    if entries:
        return [(entry.token, entry.logprob) for entry in entries]
    return list(zip(logprobs.tokens or (), logprobs.token_logprobs or (), strict=False)) or logprobs.token_ids or []


def is_cumulative(pieces: Sequence[Any], num_expected: int | None) -> bool:
    """Whether each piece repeats the one before.

    Without the server's count a repeated token could pass for it, so then three growing pieces are asked for.
    """
    pairs = list(pairwise(pieces))
    if not pairs or any(later[: len(earlier)] != earlier for earlier, later in pairs):
        return False
    if num_expected is not None:
        return sum(len(piece) for piece in pieces) != num_expected == len(pieces[-1])
    return len(pieces) > 2 and all(len(later) > len(earlier) for earlier, later in pairs)


class _Joiner:
    """Puts the pieces of a choice together, all in the one form that its stream has."""

    def __init__(self, is_cumulative: bool) -> None:
        self._is_cumulative = is_cumulative

    def row(self, pieces: Sequence[Sequence[T]]) -> list[T]:
        """One list of many; the last of them where each repeats the one before."""
        return [*(pieces[-1] if self._is_cumulative and pieces else chain.from_iterable(pieces))]

    def text(self, pieces: Sequence[str]) -> str:
        """One text of many."""
        return pieces[-1] if self._is_cumulative and pieces else "".join(pieces)

    def logprobs(self, pieces: Sequence[Logprobs]) -> Logprobs:
        """The log-probabilities of all chunks, field by field."""
        tops: list[list[Raw]] = [one for piece in pieces if (one := _listed(piece.top_logprobs))]
        return Logprobs(
            content=self._field(pieces, lambda one: one.content),
            refusal=self._field(pieces, lambda one: one.refusal),
            tokens=self._field(pieces, lambda one: one.tokens),
            token_logprobs=self._field(pieces, lambda one: one.token_logprobs),
            token_ids=self._field(pieces, lambda one: one.token_ids),
            text_offset=self._field(pieces, lambda one: one.text_offset),
            top_logprobs=Raw(msgspec.json.encode(self.row(tops))) if tops else NULL,
        )

    def _field(self, pieces: Sequence[Logprobs], part: Callable[[Logprobs], list[T] | None]) -> list[T] | None:
        filled = [one for piece in pieces if (one := part(piece)) is not None]
        return self.row([one for one in filled if one]) if filled else None


def _message(deltas: list[Message], joined: _Joiner) -> Message:
    """The message of all deltas."""
    return Message(
        content=joined.text([text for delta in deltas if (text := text_of(delta.content))]),
        tool_calls=_tool_calls(deltas),
        function_call=_function_call(deltas),
        refusal=joined.text([one.refusal for one in deltas if isinstance(one.refusal, str)]) or None,
        reasoning=joined.text([one.reasoning for one in deltas if isinstance(one.reasoning, str)]) or None,
        reasoning_content=_thinking(deltas, joined),
    )


def _thinking(deltas: list[Message], joined: _Joiner) -> Any:
    told = [delta.reasoning_content for delta in deltas if delta.reasoning_content is not UNSET]
    return joined.text([one for one in told if isinstance(one, str)]) or None if told else UNSET


def _tool_calls(deltas: Sequence[Message]) -> list[dict[str, Any]] | None:
    """Tool calls of all deltas; the argument strings are concatenated as they came, never rewritten."""
    calls: dict[int, dict[str, Any]] = {}
    functions: dict[int, list[Any]] = {}
    for part in chain.from_iterable(delta.tool_calls or () for delta in deltas):
        index = part.get("index")
        place = index if isinstance(index, int) else len(calls)
        call = calls.setdefault(place, {"function": {}})
        call.update(
            {key: value for key, value in part.items() if key not in ("index", "function") and value is not None}
        )
        functions.setdefault(place, []).append(part.get("function"))
    for place, parts in functions.items():
        calls[place]["function"] = _function(parts)
    return [calls[place] for place in sorted(calls)] or None


def _function_call(deltas: Sequence[Message]) -> dict[str, Any] | None:
    parts = [delta.function_call for delta in deltas if delta.function_call is not None]
    return _function(parts) if parts else None


def _function(parts: Iterable[Any]) -> dict[str, Any]:
    told = [part for part in parts if isinstance(part, dict)]
    name = next((part["name"] for part in told if isinstance(part.get("name"), str)), None)
    arguments = [part["arguments"] for part in told if isinstance(part.get("arguments"), str)]
    function: dict[str, Any] = {} if name is None else {"name": name}
    return {**function, "arguments": "".join(arguments)} if arguments else function
