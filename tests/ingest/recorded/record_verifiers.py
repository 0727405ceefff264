"""Record a trace as verifiers builds and writes it, alone and in its episode: two turns, a tool result, one reward and one unscored.

    python -m venv v && v/bin/pip install verifiers==0.4.0
    v/bin/python record_verifiers.py

Recorded with verifiers 0.4.0. The turns are committed to the graph by its own code, which decides which node each
token belongs to; the second log-probability of the last turn is so close to 0 that the record rounds it to 0.0.
"""

from __future__ import annotations

import json
from pathlib import Path

from verifiers.v1 import graph
from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.episode import EnvInfo, PolicySpan, TrainRunInfo, TrainWorkInfo, WireEpisode
from verifiers.v1.task import WireTaskData
from verifiers.v1.trace import AgentInfo, ModelCall, TimeSpan, Trace, TraceTask, WireTrace
from verifiers.v1.types import (
    AssistantMessage,
    Message,
    Response,
    SamplingConfig,
    ToolCall,
    ToolMessage,
    TurnTokens,
    Usage,
    UserMessage,
)

HERE = Path(__file__).parent
START = 1_790_000_000.0
PROMPT, FIRST = [1, 10, 301, 302, 13, 11], [201, 202, 203, 13]
SECOND_PROMPT = [*PROMPT, *FIRST, 12, 304, 13, 11]
SECOND = [401, 402, 13]


def turn(trace: Trace, prompt: list[Message], reply: AssistantMessage, tokens: TurnTokens, started_at: float) -> None:
    """Commit one turn, with the record of its call."""
    usage = Usage(prompt_tokens=len(tokens.prompt_ids), completion_tokens=len(tokens.completion_ids))
    reason = "tool_calls" if reply.tool_calls else "stop"
    response = Response(
        id=f"r-{started_at}", created=int(started_at), model="toy@v7", message=reply, finish_reason=reason,
        usage=usage, tokens=tokens,
    )  # fmt: skip
    node = graph.prepare_turn(trace, prompt).commit(response)
    trace.nodes[node].timestamp = started_at + 1.5
    sampling = SamplingConfig(temperature=1.0, top_p=1.0, top_k=-1, min_p=0.0)
    span = TimeSpan(start=started_at, end=started_at + 1.0)
    call = ModelCall(
        node=node, model="toy@v7", sampling=sampling, finish_reason=reason, usage=usage, time=span,
        endpoint="/chat/completions",
    )  # fmt: skip
    trace.calls.append(call)


def main() -> None:
    """Write one trace, and the episode that holds it."""
    task = TraceTask(type="RefundTask", data=WireTaskData(prompt="refund 41?"), key="ask-41")
    trace = WireTrace(id="tr-41", task=task, agent=AgentInfo(config=WireAgentConfig(model="toy@v7"), name="refund"))
    trace.timing.start = START
    asked = UserMessage(content="refund 41?")
    called = AssistantMessage(tool_calls=[ToolCall(id="call_1", name="lookup", arguments='{"order":41}')])
    turn(
        trace, [asked], called,
        TurnTokens(prompt_ids=PROMPT, completion_ids=FIRST, completion_logprobs=[-0.1, -0.7, -0.05, -0.02],
                   message_spans=[(0, 5)]),
        START,
    )  # fmt: skip
    found = ToolMessage(tool_call_id="call_1", content="paid")
    turn(
        trace, [asked, called, found], AssistantMessage(content="Refunded."),
        TurnTokens(prompt_ids=SECOND_PROMPT, completion_ids=SECOND, completion_logprobs=[-0.3, -0.00001, -0.01],
                   message_spans=[(0, 5), (5, 10), (10, 13)]),
        START + 5,
    )  # fmt: skip
    trace.record_reward("ticket", 1.0, weight=0.5)
    trace.rewards["style"] = None
    trace.record_metric("num_lookups", 1)
    trace.timing.scoring = TimeSpan(start=START + 8, end=START + 9)
    trace.ok = True
    trace.stop("done")
    record = json.dumps(trace.to_record()) + "\n"
    (HERE / "verifiers.traces.jsonl").write_text(record, "utf-8")
    policy = PolicySpan(start=7, end=7)
    episode = WireEpisode(
        id="ep-41", env=EnvInfo(id="refunds", name="refund-desk"), task=task, traces=[trace], ok=True,
        run=TrainRunInfo(id="run-1", work=TrainWorkInfo(step=7, policy=policy)),
    )  # fmt: skip
    (HERE / "verifiers.episodes.jsonl").write_text(json.dumps(episode.to_record()) + "\n", "utf-8")


if __name__ == "__main__":
    main()
