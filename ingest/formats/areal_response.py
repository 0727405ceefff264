"""AReaL's model responses: tokens with the version that sampled each."""

from __future__ import annotations

from itertools import groupby

import msgspec

from ingest.call import Call, WeightSpan, pack_ids
from ingest.formats.body import Envelope, Wrapped
from ingest.formats.format import Format, Keys, Records
from ingest.formats.generation import packed
from ingest.formats.sizes import SmallInt, TokenId
from schemas.errors import LineError

NAME = "areal_response"


class Response(Envelope):
    """One response, with whatever names a logger put beside it."""

    input_tokens: list[TokenId] | None = None
    output_tokens: list[TokenId] | None = None
    output_logprobs: list[float | None] | None = None
    output_versions: list[SmallInt] | None = None
    stop_reason: str | None = None
    model: str | None = None


_RESPONSE = msgspec.json.Decoder(Response)


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is a response."""
    return "input_tokens" in keys and "output_tokens" in keys and "output_logprobs" in keys


def read(line: bytes) -> Records | None:
    """The call of one response; None when the line is of another format."""
    response = _RESPONSE.decode(line)
    if response.input_tokens is None or response.output_tokens is None:
        return None
    notes: list[str] = []
    call = Call(
        **Wrapped(envelope=response, request=None, response=None).shared(),
        model=response.model or "",
        log_format=NAME,
        prompt_token_ids=pack_ids(response.input_tokens or None),
        token_ids=pack_ids(response.output_tokens),
        token_logprobs=packed(response.output_logprobs, notes),
        weight_spans=_weights(response),
        finish_reason=response.stop_reason,
        notes=tuple(notes),
    )
    return (call,)


FORMAT = Format(NAME, claims, read)


def _weights(response: Response) -> tuple[WeightSpan, ...]:
    """Runs of one version; -1 is none."""
    versions = response.output_versions or []
    num_tokens = len(response.output_tokens or ())
    if versions and len(versions) != num_tokens:
        raise LineError("bad_field", f"{len(versions)} output_versions for {num_tokens} tokens; expected one a token")
    spans = []
    begin = 0
    for version, run in groupby(versions):
        end = begin + sum(1 for _ in run)
        if version >= 0:
            spans.append(WeightSpan(str(version), begin, end))
        begin = end
    return tuple(spans)
