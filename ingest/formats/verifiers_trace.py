"""Traces of verifiers and prime-rl: a graph of messages, each with the tokens that it adds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ingest.call import Call, pack_ids, whole
from ingest.formats.body import refuse_nul, text_or_none
from ingest.formats.chat import NULL, Message, reply_of
from ingest.formats.exported import sampling_of
from ingest.formats.format import Format, Keys, Records
from ingest.formats.sizes import SmallInt
from ingest.formats.verifiers_graph import Node, path_to, refuse_too_large, reply_begin, spread_logprobs
from ingest.outcome import Outcome, outcome_from
from ingest.times import parse_time
from schemas.errors import LineError

NAME = "verifiers_trace"


class TimeSpan(Struct):
    """Seconds of the epoch; 0 where nothing was measured."""

    start: float | None = None
    end: float | None = None


class Usage(Struct):
    """The server's own counts."""

    prompt_tokens: SmallInt | None = None
    completion_tokens: SmallInt | None = None


class ModelCall(Struct):
    """One model call, and the node that holds its reply."""

    node: SmallInt | None = None
    model: str | None = None
    sampling: dict[str, Any] | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    time: TimeSpan | None = None


class Reward(Struct):
    """One named reward; the weight is what its task multiplies it with."""

    score: float | None = None
    weight: float = 1.0


class Task(Struct):
    """What was asked, by a stable name."""

    key: str | int | None = None
    hash: str | None = None


class Timing(Struct):
    """When the stages of the attempt ran."""

    start: float | None = None
    agent: TimeSpan | None = None
    scoring: TimeSpan | None = None


class Agent(Struct):
    """Who sampled; tokens of one that is not trainable are of another policy."""

    trainable: bool = True


class Trace(Struct):
    """One attempt."""

    id: str | int | None = None
    nodes: list[Node] | None = None
    calls: list[ModelCall] = []
    rewards: dict[str, Reward | None] = {}
    task: Task | str | None = None
    errors: list[Raw] = []
    ok: bool | None = None
    timing: Timing | None = None
    agent: Agent | str | None = None


class Env(Struct):
    """The environment that was run."""

    id: str | None = None
    name: str | None = None


class Policy(Struct):
    """The versions that were live while an episode was generated."""

    start: SmallInt
    end: SmallInt


class Work(Struct):
    """What an episode was for."""

    policy: Policy | None = None


class Run(Struct):
    """The run that an episode belongs to."""

    work: Work | None = None


class Record(Trace):
    """A line: one trace, or an episode with the traces of its agents."""

    traces: list[Trace] | None = None
    env: Env | None = None
    run: Run | None = None


_RECORD = msgspec.json.Decoder(Record)
_MESSAGE = msgspec.json.Decoder(Message)


def claims(keys: Keys) -> bool:
    """Whether a line with these keys is a trace or an episode."""
    if "traces" in keys:
        return "id" in keys and "env" in keys and "task" in keys
    return "nodes" in keys and "id" in keys and ("calls" in keys or "rewards" in keys)


def read(line: bytes) -> Records | None:
    """A call for each message that the model sampled, in order, and a score for each reward that was given."""
    record = _RECORD.decode(line)
    traces: list[Trace] = [record] if record.traces is None else record.traces
    if record.id is None or any(trace.id is None or trace.nodes is None for trace in traces):
        return None
    refuse_too_large(trace.nodes or [] for trace in traces)
    around: dict[str, Any] = {}
    if record.traces is not None:
        env = record.env or Env()
        around = {"session_id": str(record.id), "workload": env.name or env.id}
        refuse_nul(around)
    policy = record.run.work.policy if record.run is not None and record.run.work is not None else None
    return tuple(one for trace in traces for one in _records(trace, around, policy))


FORMAT = Format(NAME, claims, read)


