"""SGLang's own `/generate`: (log-probability, id, text) triples, weight spans, several answers as a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from ingest.call import Call, WeightSpan, pack_ids, whole
from ingest.formats.body import Body, Wrapped, refuse_nul, text_or_none
from ingest.formats.chat import NULL
from ingest.formats.chat import WeightSpan as LoggedSpan
from ingest.formats.format import Keys
from ingest.formats.generation import packed, parameters, prompt_messages, top_lists
from ingest.formats.sizes import SmallInt, TokenId
from schemas.errors import LineError

NAME = "sglang_generate"

T = TypeVar("T")


class Sampling(Struct, omit_defaults=True):
    """SGLang's sampling parameters."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: SmallInt | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Any = None
    n: SmallInt | None = None
    max_new_tokens: SmallInt | None = None
    min_new_tokens: SmallInt | None = None
    stop: Any = None
    stop_token_ids: Any = None
    stop_regex: Any = None
    ignore_eos: Any = None
    skip_special_tokens: Any = None
    no_stop_trim: Any = None
    json_schema: Any = None
    regex: Any = None
    ebnf: Any = None
    structural_tag: Any = None
    sampling_seed: Any = None


class Request(Struct):
    """A request to `/generate`; a batch has lists of prompts."""

    model: str | None = None
    text: str | list[str] | None = None
    input_ids: Raw = NULL
    sampling_params: Sampling | list[Sampling] | None = None
    custom_logit_processor: Any = None
    image_data: Any = None
    video_data: Any = None
    audio_data: Any = None


