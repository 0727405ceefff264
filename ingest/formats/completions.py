"""Calls of OpenAI-compatible responses, chat and completions alike: one a choice, whichever server wrote it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, Raw

from ingest.call import Call, pack_ids
from ingest.formats.body import Wrapped, refuse_nul, text_or_none
from ingest.formats.chat import Choice, Request, Response, as_logged, reply_of, sampling_in
from ingest.formats.extras import Extras, extras_of
from ingest.formats.generation import packed, top_lists
from ingest.formats.prompts import Prompts, asks_for_echo, echoes, listed_prompts, prompts_of, without_echo
from ingest.formats.servers import Server, server_of
from ingest.formats.stop_strings import masked_behind
from ingest.formats.tokens import Tokens, sampling_logprobs_differ, texts_of, tokens_of
from ingest.formats.weights import spans_of
from schemas.errors import LineError

_FINISHES = {"eos": "stop"}
"""Together's word for the end of the reply; all others are OpenAI's, or say something of their own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One response and what all its choices have in common."""

    response: Response
    server: Server
    prompts: Prompts
    asked_for_echo: bool | None
    listed: list[list[int]]
    """Ids of the prompts as the head of the response lists them."""
    num_choices: int
    """Choices of one prompt: as many as there are, or as were asked for where a gateway dropped some."""
    is_alone: bool
    """Whether the response has one choice, so that the server's counts are the counts of it."""
    shared: dict[str, Any]
    notes: tuple[str, ...]

    def place_of(self, choice: Choice) -> int:
        """Which of the prompts a choice answers: a batch is answered prompt by prompt."""
        return max(choice.index, 0) // max(len(self.response.choices or ()) // self.prompts.count, 1)


def read(wrapped: Wrapped, name: str) -> tuple[Call, ...]:
    """One call a choice, under the name of a format; a response without any choice is refused (`LineError`)."""
    answer = _answer(wrapped, name)
    calls = tuple(_call(choice, answer) for choice in answer.response.choices or ())
    if len(calls) > 1 and _counts_differ(calls, answer.response):
        for call in calls:
            call.notes = (*call.notes, "len_mismatch")
    return calls


