"""The servers that answer in OpenAI's shapes, each a body of its own: told apart by content, read by one reader."""

from __future__ import annotations

from ingest.call import Call
from ingest.formats import completions, streams
from ingest.formats.body import Body, Wrapped
from ingest.formats.chat import Request, Response
from ingest.formats.format import Keys
from ingest.formats.servers import Server, Shape, claimed, claimed_chunk, server_of, shape_of

NAMES: dict[tuple[Shape, Server], str] = {
    ("chat", "vllm"): "vllm_chat",
    ("chat", "sglang"): "sglang_chat",
    ("chat", "fireworks"): "fireworks_chat",
    ("chat", "together"): "together_chat",
    ("chat", "tensorrt-llm"): "trtllm_chat",
    ("chat", "openai"): "openai_chat",
    ("completions", "vllm"): "vllm_completions",
    ("completions", "tensorrt-llm"): "trtllm_completions",
    ("completions", "sglang"): "openai_completions",
    ("completions", "fireworks"): "openai_completions",
    ("completions", "together"): "openai_completions",
    ("completions", "openai"): "openai_completions",
}
"""The format of each server's answers, special before general; completions that add little to OpenAI's go by its name.

What to send so that a server logs ids and log-probabilities: docs/formats.md.
"""


def dialect(name: str) -> Body:
    """The body of that name."""

    def claims(keys: Keys) -> bool:
        found = claimed(keys)
        return found is not None and NAMES[found] == name

    def claims_chunk(keys: Keys) -> bool:
        found = claimed_chunk(keys)
        return found is not None and NAMES[found] == name

    def calls(wrapped: Wrapped) -> tuple[Call, ...] | None:
        """One call a choice; None of another server's answer, or of one without `choices`.

        A stream goes by its own server's name whichever reads it: its first chunk, by which it is claimed, need not
        bear any mark.
        """
        response: Response = wrapped.response
        if response.choices is None:
            return None
        if not response.choices:
            return completions.read(wrapped, name)
        own = NAMES[shape_of(response), server_of(response)]
        return completions.read(wrapped, own) if own == name or wrapped.streamed else None

    return Body(
        name=name,
        request=Request,
        response=Response,
        claims=claims,
        calls=calls,
        chunk=Response,
        claims_chunk=claims_chunk,
        join=streams.join,
    )
