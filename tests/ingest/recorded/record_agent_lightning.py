"""Record the events of Agent Lightning's own server: two calls through its proxy, one that failed, and rewards.

    python3.12 -m venv v && v/bin/pip install agentlightning==1.0.2 httpx
    v/bin/python record_agent_lightning.py

Recorded with agentlightning 1.0.2. It asks for Python 3.12; its server runs on 3.11 too, so the file was recorded there
with `pip install --no-deps --ignore-requires-python`. The proxy forwards to a stand-in for vLLM, and the events are
those that `GET /api/rollouts/.../events` returns, one a line.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
from agentlightning.server.app import create_app

PROMPT, FIRST = [1, 10, 301, 302, 13, 11], [201, 202, 203, 13]
SECOND = [401, 402, 13]
ANSWERS = [
    ([*PROMPT], FIRST, [-0.1, -0.7, -0.05, -0.02], "<call>lookup(41)</call>"),
    ([*PROMPT, *FIRST, 12, 304, 13, 11], SECOND, [-0.3, -0.2, -0.01], "Refunded."),
]
CONFIG = {"key": "", "default_proxy": {"model_name": "toy", "train": {"temperature": 1.0}, "val": {"temperature": 0.0}}}
CHAT = "/proxy/rollout/ro-41/attempt/at-1/mode/train/openai/v1/chat/completions"


def answer(request: httpx.Request) -> httpx.Response:
    """What vLLM answers: the two turns in order, then a refusal."""
    turn = sum(message["role"] == "assistant" for message in json.loads(request.content)["messages"])
    if turn >= len(ANSWERS):
        return httpx.Response(400, json={"error": {"message": "context too long", "code": 400}})
    prompt, ids, logprobs, text = ANSWERS[turn]
    content = [{"token": f"t{i}", "bytes": None, "logprob": v, "top_logprobs": []} for i, v in enumerate(logprobs)]
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "stop_reason": None,
        "token_ids": ids,
        "logprobs": {"content": content},
    }
    choice["message"] = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": len(prompt) + len(ids)}
    body = {"id": f"chatcmpl-{turn}", "object": "chat.completion", "created": 1_790_000_000, "model": "toy"}
    return httpx.Response(200, json={**body, "prompt_token_ids": prompt, "choices": [choice], "usage": usage})


async def record() -> list[dict[str, Any]]:
    """The events of one attempt."""
    app = create_app(CONFIG)
    async with app.router.lifespan_context(app):
        app.state.http_client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agl")
        await client.post("/api/models", json=[{"model": "toy", "endpoint": "http://vllm:8000/v1", "version": 7}])
        await client.post("/api/rollouts", json=[{"input": {"data_id": "41"}, "rollout_id": "ro-41"}])
        await client.patch("/api/rollouts/ro-41", json={"status": {"last_attempt_id": "at-1"}})
        messages = [{"role": "user", "content": "refund 41?"}]
        for _ in range(3):
            await client.post(CHAT, json={"messages": messages, "top_p": 1.0})
            messages += [{"role": "assistant", "content": "said"}, {"role": "tool", "content": "paid"}]
        for data in ({"value": 1.0, "source": "desk", "reason": "closed"}, {"value": 0.0, "source": "fallback"}):
            await client.post("/api/rollouts/ro-41/attempt/at-1/events", json={"event_type": "reward", "data": data})
        return (await client.get("/api/rollouts/ro-41/events")).json()


if __name__ == "__main__":
    lines = "".join(json.dumps(event) + "\n" for event in asyncio.run(record()))
    (Path(__file__).parent / "agent_lightning.events.jsonl").write_text(lines, "utf-8")
