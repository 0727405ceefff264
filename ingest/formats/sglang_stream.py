"""Chunks of SGLang's `/generate` put together: a stream repeats what came before, or goes on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeVar

from ingest.formats.sglang_answers import Answer, Answers, MetaInfo
from ingest.formats.streams import is_cumulative

T = TypeVar("T")


def join(chunks: Sequence[Answer]) -> tuple[Answers, tuple[str, ...]]:
    """The answers that a list holds: the chunks of a stream, several finished answers (n > 1, a batch), or both.

    Chunks of one answer share its id and index. A list that repeats what came before (SGLang's default) and one that
    goes on (`--incremental-streaming-output`) are told apart by the rule of all streams (`streams.is_cumulative`), for
    `completion_tokens` counts from the beginning in both.
    """
    by_answer: dict[tuple[str | None, int | None], list[Answer]] = {}
    for chunk in chunks:
        meta = chunk.meta_info or MetaInfo()
        by_answer.setdefault((meta.id, chunk.index), []).append(chunk)
    answers = tuple(_whole(pieces) for pieces in by_answer.values())
    streamed = len(by_answer) < len(chunks) or any(notes for _, notes in answers)
    return Answers(answers, streamed), ()


def _whole(pieces: list[Answer]) -> tuple[Answer, tuple[str, ...]]:
    """One answer of its chunks; its last chunk has the counts, the spans and the reason.

    Its text goes the way of its ids: a text that is repeated may be one that was sampled again.
    """
    last = pieces[-1].meta_info
    if last is None:
        return pieces[-1], ()
    notes = ("stream_cut",) if last.finish_reason is None else ()
    if len(pieces) == 1:
        return pieces[0], notes
    metas = [piece.meta_info or MetaInfo() for piece in pieces]
    ids = [piece.output_ids for piece in pieces]
    triples = [meta.output_token_logprobs for meta in metas]
    texts = [piece.text for piece in pieces if piece.text]
    by_ids = _repeats(ids, last.completion_tokens)
    by_triples = _repeats(triples, last.completion_tokens)
    repeated = next((one for one in (by_ids, by_triples) if one is not None), is_cumulative(texts, None))
    in_triples = repeated if by_triples is None else by_triples
    last.output_token_logprobs = _joined(triples, in_triples)
    last.output_token_sampling_logprobs = _joined([meta.output_token_sampling_logprobs for meta in metas], in_triples)
    last.output_top_logprobs = _joined([meta.output_top_logprobs for meta in metas], in_triples)
    last.input_token_logprobs = next((m.input_token_logprobs for m in metas if m.input_token_logprobs), None)
    last.num_retractions = max((meta.num_retractions or 0 for meta in metas), default=0)
    text = texts[-1] if texts and repeated else "".join(texts)
    return Answer(text, _joined(ids, repeated), last, pieces[-1].index), notes


def _repeats(pieces: Sequence[list[Any] | None], num_expected: int | None) -> bool | None:
    """Whether each list repeats the one before; None where there is none with anything in it."""
    filled = [piece for piece in pieces if piece]
    return is_cumulative(filled, num_expected) if filled else None


def _joined(pieces: Sequence[list[T] | None], repeated: bool) -> list[T] | None:
    """One list of all chunks; the last that has anything where each repeats the one before."""
    filled = [piece for piece in pieces if piece]
    if not filled:
        return next((piece for piece in pieces if piece is not None), None)
    return filled[-1] if repeated else [*chain.from_iterable(filled)]
