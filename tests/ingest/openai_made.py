"""Responses of OpenAI's family made by hand, and the toy trace's two calls in plain numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ingest.call import Call
from ingest.faults import judge
from ingest.formats.detect import RecordReader
from ingest.meaning import Interpreter
from tests.ingest.hand_made import envelope

PAYLOADS = Path(__file__).parent / "payloads"

P1, G1, L1 = [1, 10, 301, 302, 13, 11], [201, 202, 203, 13], [-0.1, -0.7, -0.05, -0.02]
G2, L2 = [401, 402, 13], [-0.3, -0.2, -0.01]
P2 = [*P1, *G1, 12, 304, 13, 11]
TEXTS = ["Refund", "ed.", "<|end|>"]


def payload(name: str) -> Any:
    """An example payload."""
    return json.loads((PAYLOADS / f"{name}.json").read_text("utf-8"))


def read(document: Any) -> tuple[Call, ...]:
    """The calls of one document."""
    return RecordReader()(json.dumps(document).encode())


def read_one(document: Any) -> Call:
    """The only call of one document."""
    (call,) = read(document)
    return call


def wrappings(document: Any) -> tuple[Any, ...]:
    """The document bare, beside its request, and in the gateway's envelope."""
    place = "chunks" if isinstance(document, list) else "response"
    return (document, {"request": {"model": "toy"}, place: document}, envelope(document))


def ids(packed: bytes | None) -> list[int] | None:
    """Unpacked token ids; None where there are none."""
    return None if packed is None else np.frombuffer(packed, "<i4").tolist()


def numbers(packed: bytes | None) -> list[float] | None:
    """Unpacked log-probabilities, to four places: they were packed as float32."""
    return None if packed is None else [round(value, 4) for value in np.frombuffer(packed, "<f4").tolist()]


def codes(call: Call) -> set[str]:
    """All codes of a call under settings that state nothing."""
    return set(judge(call, Interpreter({})(call)))


def entries(logprobs: list[float | None], texts: list[str], **more: list[Any]) -> list[dict[str, Any]]:
    """Entries of `logprobs.content`; `more` holds further fields, one value an entry."""
    return [
        {"token": text, "logprob": logprob, **{name: values[place] for name, values in more.items()}}
        for place, (text, logprob) in enumerate(zip(texts, logprobs, strict=True))
    ]


def chat(**choice: Any) -> dict[str, Any]:
    """A chat response with one choice that has the toy's second answer as text; `head` goes to the response."""
    head = choice.pop("head", {})
    message = {"role": "assistant", "content": "Refunded.", **choice.pop("message", {})}
    usage = {"prompt_tokens": 14, "completion_tokens": 3}
    choices = [{"index": 0, "finish_reason": "stop", "message": message, **choice}]
    return {"id": "r-1", "object": "chat.completion", "created": 1790000000, "model": "toy", "choices": choices,
            "usage": usage, **head}  # fmt: skip


def completion(text: str = "Refunded.", logprobs: dict[str, Any] | None = None, **choice: Any) -> dict[str, Any]:
    """A completions response with one choice; `head` goes to the response."""
    head = choice.pop("head", {})
    choices = [{"index": 0, "text": text, "finish_reason": "stop", "logprobs": logprobs, **choice}]
    return {"id": "c-1", "object": "text_completion", "created": 1790000000, "model": "toy", "choices": choices,
            "usage": {"prompt_tokens": 14, "completion_tokens": 3}, **head}  # fmt: skip


def arrays(logprobs: list[float | None], texts: list[str], **more: Any) -> dict[str, Any]:
    """The parallel arrays of completions."""
    return {"tokens": texts, "token_logprobs": logprobs, **more}
