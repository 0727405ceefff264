"""llama.cpp's own `/completion`: sampling parameters as applied, log-probabilities or probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ingest.call import Call, pack_ids
from ingest.formats.body import Body, Wrapped, refuse_nul
from ingest.formats.chat import NULL
from ingest.formats.format import Keys
from ingest.formats.generation import packed, parameters, prompt_messages, top_lists
from ingest.formats.sizes import SmallInt, TokenId
from ingest.formats.stop_strings import masked_behind
from schemas.errors import LineError

NAME = "llamacpp_completion"

_OWN = ("stop_type", "tokens_predicted", "completion_probabilities", "generation_settings", "stopped_eos")
_FINISH = {"eos": "stop", "word": "stop", "limit": "length"}


class Settings(Struct, omit_defaults=True):
    """llama.cpp's sampling parameters, as a request states them or as the server applied them."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: SmallInt | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Any = None
    typical_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    mirostat: SmallInt | None = None
    dry_multiplier: float | None = None
    dynatemp_range: float | None = None
    samplers: Any = None
    seed: Any = None
    n_predict: SmallInt | None = None
    max_tokens: SmallInt | None = None
    ignore_eos: bool | None = None
    stop: Any = None
    grammar: Any = None
    json_schema: Any = None
    n_probs: SmallInt | None = None
    post_sampling_probs: bool | None = None


class Request(Settings):
    """A request to `/completion`; the prompt is a text, or ids."""

    model: str | None = None
    prompt: Raw = NULL


class Entry(Struct, gc=False):
    """One token with its log-probability, or with a probability after sampling; older servers give no id."""

    id: TokenId | None = None
    token: str | None = None
    logprob: float | None = None
    prob: float | None = None
    top_logprobs: list[Entry] | None = None


class Response(Struct):
    """A whole response, or one chunk of a stream."""

    index: SmallInt = 0
    content: str | None = None
    tokens: list[TokenId] | None = None
    stop: bool | None = None
    model: str | None = None
    tokens_predicted: SmallInt | None = None
    tokens_evaluated: SmallInt | None = None
    truncated: bool | None = None
    stop_type: str | None = None
    stopped_eos: bool | None = None
    stopped_word: bool | None = None
    stopped_limit: bool | None = None
    stopping_word: str | None = None
    generation_settings: Settings | None = None
    completion_probabilities: list[Entry] | None = None


_PROMPT: msgspec.json.Decoder[str | list[int] | None] = msgspec.json.Decoder(str | list[TokenId] | None)


def claims(keys: Keys) -> bool:
    """Whether a response with these keys is llama.cpp's, whole or a chunk."""
    return "content" in keys and "choices" not in keys and any(name in keys for name in _OWN)


def join(chunks: Sequence[Response]) -> tuple[list[tuple[Response, tuple[str, ...]]], tuple[str, ...]]:
    """The responses that a list holds, one an index: each chunk of a stream goes on where the one before ended."""
    by_index: dict[int, list[Response]] = {}
    for chunk in chunks:
        by_index.setdefault(chunk.index, []).append(chunk)
    return [_whole(pieces) for _, pieces in sorted(by_index.items())], ()


def calls(wrapped: Wrapped) -> tuple[Call, ...] | None:
    """One call a response; None when it is not llama.cpp's."""
    held = wrapped.response if isinstance(wrapped.response, list) else [(wrapped.response, wrapped.notes)]
    if any(not _is_own(response) for response, _ in held):
        return None
    request = wrapped.request if isinstance(wrapped.request, Request) else Request()
    shared = {**wrapped.shared(), "engine": "llama.cpp", "log_format": NAME, "num_choices": len(held)}
    prompt = _prompt(request)
    shared["messages_json"] = prompt_messages(prompt if isinstance(prompt, str) else None)
    sent = prompt if isinstance(prompt, list) else None
    return tuple(_call(response, (request, sent), shared, notes) for response, notes in held)


BODY = Body(
    name=NAME,
    request=Request,
    response=Response,
    claims=claims,
    calls=calls,
    chunk=Response,
    claims_chunk=claims,
    join=join,
)


def _is_own(response: Response) -> bool:
    return response.content is not None and any(getattr(response, name) is not None for name in _OWN)


def _whole(pieces: list[Response]) -> tuple[Response, tuple[str, ...]]:
    last = pieces[-1]
    notes = () if last.stop else ("stream_cut",)
    if len(pieces) == 1:
        return last, notes
    ids = [piece.tokens for piece in pieces if piece.tokens is not None]
    entries = [piece.completion_probabilities for piece in pieces if piece.completion_probabilities is not None]
    last.content = "".join(piece.content or "" for piece in pieces)
    last.tokens = [one for piece in ids for one in piece] if ids else None
    last.completion_probabilities = [one for piece in entries for one in piece] if entries else None
    return last, notes


