"""All servers' responses, for records of gateways that hold one of them inside."""

from __future__ import annotations

from msgspec import Raw

from ingest.formats import (
    anthropic_messages,
    llamacpp_completion,
    openai_responses,
    sglang_generate,
    tgi_generate,
    triton_generate,
)
from ingest.formats.body import BodyReader, Envelope
from ingest.formats.dialects import NAMES, dialect
from ingest.formats.format import Records

READERS = tuple(
    BodyReader(body)
    for body in (
        *(dialect(name) for name in dict.fromkeys(NAMES.values())),
        openai_responses.BODY,
        sglang_generate.BODY,
        tgi_generate.BODY,
        triton_generate.BODY,
        llamacpp_completion.BODY,
        anthropic_messages.BODY,
    )
)
"""Special before general: the first that claims a response reads it. Their decoders are built once, for all formats."""


def read_answer(envelope: Envelope, request: Raw | None, answer: Raw) -> Records | None:
    """The calls of some server's response, or list of chunks, inside a record; None when no body claims it.

    Raises LineError, and msgspec's errors, as the body's own format would.
    """
    for reader in READERS:
        if reader.claims_answer(answer):
            records = reader.answer(envelope, request, answer)
            if records is not None:
                return records
    return None
