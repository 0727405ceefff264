"""Record the spans of Agent Lightning before version 1: one call through its tracer, and a reward of two dimensions.

    python -m venv v && v/bin/pip install agentlightning==0.3.0
    v/bin/python record_agent_lightning_span.py

Recorded with agentlightning 0.3.0, agentops 0.4.21 and its own store in memory; the server is a stand-in for vLLM.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import agentlightning as agl
from fake_openai import MESSAGES, serving
from openai import OpenAI


async def record(address: str) -> list[agl.Span]:
    """The spans of one attempt."""
    store = agl.InMemoryLightningStore()
    rollout = await store.start_rollout(input={"ask": "41"})
    tracer = agl.AgentOpsTracer()
    tracer.init()
    tracer.init_worker(0)
    rollout_id, attempt_id = rollout.rollout_id, rollout.attempt.attempt_id
    async with tracer.trace_context("agent", store=store, rollout_id=rollout_id, attempt_id=attempt_id):
        create = OpenAI(base_url=address, api_key="none").chat.completions.create
        create(model="toy@v7", messages=MESSAGES, temperature=1.0, top_p=1.0, logprobs=True)
        agl.emit_reward({"ticket": 1.0, "style": 0.25}, primary_key="ticket")
    spans = await store.query_spans(rollout_id, attempt_id)
    tracer.teardown_worker(0)
    tracer.teardown()
    return list(spans)


if __name__ == "__main__":
    with serving() as served:
        lines = "".join(span.model_dump_json() + "\n" for span in asyncio.run(record(served)))
    (Path(__file__).parent / "agent_lightning.spans.jsonl").write_text(lines, "utf-8")
