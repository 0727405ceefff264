"""Text Generation Inference's own `/generate` and `/generate_stream`, with `details`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ingest.call import Call, pack_ids
from ingest.formats.body import Body, Wrapped, refuse_nul
from ingest.formats.format import Keys
from ingest.formats.generation import packed, parameters, prompt_messages, top_lists
from ingest.formats.sizes import SmallInt, TokenId
from schemas.errors import LineError

NAME = "tgi_generate"

_FINISH = {"length": "length", "eos_token": "stop", "stop_sequence": "stop"}


class Parameters(Struct, omit_defaults=True):
    """TGI's parameters."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: SmallInt | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    do_sample: bool | None = None
    best_of: SmallInt | None = None
    seed: Any = None
    max_new_tokens: SmallInt | None = None
    stop: Any = None
    truncate: Any = None
    watermark: bool | None = None
    grammar: Any = None
    adapter_id: str | None = None


class Request(Struct):
    """A request to `/generate`."""

    model: str | None = None
    inputs: str | None = None
    parameters: Parameters | None = None


class Token(Struct, gc=False):
    """One sampled token; one that is special was sampled like any other."""

    id: TokenId
    logprob: float | None = None


class PromptToken(Struct, gc=False):
    """One token of the prompt."""

    id: TokenId


class Details(Struct):
    """What was sampled and why it stopped; the last event of a stream has it without tokens."""

    finish_reason: str | None = None
    generated_tokens: SmallInt | None = None
    input_length: SmallInt | None = None
    prefill: list[PromptToken] | None = None
    tokens: list[Token] | None = None
    top_tokens: list[list[Token]] | None = None
    generated_text: str | None = None
    best_of_sequences: list[Details] | None = None


class Response(Struct):
    """A whole response, or one event of a stream: an event carries `token`."""

    generated_text: str | None = None
    details: Details | None = None
    token: Token | None = None
    top_tokens: list[Token] | None = None


def claims(keys: Keys) -> bool:
    """Whether a response with these keys is TGI's, whole or an event of a stream."""
    return "generated_text" in keys


def join(events: Sequence[Response]) -> tuple[Response, tuple[str, ...]]:
    """The whole response of a stream's events, or the one response that the compatible `/` route puts into a list."""
    first = events[0]
    if first.token is None:
        if len(events) > 1:
            raise LineError(
                "stream_incomplete", f"a list of {len(events)} responses; expected one, or the events of one stream"
            )
        return first, ()
    last = events[-1]
    details = last.details or Details()
    details.tokens = [event.token for event in events if event.token is not None]
    if any(event.top_tokens for event in events):
        details.top_tokens = [event.top_tokens or [] for event in events]
    return Response(last.generated_text, details), () if last.details is not None else ("stream_cut",)


def calls(wrapped: Wrapped) -> tuple[Call, ...] | None:
    """The delivered sequence, then those that it was chosen from; None when the response is not TGI's."""
    response: Response = wrapped.response
    if response.token is not None:
        raise LineError("stream_incomplete", "one event of a stream in a line; expected all its events in one list")
    if response.generated_text is None and response.details is None:
        return None
    request = wrapped.request if isinstance(wrapped.request, Request) else Request()
    details = response.details or Details()
    details.generated_text = response.generated_text
    sequences = [details, *(details.best_of_sequences or ())]
    refuse_nul({"model": request.model})
    stated = request.parameters or Parameters()
    shared = {
        **wrapped.shared(),
        "model": request.model or "",
        "engine": "tgi",
        "log_format": NAME,
        "num_choices": len(sequences),
        "messages_json": prompt_messages(request.inputs),
        "sampling": parameters(stated),
    }
    notes = (*wrapped.notes, *(_distribution(stated) if request.inputs is not None else ()))
    return tuple(_call(sequence, place, shared, notes) for place, sequence in enumerate(sequences))


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


def _call(details: Details, place: int, shared: dict[str, Any], notes: tuple[str, ...]) -> Call:
    found = list(notes)
    tokens = details.tokens
    top_ids, top_logprobs = top_lists(
        ([(one.id, one.logprob) for one in top] for top in details.top_tokens or ()), found
    )
    return Call(
        **shared,
        choice_index=place,
        prompt_token_ids=pack_ids([token.id for token in details.prefill]) if details.prefill else None,
        token_ids=pack_ids([token.id for token in tokens]) if tokens is not None else None,
        token_logprobs=packed([token.logprob for token in tokens], found) if tokens is not None else None,
        logprob_kind="processed" if tokens else None,  # log_softmax of what every warper left
        top_token_ids=top_ids,
        top_token_logprobs=top_logprobs,
        finish_reason="abort"
        if "stream_cut" in notes
        else _FINISH.get(details.finish_reason or "", details.finish_reason),
        num_prompt_tokens=details.input_length,
        num_completion_tokens=details.generated_tokens,
        reply_text=details.generated_text,
        notes=tuple(found),
    )


def _distribution(stated: Parameters) -> tuple[str, ...]:
    """What changed the distribution and only TGI calls so: without do_sample and without a warper it is greedy."""
    warps = (
        stated.temperature not in (None, 1.0)
        or bool(stated.top_k)
        or (stated.top_p is not None and stated.top_p < 1.0)
        or (stated.typical_p is not None and stated.typical_p < 1.0)
    )
    notes = []
    if not stated.do_sample and not warps:
        notes.append("greedy_sampling")
    if stated.typical_p is not None and stated.typical_p < 1.0:
        notes.append("truncated_support")
    if stated.watermark:
        notes.append("penalised_sampling")
    if stated.grammar:
        notes.append("grammar_constrained")
    return tuple(notes)