def _call(
    response: Response, asked: tuple[Request, list[int] | None], shared: dict[str, Any], notes: tuple[str, ...]
) -> Call:
    request, prompt = asked
    model = response.model or request.model or ""
    refuse_nul({"model": model})
    stated = response.generation_settings or request
    found = [*notes, *_distribution(stated)]
    entries = response.completion_probabilities
    ids = _sampled_ids(response, found)
    logprobs, kind = _behavior(entries, response.generation_settings)
    top_ids, top_logprobs = top_lists(
        ([(one.id, one.logprob) for one in entry.top_logprobs or ()] for entry in entries or ()), found
    )
    if response.truncated:
        found.append("context_shifted")
    is_read_whole = not response.truncated and prompt and response.tokens_evaluated in (None, len(prompt))
    return Call(
        **shared,
        model=model,
        choice_index=response.index,
        prompt_token_ids=pack_ids(prompt) if is_read_whole else None,
        token_ids=pack_ids(ids),
        token_logprobs=packed(logprobs, found),
        logprob_kind=kind,
        top_token_ids=top_ids,
        top_token_logprobs=top_logprobs,
        masked_positions=masked_behind(
            [entry.token for entry in entries or ()], response.content, response.stopping_word, len(ids or ()), found
        ),
        sampling=_parameters(stated),
        finish_reason="abort" if "stream_cut" in notes else _finish(response),
        stop_reason=response.stopping_word or None,
        num_prompt_tokens=response.tokens_evaluated,
        num_completion_tokens=response.tokens_predicted,
        reply_text=response.content,
        notes=tuple(found),
    )


def _sampled_ids(response: Response, found: list[str]) -> list[int] | None:
    """The sampled ids; where the entries name them too, element by element the same ones.

    An empty list is what the server writes unless it is asked for `return_tokens`.
    """
    ids = response.tokens
    spelled = [entry.id for entry in response.completion_probabilities or ()]
    named = [one for one in spelled if one is not None]
    if not ids:
        if named and len(named) == len(spelled):
            return named
        return ids if response.tokens_predicted == 0 else None
    if len(ids) == len(named) and ids != named:
        found.append("ids_disagree")
    return ids


def _behavior(entries: list[Entry] | None, applied: Settings | None) -> tuple[list[float | None] | None, str | None]:
    """Log-probabilities and their kind, which the field's name says.

    `logprob` is of the model's own distribution, before any sampler. A `prob` counts only where the settings as applied
    say that it is the one after sampling: older servers wrote others under the same name.
    """
    if not entries:
        return None, None
    if all(entry.prob is None for entry in entries):
        return [entry.logprob for entry in entries], "raw"
    if applied is None or not applied.post_sampling_probs:
        return None, None
    return [_log(entry.prob) for entry in entries], "processed"


def _log(probability: float | None) -> float | None:
    if probability is None:
        return None
    if not 0.0 <= probability <= 1.0:
        raise LineError("bad_field", f"prob is {probability}; expected a probability between 0 and 1")
    return math.log(probability) if probability else -math.inf


def _prompt(request: Request) -> str | list[int] | None:
    """The prompt as it was sent: a text, or ids; None of several prompts, and of texts and ids mixed."""
    try:
        return _PROMPT.decode(request.prompt)
    except msgspec.ValidationError:
        return None


def _finish(response: Response) -> str | None:
    if response.stop_type is not None:
        return _FINISH.get(response.stop_type)
    if response.stopped_limit:
        return "length"
    return "stop" if response.stopped_eos or response.stopped_word else None


def _parameters(stated: Settings) -> dict[str, Any]:
    told = parameters(Settings(**{name: getattr(stated, name) for name in Settings.__struct_fields__}))
    if "repeat_penalty" in told:
        told["repetition_penalty"] = told.pop("repeat_penalty")
    return told


def _distribution(stated: Settings) -> tuple[str, ...]:
    """What changed the distribution and only llama.cpp calls so."""
    notes = []
    if (
        (stated.typical_p is not None and stated.typical_p < 1.0)
        or (stated.top_n_sigma is not None and stated.top_n_sigma > 0.0)
        or stated.xtc_probability
        or stated.mirostat
    ):
        notes.append("truncated_support")
    if stated.dry_multiplier or stated.dynatemp_range:
        notes.append("penalised_sampling")
    if stated.grammar or stated.json_schema:
        notes.append("grammar_constrained")
    return tuple(notes)
