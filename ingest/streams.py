"""Chunks of a stream put together into the response that the server would have sent whole."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ingest.formats.chat import Choice, Logprobs, Message, Response, TokenEntry, text_of
from schemas.errors import LineError


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
    first = chunks[0]
    usage = next((chunk.usage for chunk in reversed(chunks) if chunk.usage is not None), None)
    num_expected = usage.completion_tokens if usage is not None and len(by_index) == 1 else None
    whole = Response(
        id=next(iter(ids), None),
        created=first.created,
        model=next((chunk.model for chunk in chunks if chunk.model is not None), None),
        system_fingerprint=next((c.system_fingerprint for c in chunks if c.system_fingerprint is not None), None),
        choices=[_choice(index, pieces, num_expected) for index, pieces in sorted(by_index.items())],
        usage=usage,
        prompt_token_ids=next((c.prompt_token_ids for c in chunks if c.prompt_token_ids is not None), None),
    )
    is_cut = any(choice.finish_reason is None for choice in whole.choices or ())
    return whole, ("stream_cut",) if is_cut else ()


def _choice(index: int, pieces: list[Choice], num_expected: int | None) -> Choice:
    ids = [piece.token_ids for piece in pieces if piece.token_ids]
    entries = [piece.logprobs.content for piece in pieces if piece.logprobs is not None and piece.logprobs.content]
    texts = [text for piece in pieces if piece.delta is not None and (text := text_of(piece.delta.content))]
    keys: Sequence[Sequence[Any]] = ids or [[(e.token, e.logprob) for e in content] for content in entries]
    is_cumulative = _is_cumulative(keys, num_expected) if keys else _is_cumulative(texts, None)
    ended = [piece for piece in pieces if piece.finish_reason is not None]
    return Choice(
        index=index,
        message=Message(content=_joined(texts, "", is_cumulative), tool_calls=_tool_calls(pieces)),
        logprobs=Logprobs(_joined(entries, _NO_ENTRIES, is_cumulative)) if entries else None,
        finish_reason=ended[-1].finish_reason if ended else None,
        stop_reason=next((piece.stop_reason for piece in reversed(pieces) if piece.stop_reason is not None), None),
        token_ids=_joined(ids, _NO_IDS, is_cumulative) if ids else None,
        weight_versions=next((p.weight_versions for p in reversed(pieces) if p.weight_versions is not None), None),
    )


_NO_ENTRIES: list[TokenEntry] = []
_NO_IDS: list[int] = []


def _is_cumulative(pieces: Sequence[Any], num_expected: int | None) -> bool:
    """Whether each piece repeats the one before.

    Without the server's count a repeated token could pass for it, so then three growing pieces are asked for.
    """
    pairs = list(pairwise(pieces))
    if not pairs or any(later[: len(earlier)] != earlier for earlier, later in pairs):
        return False
    if num_expected is not None:
        return sum(len(piece) for piece in pieces) != num_expected == len(pieces[-1])
    return len(pieces) > 2 and all(len(later) > len(earlier) for earlier, later in pairs)


def _joined(pieces: Sequence[Any], empty: Any, is_cumulative: bool) -> Any:
    if is_cumulative and pieces:
        return pieces[-1]
    whole = empty[:]
    for piece in pieces:
        whole = whole + piece
    return whole


def _tool_calls(pieces: Sequence[Choice]) -> list[dict[str, Any]] | None:
    """Tool calls of all deltas; the argument strings are concatenated as they came, never rewritten."""
    calls: dict[int, dict[str, Any]] = {}
    for piece in pieces:
        for part in (piece.delta.tool_calls if piece.delta is not None else None) or ():
            index = part.get("index")
            call = calls.setdefault(index if isinstance(index, int) else len(calls), {"function": {}})
            function = part.get("function")
            call.update(
                {key: value for key, value in part.items() if key not in ("index", "function") and value is not None}
            )
            if isinstance(function, dict):
                _extend(call["function"], function)
    return [calls[index] for index in sorted(calls)] or None


def _extend(function: dict[str, Any], part: dict[str, Any]) -> None:
    if isinstance(part.get("name"), str):
        function.setdefault("name", part["name"])
    if isinstance(part.get("arguments"), str):
        function["arguments"] = function.get("arguments", "") + part["arguments"]
