"""Records of gateways and tracing systems made by hand, and the reading of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ingest.formats.detect import RecordReader
from ingest.formats.format import Records

HERE = Path(__file__).parent
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PROMPT, IDS, LOGPROBS = [1, 10, 301, 302, 13, 11], [201, 202, 203, 13], [-0.1, -0.7, -0.05, -0.02]
"""The toy call of the reference."""
ASKED = '[{"role":"user","content":"refund 41?"}]'
TOLD = '[{"role":"system","content":"You help."},{"role":"user","content":"refund 41?"}]'
CALLED = '[{"id":"call_1","type":"function","function":{"name":"lookup","arguments":"{\\"order\\":41}"}}]'


def payload(name: str) -> dict[str, Any]:
    """An example of the reference."""
    return json.loads((HERE / "payloads" / f"{name}.json").read_text())


def recorded(name: str) -> list[bytes]:
    """The lines that a real client wrote."""
    return (HERE / "recorded" / name).read_bytes().splitlines()


def read(document: Any) -> Records:
    """What a line with one document holds, by a reader that finds the format itself."""
    return RecordReader()(document if isinstance(document, bytes) else json.dumps(document).encode())


def ids(packed: bytes | None) -> list[int] | None:
    """Unpacked token ids."""
    return None if packed is None else np.frombuffer(packed, "<i4").tolist()


def numbers(packed: bytes | None) -> list[float] | None:
    """Unpacked log-probabilities, rounded to what the toy's have."""
    return None if packed is None else [round(float(value), 6) for value in np.frombuffer(packed, "<f4")]


def is_toy(call: Any) -> bool:
    """Whether a call has the toy call's prompt, tokens and log-probabilities."""
    sampled = (ids(call.prompt_token_ids), ids(call.token_ids), numbers(call.token_logprobs))
    return sampled == (PROMPT, IDS, LOGPROBS)


def valued(value: Any) -> dict[str, Any]:
    """A value as OTLP/JSON spells it."""
    kinds = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}
    if isinstance(value, list):
        return {"arrayValue": {"values": [valued(one) for one in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": attributes(value)}}
    return {kinds[type(value)]: str(value) if type(value) is int else value}


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Attributes as OTLP/JSON spells them."""
    return [{"key": key, "value": valued(value)} for key, value in values.items()]


def span(values: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """One span of OTLP/JSON with these attributes."""
    return {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": "chat",
        "startTimeUnixNano": "1790000000100000000",
        "endTimeUnixNano": "1790000000420000000",
        "attributes": attributes(values),
        "status": {},
        **changes,
    }


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    """A line of OTLP/JSON with these spans."""
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "toy",
    "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"refund 41?"}]}]',
    "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"Refunded."}]}]',
}
"""The attributes of a model call in the current conventions."""
