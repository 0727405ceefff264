"""What SGLang's `/generate` answers: only the fields that are used."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from ingest.formats.chat import WeightSpan as LoggedSpan
from ingest.formats.sizes import SmallInt, TokenId


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
