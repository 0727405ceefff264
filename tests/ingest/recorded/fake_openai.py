"""A server on the loopback interface that answers as a vLLM would: for the scripts that record real clients.

It gives the toy call: prompt [1, 10, 301, 302, 13, 11], reply [201, 202, 203, 13], a call of the tool `lookup`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

IDS = [201, 202, 203, 13]
LOGPROBS = [-0.1, -0.7, -0.05, -0.02]
TEXTS = ["<call>", "lookup(41)", "</call>", "<|end|>"]
MESSAGES = [{"role": "system", "content": "You help."}, {"role": "user", "content": "refund 41?"}]
TOOLS = [{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object", "properties": {}}}}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": '{"order":41}'}}


def whole() -> dict[str, Any]:
    """The toy call's response."""
    entries = [
        {"token": text, "bytes": None, "logprob": number, "top_logprobs": []}
        for text, number in zip(TEXTS, LOGPROBS, strict=True)
    ]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
        "logprobs": {"content": entries},
        "finish_reason": "tool_calls",
        "stop_reason": None,
        "token_ids": IDS,
    }
    return {
        "id": "chatcmpl-ask-41-a1-c1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "toy@v7",
        "choices": [choice],
        "system_fingerprint": "vllm-0.33.0-toy",
        "usage": {"prompt_tokens": 6, "completion_tokens": 4, "total_tokens": 10},
        "prompt_token_ids": [1, 10, 301, 302, 13, 11],
    }


def chunks() -> list[dict[str, Any]]:
    """A reply in text, as a stream: one token a chunk."""
    head = {"id": "chatcmpl-ask-41-a1-c2", "object": "chat.completion.chunk", "created": 1_790_000_001}
    head |= {"model": "toy@v7"}
    told: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}], "prompt_token_ids": [1, 10]}
    ]
    for text, number, name in (("Refund", -0.3, 401), ("ed.", -0.2, 402)):
        entry = {"token": text, "bytes": None, "logprob": number, "top_logprobs": []}
        choice = {"index": 0, "delta": {"content": text}, "logprobs": {"content": [entry]}, "token_ids": [name]}
        told.append({**head, "choices": [choice]})
    told.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return told


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked.get("stream"):
            body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks()) + "data: [DONE]\n\n"
            kind = "text/event-stream"
        else:
            body, kind = json.dumps(whole()), "application/json"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""


@contextmanager
def serving() -> Iterator[str]:
    """The address of the server, for as long as the block runs."""
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
