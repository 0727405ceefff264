"""Ids and log-probabilities that servers and gateways put beside the fields of OpenAI's choices."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from msgspec import Raw, UnsetType

from ingest.formats.chat import NULL, Choice, ProviderFields, RawOutput, Response, SglExt
from ingest.formats.sglang_answers import MetaInfo

_PROVIDER_FIELDS = msgspec.json.Decoder(ProviderFields | None)
_META_INFO = msgspec.json.Decoder(MetaInfo | None)
_SGLEXT = msgspec.json.Decoder(SglExt | None)
_RAW_OUTPUT = msgspec.json.Decoder(RawOutput | None)


@dataclass(slots=True)
class Extras:
    """What stands beside the fields of a choice, in the order of trust."""

    ids: list[list[int]] = field(default_factory=list)
    prompt_ids: list[list[int]] = field(default_factory=list)
    logprobs: list[float | None] | None = None
    sampling_logprobs: list[float | None] | None = None
    stop_reason: str | int | None = None
    meta: MetaInfo | None = None


_NONE = Extras()


def extras_of(choice: Choice, response: Response | None) -> Extras:
    """All extras of a choice; `response` only where it has no other choice, for then its own extras are the choice's.

    LiteLLM moves fields into `provider_specific_fields` of the choice or of its message; SGLang adds `meta_info` and
    `sglext`; Fireworks `raw_output`.
    """
    moved = [choice.provider_specific_fields]
    if choice.message is not None:
        moved.append(choice.message.provider_specific_fields)
    extensions = [choice.sglext] if response is None else [choice.sglext, response.sglext]
    if not any(_is_there(raw) for raw in (*moved, *extensions, choice.meta_info, choice.raw_output)):
        return _NONE
    found = Extras()
    for raw in moved:
        _add_moved(found, raw)
    output = _RAW_OUTPUT.decode(choice.raw_output or NULL)
    if output is not None:
        _add(found, output.completion_token_ids, output.prompt_token_ids)
    _add_meta(found, _META_INFO.decode(choice.meta_info or NULL))
    for told in extensions:
        extension = _SGLEXT.decode(told or NULL)
        if extension is not None:
            _add(found, extension.output_ids, extension.input_ids)
    return found


def _is_there(raw: Raw | UnsetType) -> bool:
    return isinstance(raw, Raw) and bytes(raw) != b"null"


def _add(found: Extras, ids: list[int] | None, prompt_ids: list[int] | None) -> None:
    if ids is not None:
        found.ids.append(ids)
    if prompt_ids:
        found.prompt_ids.append(prompt_ids)


def _add_moved(found: Extras, raw: Raw) -> None:
    fields = _PROVIDER_FIELDS.decode(raw)
    if fields is not None:
        _add(found, fields.token_ids, fields.prompt_token_ids)
        found.stop_reason = found.stop_reason if found.stop_reason is not None else fields.stop_reason


def _add_meta(found: Extras, meta: MetaInfo | None) -> None:
    found.meta = meta
    triples = meta.output_token_logprobs if meta is not None else None
    if meta is not None and triples is not None:
        _add(found, [triple.token_id for triple in triples], None)
        found.logprobs = [triple.logprob for triple in triples]
        found.sampling_logprobs = meta.output_token_sampling_logprobs


def moved_ids(piece: Choice) -> list[int] | None:
    """The ids of one chunk that LiteLLM moved aside; None where there are none."""
    moved = [piece.provider_specific_fields]
    if piece.delta is not None:
        moved.append(piece.delta.provider_specific_fields)
    found = [_PROVIDER_FIELDS.decode(raw) for raw in moved if _is_there(raw)]
    return next((one.token_ids for one in found if one is not None and one.token_ids is not None), None)