def _records(trace: Trace, around: dict[str, Any], policy: Policy | None) -> Records:
    """The calls and scores of one trace."""
    nodes = trace.nodes or []
    refuse_nul({"id": str(trace.id), "task": _ask_id(trace)})
    notes = ("attempt_failed",) if trace.errors or trace.ok is False else ()
    by_node = {call.node: call for call in trace.calls if call.node is not None}
    sampled = [place for place, node in enumerate(nodes) if node.sampled]
    calls = tuple(
        _call(trace, place, by_node.get(place, ModelCall()), {**around, "call_index": index, "notes": notes})
        for index, place in enumerate(sampled)
    )
    if policy is not None and not (isinstance(trace.agent, Agent) and not trace.agent.trainable):
        for call in calls:
            _set_version(call, policy)
    return (*calls, *_scores(trace))


def _set_version(call: Call, policy: Policy) -> None:
    """The one version that was live; of several, nothing says which sampled which token."""
    if policy.start == policy.end:
        call.weight_spans = whole(policy.start, len(call.token_ids or b"") // 4)
    else:
        call.notes = (*call.notes, "version_ambiguous")


def _call(trace: Trace, place: int, told: ModelCall, shared: dict[str, Any]) -> Call:
    nodes = trace.nodes or []
    node = nodes[place]
    path = path_to(nodes, place)
    begin = reply_begin(node, place)
    sampling, notes = sampling_of(told.sampling or {})
    refuse_nul({"model": told.model})
    has_tokens = bool(node.token_ids)
    logprobs, found = spread_logprobs(node, begin) if has_tokens else (None, ())
    usage = told.usage or Usage()
    prompt = [one for parent in path for one in parent.token_ids] + node.token_ids[:begin]
    started_at, ended_at = _times(told, node)
    notes = (*shared.pop("notes"), *notes, *found)
    return Call(
        **shared,
        trace_id=str(trace.id),
        ask_id=_ask_id(trace),
        model=told.model or "",
        log_format=NAME,
        started_at=started_at,
        ended_at=ended_at,
        prompt_token_ids=pack_ids(prompt) if has_tokens and prompt else None,
        token_ids=pack_ids(node.token_ids[begin:]) if has_tokens else None,
        token_logprobs=logprobs,
        masked_positions=tuple(at for at, is_sampled in enumerate(node.mask[begin:]) if not is_sampled),
        sampling=sampling,
        finish_reason=told.finish_reason,
        num_prompt_tokens=usage.prompt_tokens,
        num_completion_tokens=usage.completion_tokens,
        messages_json="[" + ",".join(_text(parent.message) for parent in path) + "]",
        reply_text=reply_of(_MESSAGE.decode(node.message)) if node.message != NULL else None,
        notes=notes,
    )


def _times(told: ModelCall, node: Node) -> tuple[datetime | None, datetime | None]:
    """When the call ran; else when its reply was put into the graph, which is its end."""
    span = told.time or TimeSpan()
    started_at = parse_time(span.start, "time.start") if span.start else None
    ended = span.end or node.timestamp
    return started_at, parse_time(ended, "time.end") if ended else None


def _scored_at(trace: Trace) -> float | None:
    """When the attempt was scored; else when it was last heard of."""
    timing = trace.timing or Timing()
    for span in (timing.scoring, timing.agent):
        if span is not None and span.end:
            return span.end
    stamps = [node.timestamp for node in trace.nodes or () if node.timestamp]
    return max(stamps, default=None) or timing.start or None


def _scores(trace: Trace) -> tuple[Outcome, ...]:
    """One score a named reward, before its weight: the rule that makes a reward of them weighs them."""
    shared = {
        "trace_id": str(trace.id),
        "source_kind": "program",
        "source": "verifiers",
        "event_time": _scored_at(trace),
    }
    return tuple(
        outcome_from(
            {
                **shared,
                "name": name,
                "value": reward.score,
                "label": None if reward.weight == 1.0 else f"weight {reward.weight:g}",
            },
            needs_time=False,
        )
        for name, reward in trace.rewards.items()
        if reward is not None and reward.score is not None
    )


def _ask_id(trace: Trace) -> str | None:
    """The stable name of what was asked; a task that is only a text names none."""
    if not isinstance(trace.task, Task):
        return None
    return text_or_none(trace.task.key) or trace.task.hash


def _text(message: Raw) -> str:
    """A message as it stands in the line."""
    try:
        return bytes(message).decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineError("bad_unicode", f"a message: {error}; expected UTF-8: mend the writer") from error
