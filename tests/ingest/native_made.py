"""The toy trace in engines' own shapes, and what is read of a document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.call import Call
from ingest.faults import judge
from ingest.formats.detect import RecordReader, format_named
from ingest.meaning import Deployment, Interpreter
from ingest.outcome import Outcome
from schemas.errors import LineError
from tests.ingest.hand_made import G2, P2

PAYLOADS = Path(__file__).parent / "payloads"
RECORDED = Path(__file__).parent / "recorded"

LOGPROBS = [-0.3, -0.2, -0.01]
"""Log-probabilities of the payloads' reply G2."""

ENVELOPE = {"ts": "2026-11-22T08:00:00Z", "trace_id": "trace-a", "call_index": 1, "deployment": "toy"}


def payload(name: str) -> Any:
    """A payload of tests/ingest/payloads."""
    return json.loads((PAYLOADS / name).read_text("utf-8"))


def records(document: Any, only: str | None = None) -> tuple[Call | Outcome, ...]:
    """What one document holds."""
    return RecordReader(None if only is None else format_named(only))(json.dumps(document).encode())


def calls(document: Any, only: str | None = None) -> tuple[Call, ...]:
    """The calls of one document."""
    return tuple(record for record in records(document, only) if isinstance(record, Call))


def refusal(document: Any, only: str | None = None) -> str:
    """Why a document is refused."""
    with pytest.raises(LineError) as caught:
        records(document, only)
    return caught.value.reason


def wrappings(response: Any, request: Any) -> dict[str, Any]:
    """A response as it is, with its request, and in a gateway's envelope."""
    wrapped = {"request": request, "response": response}
    return {"bare": response, "wrapped": wrapped, "envelope": {**ENVELOPE, **wrapped}}


def ids(packed: bytes | None) -> list[int] | None:
    """Unpacked token ids."""
    return None if packed is None else np.frombuffer(packed, "<i4").tolist()


def numbers(packed: bytes | None) -> list[float] | None:
    """Unpacked log-probabilities, to the 6 digits that float32 keeps."""
    return None if packed is None else [float(f"{value:.6g}") for value in np.frombuffer(packed, "<f4").tolist()]


def sampled(call: Call) -> tuple[list[int] | None, list[float] | None]:
    """Ids and log-probabilities of a reply."""
    return ids(call.token_ids), numbers(call.token_logprobs)


def is_the_toy(call: Call) -> bool:
    """Whether a call is the second one of the toy trace."""
    return (ids(call.prompt_token_ids), *sampled(call)) == (P2, G2, LOGPROBS)


def faults(call: Call, **deployment: Any) -> tuple[str, ...]:
    """What is wrong with a call under a deployment that states what this log cannot."""
    settings = Deployment(policy_version="v7", generation_config="vllm", **deployment)
    call.deployment = "toy"
    return judge(call, Interpreter({"toy": settings})(call))
