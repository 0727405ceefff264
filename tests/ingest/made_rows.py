"""Rows of `calls` made by hand, and the trace rows that they become: no file and no lake in between."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from ingest.meaning import Deployment
from ingest.meant import CallRow
from ingest.settings import LogSettings
from ingest.trace_rows import Trace, TraceBuilder
from tests.ingest.hand_made import DEPLOYMENTS, NOW, START

NEUTRAL_SAMPLING = '{"temperature":1.0,"top_k":-1,"top_p":1.0}'


def packed(values: Sequence[int] | None) -> bytes | None:
    """Packed ids."""
    return None if values is None else struct.pack(f"<{len(values)}i", *values)


def numbers(values: Sequence[float] | None) -> bytes | None:
    """Packed log-probabilities."""
    return None if values is None else struct.pack(f"<{len(values)}f", *values)


def told(*messages: tuple[str, str]) -> str:
    """Messages of a request, as (role, text)."""
    return json.dumps([{"role": role, "content": text} for role, text in messages])


def call_row(
    name: str,
    prompt: list[int] | None,
    ids: list[int] | None,
    logprobs: list[float] | None = None,
    at: int = 0,
    **values: Any,
) -> CallRow:
    """One call that began `at` seconds after the start; every log-probability -0.5 where none are given."""
    if logprobs is None and ids is not None:
        logprobs = [-0.5] * len(ids)
    row = {
        "call_id": name,
        "trace_id": "trace-a",
        "call_index": at,
        "response_id": f"r-{name}",
        "ask_id": "ask-41",
        "session_id": None,
        "user_hash": None,
        "workload": None,
        "logged_deployment": "toy",
        "landed_as": None,
        "landed_version": None,
        "model": "toy@v7",
        "engine": "vllm",
        "choice_index": 0,
        "num_choices": 1,
        "top_token_ids": None,
        "top_token_logprobs": None,
        "sampling_json": NEUTRAL_SAMPLING,
        "version_spans": None,
        "masked_positions": None,
        "num_prompt_tokens": None,
        "finish_reason": "stop",
        "messages_json": told(("system", "You help."), ("user", "refund 41?")),
        "reply_text": None,
        "started_at": START + timedelta(seconds=at),
        "ended_at": None,
        "notes": [],
    }
    return CallRow({**row, **values}, packed(prompt), packed(ids), numbers(logprobs))


def built(*calls: CallRow, deployments: Mapping[str, Deployment] = DEPLOYMENTS) -> Trace:
    """The trace that the calls form."""
    return TraceBuilder(deployments, LogSettings(), NOW).build("trace-a", 0, calls)


def toy(**changes: Any) -> dict[str, Deployment]:
    """The toy's deployment, changed."""
    return {"toy": DEPLOYMENTS["toy"].model_copy(update=changes)}


def masks(trace: Trace) -> list[str]:
    """The action mask of each sequence, T on action tokens."""
    return ["".join("T" if on else "F" for on in row["action_mask"]) for row in trace.rows]


def kinds(trace: Trace) -> list[str]:
    """The kind of each sequence."""
    return [row["branch_kind"] for row in trace.rows]
