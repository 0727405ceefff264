"""All servers' responses, for records of gateways that hold one of them inside."""

from __future__ import annotations

from msgspec import Raw

from ingest.formats import (
    anthropic_messages,
    fireworks_chat,
    llamacpp_completion,
    openai_chat,
    openai_completions,
    openai_responses,
    sglang_chat,
    sglang_generate,
    tgi_generate,
    together_chat,
    triton_generate,
    trtllm_chat,
    trtllm_completions,
    vllm_chat,
    vllm_completions,
)
from ingest.formats.body import Body, BodyReader, Envelope
from ingest.formats.format import Records

BODIES: tuple[Body, ...] = (
    vllm_chat.BODY,
    sglang_chat.BODY,
    fireworks_chat.BODY,
    together_chat.BODY,
    trtllm_chat.BODY,
    openai_chat.BODY,
    vllm_completions.BODY,
    trtllm_completions.BODY,
    openai_completions.BODY,
    openai_responses.BODY,
    sglang_generate.BODY,
    tgi_generate.BODY,
    triton_generate.BODY,
    llamacpp_completion.BODY,
    anthropic_messages.BODY,
)
"""Special before general: the first that claims a response reads it."""

_READERS = tuple(BodyReader(body) for body in BODIES)


def read_answer(envelope: Envelope, request: Raw | None, answer: Raw) -> Records | None:
    """The calls of some server's response, or list of chunks, inside a record; None when no body claims it.

    Raises LineError, and msgspec's errors, as the body's own format would.
    """
    for reader in _READERS:
        if reader.claims_answer(answer):
            records = reader.answer(envelope, request, answer)
            if records is not None:
                return records
    return None
