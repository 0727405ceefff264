"""Log lines made by hand: the toy trace of two calls with a tool result between.

Prompt P1 is answered by G1, scaffold S1 follows, and G2 answers P1 + G1 + S1.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.meaning import Deployment

EXAMPLE = Path(__file__).parents[2] / "examples" / "refund_desk"
NOW = datetime(2026, 11, 29, tzinfo=UTC)
START = datetime(2026, 11, 22, 8, tzinfo=UTC)

P1 = [1, 10, 301, 302, 13, 11]
G1, L1 = [201, 202, 203, 13], [-0.5, -0.75, -0.0625, -0.03125]
S1 = [12, 304, 13, 11]
G2, L2 = [401, 402, 13], [-0.25, -0.125, -0.015625]
P2 = P1 + G1 + S1

DEPLOYMENTS = {
    "toy": Deployment(
        logprobs_mode="processed_logprobs", generation_config="vllm", version_pattern="@(v[0-9]+)$", vocabulary_size=500
    ),
    "refund-desk-cpu": Deployment(
        logprobs_mode="processed_logprobs",
        generation_config="vllm",
        version_pattern="@(v[0-9]+)$",
        vocabulary_size=49152,
    ),
}


def entries(logprobs: list[Any], tokens: list[str] | None = None) -> list[dict[str, Any]]:
    """Entries of `logprobs.content`."""
    names = tokens or [f"t{i}" for i in range(len(logprobs))]
    return [{"token": n, "logprob": v, "bytes": None, "top_logprobs": []} for n, v in zip(names, logprobs, strict=True)]


def response(
    prompt: list[int] | None, ids: list[int] | None, logprobs: list[Any] | None, **changes: Any
) -> dict[str, Any]:
    """A vLLM chat response with one choice; `changes` go to the choice."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": changes.pop("text", "done")},
        "logprobs": None if logprobs is None else {"content": entries(logprobs)},
        "finish_reason": "stop",
        "stop_reason": None,
        "token_ids": ids,
        **changes,
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_795_420_800,
        "model": "toy@v7",
        "choices": [choice],
        "system_fingerprint": "vllm-0.32.0-abc",
        "usage": {"prompt_tokens": len(prompt or []), "completion_tokens": len(ids or logprobs or [])},
        "prompt_token_ids": prompt,
    }


def envelope(answer: dict[str, Any] | list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """The gateway's envelope around a response or the chunks of one."""
    call = changes.get("call_index", 0) or 0
    request = {
        "model": "toy@v7",
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "messages": [{"role": "system", "content": "You help."}, {"role": "user", "content": "refund 41?"}],
        **changes.pop("request", {}),
    }
    return {
        "ts": (START + timedelta(seconds=call)).isoformat(),
        "trace_id": "trace-a",
        "call_index": 0,
        "ask_id": "ask-41",
        "session_id": "s-1",
        "user": "user-1@example.com",
        "workload": "refunds",
        "deployment": "toy",
        "request": request,
        ("chunks" if isinstance(answer, list) else "response"): answer,
        **changes,
    }


def line(document: dict[str, Any]) -> bytes:
    """One log line, without its newline."""
    return json.dumps(document, separators=(",", ":")).encode()


def first_call(**changes: Any) -> bytes:
    """The line of the toy's first call."""
    return line(envelope(response(P1, G1, L1), **changes))


def second_call(**changes: Any) -> bytes:
    """The line of the toy's second call."""
    return line(envelope({**response(P2, G2, L2), "id": "chatcmpl-2"}, call_index=1, **changes))


def write(path: Path, *lines: bytes, end: bytes = b"\n") -> str:
    """A log file of these lines."""
    path.write_bytes(b"\n".join(lines) + end)
    return str(path)
