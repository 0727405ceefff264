"""Samples of slime and miles: one row of tokens with a mask over its reply, which may hold several turns."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ingest.call import Call, WeightSpan, pack_ids, pack_logprobs, whole
from ingest.formats.body import refuse_nul, text_or_none
from ingest.formats.chat import NULL
from ingest.formats.format import Format, Keys, Records
from ingest.formats.generation import prompt_messages
from ingest.formats.sizes import SmallInt, TokenId
from schemas.errors import LineError

NAME = "slime_sample"

_FINISH = {"completed": "stop", "truncated": "length", "aborted": "abort"}


class Sample(Struct):
    """One sample; `loss_mask` and `rollout_log_probs` have one entry for each token of the reply."""

    tokens: list[TokenId] | None = None
    response_length: SmallInt | None = None
    loss_mask: list[SmallInt] | None = None
    rollout_log_probs: list[float | None] | None = None
    weight_versions: list[str | int | None] = []
    prompt: Raw = NULL
    response: str | None = None
    reward: Any = None
    status: str | None = None
    session_id: str | int | None = None


_SAMPLE = msgspec.json.Decoder(Sample)


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is a sample."""
    return "tokens" in keys and "response_length" in keys and ("rollout_log_probs" in keys or "loss_mask" in keys)


def read(line: bytes) -> Records | None:
    """The one call that a sample is: its turns are one row, and what was not sampled is masked."""
    sample = _SAMPLE.decode(line)
    if sample.tokens is None or sample.response_length is None:
        return None
    length = sample.response_length
    if not 0 <= length <= len(sample.tokens):
        raise LineError("bad_field", f"response_length is {length} for {len(sample.tokens)} tokens; expected fewer")
    if sample.loss_mask is not None and len(sample.loss_mask) != length:
        raise LineError("bad_field", f"loss_mask has {len(sample.loss_mask)} entries for {length} tokens; one a token")
    begin = len(sample.tokens) - length
    masked = tuple(place for place, loss in enumerate(sample.loss_mask or ()) if not loss)
    notes = _notes(sample)
    refuse_nul({"session_id": text_or_none(sample.session_id)})
    call = Call(
        trace_id=text_or_none(sample.session_id) or "",
        session_id=text_or_none(sample.session_id),
        model="",
        engine="sglang",
        log_format=NAME,
        prompt_token_ids=pack_ids(sample.tokens[:begin] or None),
        token_ids=pack_ids(sample.tokens[begin:]),
        token_logprobs=_logprobs(sample.rollout_log_probs, masked, length, notes),
        masked_positions=masked,
        weight_spans=_weights(sample.weight_versions, length, notes),
        finish_reason=_FINISH.get(sample.status or ""),
        messages_json=_messages(sample.prompt),
        reply_text=sample.response,
        notes=tuple(notes),
    )
    return (call,)


FORMAT = Format(NAME, claims, read)


def _notes(sample: Sample) -> list[str]:
    notes = []
    if sample.status == "failed":
        notes.append("attempt_failed")
    if sample.reward is not None:
        notes.append("score_without_time")
    return notes


def _logprobs(given: list[float | None] | None, masked: tuple[int, ...], length: int, notes: list[str]) -> bytes | None:
    """The numbers of the sampled tokens; what stands at a masked one, often 0, is none."""
    if given is None:
        return None
    if len(given) == length:
        for place in masked:
            given[place] = float("nan")
    if None in given:
        notes.append("no_behavior_logprobs")
    return pack_logprobs([float("nan") if value is None else value for value in given])


def _weights(versions: list[str | int | None], length: int, notes: list[str]) -> tuple[WeightSpan, ...]:
    """The one version of all turns; of several, or where a turn has none, nothing says which tokens are whose."""
    named = {None if version in (None, "") else str(version) for version in versions}
    if len(named - {None}) > 1:
        notes.append("version_ambiguous")
    return whole(next(iter(named)), length) if len(named) == 1 else ()


def _messages(prompt: Raw) -> str | None:
    """The prompt, a text or a list of messages."""
    document = bytes(prompt)
    if document[:1] == b'"':
        return prompt_messages(msgspec.json.decode(document, type=str))
    try:
        return document.decode("utf-8") if document[:1] == b"[" else None
    except UnicodeDecodeError as error:
        raise LineError("bad_unicode", f"prompt: {error}; expected UTF-8: mend the writer") from error