def _counts_differ(calls: Sequence[Call], response: Response) -> bool:
    """Whether the server counts another number of tokens than its choices have together."""
    counted = response.usage.completion_tokens if response.usage is not None else None
    lengths = [len(call.token_ids) // 4 for call in calls if call.token_ids is not None]
    return counted is not None and len(lengths) == len(calls) and sum(lengths) != counted


def _answer(wrapped: Wrapped, name: str) -> Answer:
    response: Response = wrapped.response
    if not response.choices:
        raise LineError("no_choices", "the response has no choice; expected one at least: log errors elsewhere")
    request = wrapped.request if isinstance(wrapped.request, Request) else Request()
    server = server_of(response)
    prompts = prompts_of(request)
    num_choices = len(response.choices) // prompts.count or 1
    if isinstance(request.n, int):
        num_choices = max(num_choices, request.n)
    return Answer(
        response=response,
        server=server,
        prompts=prompts,
        asked_for_echo=asks_for_echo(request),
        listed=listed_prompts(response),
        num_choices=num_choices,
        is_alone=len(response.choices) == 1,
        shared=_shared(wrapped, name, server),
        notes=wrapped.notes,
    )


def _shared(wrapped: Wrapped, name: str, server: Server) -> dict[str, Any]:
    """The fields of `Call` that all choices of a response have in common."""
    response: Response = wrapped.response
    request = wrapped.request if isinstance(wrapped.request, Request) else Request()
    model = response.model or request.model
    if not isinstance(model, str):
        raise LineError("bad_field", "neither the response nor the request names a model; expected its served name")
    shared = wrapped.shared(response.created)
    shared["session_id"] = shared["session_id"] or _session(request)
    shared["user"] = shared["user"] or (request.user if isinstance(request.user, str) and request.user else None)
    refuse_nul({"id": response.id, "model": model, "session_id": shared["session_id"], "user": shared["user"]})
    messages_json, sampling = _split(request)
    return {
        **shared,
        "response_id": response.id,
        "model": model,
        "engine": None if server == "openai" else server,
        "engine_version": response.system_fingerprint,
        "log_format": name,
        "messages_json": messages_json,
        "sampling": sampling,
    }


def _session(request: Request) -> str | None:
    """The conversation that the request names: vLLM's session_id, TensorRT-LLM's conversation_params."""
    named = request.session_id
    if not named and request.conversation_params:
        named = request.conversation_params.conversation_id
    return None if named is UNSET or named is None else str(named)


def _split(request: Request) -> tuple[str | None, dict[str, Any]]:
    """The messages or the prompt as logged, and the sampling parameters; what the request left out is left out."""
    told = request.messages if isinstance(request.messages, Raw) else request.prompt
    return as_logged(told, "request.messages") if isinstance(told, Raw) else None, sampling_in(request)


def _call(choice: Choice, answer: Answer) -> Call:
    has_ended = choice.finish_reason is not None
    found = [note for note in answer.notes if note != "stream_cut" or not has_ended]
    extras = extras_of(choice, answer.response if answer.is_alone else None)
    tokens, prompt_ids = _cut(choice, answer, extras, found)
    ids = _sampled_ids(choice, extras, tokens, found)
    logprobs, kind = _behavior(tokens, extras, ids)
    num_tokens = len(ids if ids is not None else logprobs or ())
    top_ids, top_logprobs = top_lists(tokens.top if tokens is not None and kind is None else (), found)
    usage = answer.response.usage
    spoken = usage.completion_tokens if usage is not None and answer.is_alone else None
    if ids is None and logprobs is not None and _is_short(len(logprobs), answer, choice):
        found.append("len_mismatch")
    if answer.server == "fireworks" and sampling_logprobs_differ(choice.logprobs):
        found.append("sampling_logprob_differs")
    if extras.meta is not None and extras.meta.num_retractions:
        found.append("request_retracted")
    stop = _stop(choice, extras)
    finish = _FINISHES.get(choice.finish_reason or "", choice.finish_reason)
    return Call(
        **answer.shared,
        choice_index=choice.index,
        num_choices=answer.num_choices,
        prompt_token_ids=_packed_prompt(prompt_ids),
        token_ids=pack_ids(ids),
        token_logprobs=packed(logprobs, found),
        logprob_kind=kind,
        top_token_ids=top_ids,
        top_token_logprobs=top_logprobs,
        weight_spans=spans_of(choice, answer.response, extras, num_tokens),
        masked_positions=_behind(stop, choice, tokens, num_tokens, found),
        finish_reason="abort" if "stream_cut" in found else finish,
        stop_reason=text_or_none(stop),
        num_prompt_tokens=usage.prompt_tokens if usage is not None and answer.prompts.count == 1 else None,
        num_completion_tokens=spoken,
        reply_text=_reply(choice, answer),
        notes=tuple(found),
    )


def _stop(choice: Choice, extras: Extras) -> str | int | None:
    """The stop string or id that matched; None is the end of the reply, or unknown."""
    told = (choice.stop_reason, choice.matched_stop, extras.stop_reason)
    return next((one for one in told if isinstance(one, str | int)), None)


def _cut(choice: Choice, answer: Answer, extras: Extras, found: list[str]) -> tuple[Tokens | None, list[int] | None]:
    """The sampled tokens without an echo of the prompt, and the ids of the prompt."""
    tokens = tokens_of(choice.logprobs)
    place = answer.place_of(choice)
    prompt_ids = _prompt_ids(choice, answer, extras, place)
    if tokens is None or choice.text is UNSET:
        return tokens, prompt_ids
    usage = answer.response.usage
    counted = usage.prompt_tokens if usage is not None and answer.prompts.count == 1 else None
    num_prompt = len(prompt_ids) if prompt_ids else counted
    spoken = usage.completion_tokens if usage is not None and answer.is_alone else None
    if not echoes(answer.asked_for_echo, tokens, num_prompt, spoken):
        return tokens, prompt_ids
    text = answer.prompts.texts[place] if place < len(answer.prompts.texts) else None
    rest, notes = without_echo(tokens, num_prompt, text)
    found.extend(notes)
    if prompt_ids is None and rest.skipped and tokens.spelled is not None and not notes:
        prompt_ids = tokens.spelled[: rest.skipped]
    return rest, prompt_ids


def _prompt_ids(choice: Choice, answer: Answer, extras: Extras, place: int) -> list[int] | None:
    """The ids of the prompt that a choice answers, from the first place that has any."""
    for ids in (choice.prompt_token_ids, *extras.prompt_ids):
        if ids:
            return ids
    if answer.listed:
        return answer.listed[place if place < len(answer.listed) else 0] or None
    sent = answer.prompts.ids
    usage = answer.response.usage
    if place >= len(sent) or usage is None:
        return None
    # The server read as many tokens as were sent: it added and cut none.
    return sent[place] if usage.prompt_tokens == sum(map(len, sent)) else None


def _packed_prompt(ids: list[int] | None) -> bytes | None:
    try:
        return pack_ids(ids)
    except struct.error as error:
        raise LineError("bad_field", "prompt_token_ids mixes ids and lists; expected either: mend the log") from error


def _sampled_ids(choice: Choice, extras: Extras, tokens: Tokens | None, found: list[str]) -> list[int] | None:
    """The sampled ids, by the first list that has them; where the entries name them too, they must agree."""
    listed = [ids for ids in (choice.token_ids, choice.response_token_ids) if isinstance(ids, list)]
    listed += extras.ids
    spelled = tokens.spelled if tokens is not None else None
    if any(ids != listed[0] for ids in listed[1:]):
        found.append("ids_disagree")
    if not listed:
        if spelled is not None and tokens is not None and tokens.by_text:
            found.append("token_text_ids")
        return spelled
    # Lists of another length are a mismatch of lengths; of one length, each id must be spelled the same.
    if spelled is not None and len(spelled) == len(listed[0]) and spelled != listed[0]:
        found.append("ids_disagree")
    return listed[0]


def _behavior(
    tokens: Tokens | None, extras: Extras, ids: list[int] | None
) -> tuple[list[float | None] | None, str | None]:
    """The log-probabilities of the sampled tokens, and their kind where the field says it.

    SGLang's `output_token_sampling_logprobs` are of the truncated, renormalised distribution that the sampler drew
    from, so they are preferred where they cover every token.
    """
    sampling = extras.sampling_logprobs
    if sampling and ids is not None and len(sampling) == len(ids):
        return sampling, "processed"
    if tokens is not None:
        return tokens.logprobs, None
    return extras.logprobs, None


def _is_short(num_logprobs: int, answer: Answer, choice: Choice) -> bool:
    """Whether the server counts more or fewer tokens than it gave log-probabilities, of a choice without ids.

    OpenAI counts the end of the reply and thinking and lists neither; of a tool call it lists what it likes.
    """
    usage = answer.response.usage
    if usage is None or usage.completion_tokens is None or not answer.is_alone:
        return False
    missing = usage.completion_tokens - num_logprobs
    if answer.server != "openai":
        return missing != 0
    details = usage.completion_tokens_details
    thought = details.reasoning_tokens if details is not None and details.reasoning_tokens is not None else 0
    has_called = choice.message is not None and bool(choice.message.tool_calls or choice.message.function_call)
    return not has_called and missing - thought not in (0, 1)


def _behind(stop: object, choice: Choice, tokens: Tokens | None, num_tokens: int, found: list[str]) -> tuple[int, ...]:
    """Positions wholly behind the stop string, where one ended the reply; noted where nothing can say it."""
    if not isinstance(stop, str):
        return ()
    texts = texts_of(choice.logprobs)[tokens.skipped if tokens is not None else 0 :]
    text = choice.text if choice.message is None else choice.message.content
    return masked_behind(texts, text if isinstance(text, str) else None, stop, num_tokens, found)


def _reply(choice: Choice, answer: Answer) -> str | None:
    """What a reply says; an echoed prompt is taken off where it stands at the front word for word."""
    if choice.message is not None or choice.text is UNSET or choice.text is None:
        return reply_of(choice.message)
    place = answer.place_of(choice)
    text = choice.text
    if answer.asked_for_echo and place < len(answer.prompts.texts):
        text = text.removeprefix(answer.prompts.texts[place])
    return text
