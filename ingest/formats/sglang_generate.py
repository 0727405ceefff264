"""SGLang's own `/generate`: (log-probability, id, text) triples, weight spans, several answers as a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from ingest.call import Call, WeightSpan, pack_ids, whole
from ingest.formats.body import Body, Wrapped, refuse_nul, text_or_none
from ingest.formats.chat import NULL
from ingest.formats.format import Keys
from ingest.formats.generation import packed, parameters, prompt_messages, top_lists
from ingest.formats.sglang_answers import Answer, Answers, Finish, MetaInfo
from ingest.formats.sglang_stream import join
from ingest.formats.sizes import SmallInt, TokenId
from ingest.formats.stop_strings import masked_behind
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
        masked_positions=_behind(finish.matched, answer, len(ids or ()), found),
        finish_reason="abort" if is_cut else finish.type or None,
        stop_reason=text_or_none(finish.matched),
        num_prompt_tokens=meta.prompt_tokens,
        num_completion_tokens=meta.completion_tokens,
        reply_text=answer.text,
        notes=tuple(found),
    )


def _behind(matched: int | str | None, answer: Answer, num_tokens: int, found: list[str]) -> tuple[int, ...]:
    """Positions wholly behind the stop string, by the texts of the tokens (`return_text_in_logprobs`)."""
    triples = answer.meta_info.output_token_logprobs if answer.meta_info is not None else None
    texts = [triple.text for triple in triples or ()]
    return masked_behind(texts, answer.text, matched, num_tokens, found)


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