class Triple(Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """One token: its log-probability comes first, its id second; the text is null unless it was asked for."""

    logprob: float | None
    token_id: TokenId
    text: str | None = None


class Finish(Struct):
    """Why it stopped: stop, length or abort, and what matched."""

    type: str
    matched: int | str | None = None


class MetaInfo(Struct):
    """What the server says about one answer."""

    id: str | None = None
    finish_reason: Finish | str | None = None
    prompt_tokens: SmallInt | None = None
    completion_tokens: SmallInt | None = None
    weight_version: str | int | None = None
    weight_versions: list[LoggedSpan] | None = None
    num_retractions: SmallInt | None = None
    input_token_logprobs: list[Triple] | None = None
    output_token_logprobs: list[Triple] | None = None
    output_token_sampling_logprobs: list[float | None] | None = None
    output_top_logprobs: list[list[Triple] | None] | None = None


class Answer(Struct):
    """One answer, or one chunk of it."""

    text: str | None = None
    output_ids: list[TokenId] | None = None
    meta_info: MetaInfo | None = None
    index: SmallInt | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """What a list holds: the answers of one request, each with its notes."""

    answers: tuple[tuple[Answer, tuple[str, ...]], ...]
    streamed: bool


class Asked(NamedTuple):
    """What a request asks with one prompt."""

    ids: list[int] | None
    messages_json: str | None
    sampling: Sampling


_IDS = msgspec.json.Decoder(list[TokenId] | None)
_BATCH = msgspec.json.Decoder(list[list[TokenId]])


def claims(keys: Keys) -> bool:
    """Whether a response with these keys is one of `/generate`, whole or a chunk."""
    return "meta_info" in keys and "choices" not in keys and ("text" in keys or "output_ids" in keys)


def join(chunks: Sequence[Answer]) -> tuple[Answers, tuple[str, ...]]:
    """The answers that a list holds: the chunks of a stream, several finished answers (n > 1, a batch), or both.

    Chunks of one answer share its id and index. A list that repeats what came before (SGLang's default) and one that
    goes on (`--incremental-streaming-output`) are told apart by `completion_tokens`, which counts from the beginning.
    """
    by_answer: dict[tuple[str | None, int | None], list[Answer]] = {}
    for chunk in chunks:
        meta = chunk.meta_info or MetaInfo()
        by_answer.setdefault((meta.id, chunk.index), []).append(chunk)
    answers = tuple(_whole(pieces) for pieces in by_answer.values())
    streamed = len(by_answer) < len(chunks) or any(notes for _, notes in answers)
    return Answers(answers, streamed), ()


def calls(wrapped: Wrapped) -> tuple[Call, ...] | None:
    """One call an answer; None when the response is no answer of `/generate`."""
    held = wrapped.response
    if not isinstance(held, Answers):
        held = Answers(((held, ()),), wrapped.streamed)
    if any(answer.meta_info is None for answer, _ in held.answers):
        return None
    request = wrapped.request if isinstance(wrapped.request, Request) else Request()
    refuse_nul({"model": request.model})
    asked = _asked(request)
    num_choices, rest = divmod(len(held.answers), len(asked)) if asked else (0, 0)
    if rest or not num_choices:
        raise LineError(
            "no_choices",
            f"{len(held.answers)} answers to {len(asked)} prompts; expected one at least, and as many for each prompt",
        )
    shared = {
        **wrapped.shared(),
        "streamed": held.streamed,
        "model": request.model or "",
        "engine": "sglang",
        "log_format": NAME,
        "num_choices": num_choices,
    }
    by_prompt = [
        (one, {**shared, "messages_json": one.messages_json, "sampling": parameters(one.sampling)}) for one in asked
    ]
    calls = []
    for place, (answer, notes) in enumerate(held.answers):  # prompt by prompt, all answers to each
        one, fields = by_prompt[place // num_choices]
        found = [*_distribution(one.sampling, request), *notes]
        calls.append(_call(answer, one, {**fields, "choice_index": place % num_choices}, found))
    return tuple(calls)


BODY = Body(
    name=NAME,
    request=Request,
    response=Answer,
    claims=claims,
    calls=calls,
    chunk=Answer,
    claims_chunk=claims,
    join=join,
)


def _whole(pieces: list[Answer]) -> tuple[Answer, tuple[str, ...]]:
    """One answer of its chunks; its last chunk has the counts, the spans and the reason."""
    last = pieces[-1].meta_info
    if last is None:
        return pieces[-1], ()
    notes = ("stream_cut",) if last.finish_reason is None else ()
    if len(pieces) == 1:
        return pieces[0], notes
    metas = [piece.meta_info or MetaInfo() for piece in pieces]
    count = last.completion_tokens
    last.output_token_logprobs = _joined([meta.output_token_logprobs for meta in metas], count)
    last.output_token_sampling_logprobs = _joined([meta.output_token_sampling_logprobs for meta in metas], count)
    last.output_top_logprobs = _joined([meta.output_top_logprobs for meta in metas], count)
    last.input_token_logprobs = next((m.input_token_logprobs for m in metas if m.input_token_logprobs), None)
    last.num_retractions = max((meta.num_retractions or 0 for meta in metas), default=0)
    texts = [piece.text for piece in pieces if piece.text]
    text = texts[-1] if texts and _repeats(texts) else "".join(texts)
    return Answer(text, _joined([piece.output_ids for piece in pieces], count), last, pieces[-1].index), notes


def _joined(pieces: Sequence[list[T] | None], num_expected: int | None) -> list[T] | None:
    filled = [piece for piece in pieces if piece]
    if not filled:
        return next((piece for piece in pieces if piece is not None), None)
    if num_expected is None:
        is_cumulative = len(filled) > 2 and _repeats(filled)
    else:
        is_cumulative = num_expected == len(filled[-1]) and _repeats(filled)
    return filled[-1] if is_cumulative else [one for piece in filled for one in piece]


def _repeats(pieces: Sequence[Any]) -> bool:
    """Whether each piece begins with the one before."""
    return all(later[: len(earlier)] == earlier for earlier, later in pairwise(pieces))


def _asked(request: Request) -> list[Asked]:
    """What each prompt of a request asks; a request without a batch has one."""
    texts: Sequence[str | None] = request.text if isinstance(request.text, list) else [request.text]
    if bytes(request.input_ids).lstrip()[1:].lstrip()[:1] == b"[":
        lists: Sequence[list[int] | None] = _BATCH.decode(request.input_ids)
    else:
        lists = [_IDS.decode(request.input_ids)]
    num_prompts = max(len(texts), len(lists))
    stated = request.sampling_params if isinstance(request.sampling_params, list) else [request.sampling_params]
    return [
        Asked(
            _at(lists, place, num_prompts),
            prompt_messages(_at(texts, place, num_prompts)),
            _at(stated, place, num_prompts) or Sampling(),
        )
        for place in range(num_prompts)
    ]


def _at(values: Sequence[T | None], place: int, num_prompts: int) -> T | None:
    """The value of one prompt; one value is that of all prompts, and another number is nobody's."""
    if len(values) == 1:
        return values[0]
    return values[place] if len(values) == num_prompts else None


def _distribution(sampling: Sampling, request: Request) -> tuple[str, ...]:
    """What changed the distribution, or stood beside the prompt, and only SGLang calls so."""
    notes = []
    if any((sampling.json_schema, sampling.regex, sampling.ebnf, sampling.structural_tag)):
        notes.append("grammar_constrained")
    if sampling.min_new_tokens:
        notes.append("truncated_support")
    if request.custom_logit_processor:
        notes.append("penalised_sampling")
    if request.image_data or request.video_data or request.audio_data:
        notes.append("multimodal_prompt")
    return tuple(notes)


def _call(answer: Answer, asked: Asked, shared: dict[str, Any], found: list[str]) -> Call:
    meta = answer.meta_info or MetaInfo()
    refuse_nul({"meta_info.id": meta.id})
    is_cut = "stream_cut" in found
    ids = _sampled_ids(answer, meta, found)
    logprobs, kind = _behavior(meta, ids)
    top_ids, top_logprobs = top_lists(
        ([(one.token_id, one.logprob) for one in top or ()] for top in meta.output_top_logprobs or ()), found
    )
    if meta.num_retractions:
        found.append("request_retracted")
    finish = meta.finish_reason if isinstance(meta.finish_reason, Finish) else Finish(meta.finish_reason or "")
    return Call(
        **shared,
        response_id=meta.id,
        prompt_token_ids=pack_ids(_prompt_ids(asked.ids, meta, found)),
        token_ids=pack_ids(ids),
        token_logprobs=packed(logprobs, found),
        logprob_kind=kind,
        top_token_ids=top_ids,
        top_token_logprobs=top_logprobs,
        weight_spans=_weights(meta, ids),
        finish_reason="abort" if is_cut else finish.type or None,
        stop_reason=text_or_none(finish.matched),
        num_prompt_tokens=meta.prompt_tokens,
        num_completion_tokens=meta.completion_tokens,
        reply_text=answer.text,
        notes=tuple(found),
    )


def _sampled_ids(answer: Answer, meta: MetaInfo, found: list[str]) -> list[int] | None:
    """The sampled ids; where the triples name them too, element by element the same ones."""
    spelled = [triple.token_id for triple in meta.output_token_logprobs] if meta.output_token_logprobs else None
    if answer.output_ids is None:
        return spelled
    if spelled is not None and len(spelled) == len(answer.output_ids) and spelled != answer.output_ids:
        found.append("ids_disagree")
    return answer.output_ids


def _behavior(meta: MetaInfo, ids: list[int] | None) -> tuple[list[float | None] | None, str | None]:
    """The log-probabilities that the tokens were sampled with, and their kind where the field says it.

    `output_token_sampling_logprobs` is of the truncated, renormalised distribution that the sampler drew from, so it
    is preferred where it covers every token. `output_token_logprobs` is of the distribution before truncation.
    """
    sampling = meta.output_token_sampling_logprobs
    if sampling and ids is not None and len(sampling) == len(ids):
        return sampling, "processed"
    if meta.output_token_logprobs or (meta.output_token_logprobs is not None and not ids):
        return [triple.logprob for triple in meta.output_token_logprobs], None
    return None, None


def _prompt_ids(sent: list[int] | None, meta: MetaInfo, found: list[str]) -> list[int] | None:
    """The prompt's ids as sent, else as the server lists them from the first token on.

    Ids that are not as many as the server counted are not what it read (an image stands for many), so they are none.
    """
    listed = [triple.token_id for triple in meta.input_token_logprobs or ()]
    known = [ids for ids in (sent, listed) if ids and meta.prompt_tokens in (None, len(ids))]
    if meta.prompt_tokens is None:  # nothing says that the list begins with the first token
        known = [ids for ids in known if ids is sent]
    if len(known) == 2 and known[0] != known[1]:
        found.append("ids_disagree")
    return known[0] if known else None


def _weights(meta: MetaInfo, ids: list[int] | None) -> tuple[WeightSpan, ...]:
    """Spans where the server gives them: the single version is only that of the end of the reply."""
    if meta.weight_versions:
        return tuple(WeightSpan(str(span.version), span.start, span.end) for span in meta.weight_versions)
    return whole(meta.weight_version, len(ids or ()))
