"""A small night as everybody would log it, the ways to write it down, and what a lake says of it."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import zstandard

from ingest.assemble import assemble
from ingest.land import land_calls
from ingest.report import LandReport
from ingest.settings import LogSettings
from tests.ingest import tracing_made
from tests.ingest.hand_made import DEPLOYMENTS, G1, G2, L2, NOW, P1, P2, S1, START, entries, envelope, line, response
from tests.ingest.score_examples import LANGFUSE, PLAIN
from warehouse.lake import Lake

_PROVENANCE = ["uri", "byte_offset", "line_sha256", "ingested_at"]


def _chat(name: str, prompt: list[int] | None, ids: list[int] | None, at: int, **changes: Any) -> bytes:
    """A vLLM chat response in an envelope, of the trace `chat`."""
    logprobs = changes.pop("logprobs", [-0.5] * len(ids or ()))
    answer = {**response(prompt, ids, logprobs), "id": name}
    return line(envelope(answer, call_index=at, **{"trace_id": "chat", **changes}))


def _own(at: int, prompt: list[int], ids: list[int], **changes: Any) -> bytes:
    """A line of tracemill's own, of the trace `own`."""
    document = {
        "trace_id": "own",
        "call_index": at,
        "response_id": f"own-{at}",
        "ask_id": "ask-own",
        "model": "toy@v7",
        "policy_version": "v7",
        "started_at": (START + timedelta(seconds=at)).isoformat(),
        "prompt_token_ids": prompt,
        "token_ids": ids,
        "token_logprobs": [-0.25] * len(ids),
        "logprob_kind": "processed",
        "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
        "user": "user-2@example.com",
        "messages": [{"role": "user", "content": "refund 42?"}],
        "reply_text": "Refunded.",
        **changes,
    }
    return line(document)


def _agl(name: str, at: int, **attributes: Any) -> bytes:
    """A span of Agent Lightning, of one rollout."""
    return line(
        {
            "rollout_id": "ro-41",
            "attempt_id": "at-1",
            "sequence_id": at,
            "trace_id": tracing_made.TRACE,
            "span_id": f"b7ad6b716920333{at}",
            "parent_id": None,
            "name": name,
            "status": {"status_code": "OK", "description": None},
            "attributes": {key.replace("__", "."): value for key, value in attributes.items()},
            "events": [],
            "links": [],
            "start_time": 1_790_000_000.25 + at,
            "end_time": 1_790_000_001.5 + at,
            "context": None,
            "parent": None,
            "resource": {"attributes": {}, "schema_url": ""},
        }
    )


def _two_choices() -> bytes:
    answer = {**response(P1, [5], [-0.5]), "id": "two"}
    answer["choices"].append({**answer["choices"][0], "index": 1, "token_ids": [6]})
    return line(envelope(answer, trace_id="choices"))


def _cut_stream() -> bytes:
    delta = {"index": 0, "delta": {"content": "x"}, "token_ids": [70], "logprobs": {"content": entries([-1])}}
    chunk = {"id": "cut", "created": 1, "model": "toy@v7", "prompt_token_ids": [*P2, *G2, 12], "choices": [delta]}
    return line(envelope([chunk], call_index=5, trace_id="chat"))


def _pair(at: int, prompt: list[int], ids: list[int]) -> bytes:
    content = json.dumps([{"token": f"t{place}", "logprob": -0.5, "top_logprobs": []} for place in range(len(ids))])
    return _agl(
        "openai.chat.completion",
        at,
        prompt_token_ids=prompt,
        response_token_ids=ids,
        logprobs__content=content,
        gen_ai__response__id=f"pair-{at}",
        gen_ai__response__model="toy@v7",
        gen_ai__request__temperature=1.0,
        gen_ai__prompt__0__role="user",
        gen_ai__prompt__0__content="refund 41?",
    )


CALLS: tuple[bytes, ...] = (
    _chat("a", P1, G1, 0),
    _chat("a", P1, G1, 0, logprobs=[-0.5, -0.5, -0.5, -4.0]),
    _chat("a", P1, None, 0, logprobs=None),
    _chat("b", P2, G2, 1, logprobs=L2),
    _chat("retry", P2, [401, 13], 2),
    _chat("fork", [2, *P2], G2, 3),
    _chat("bare", None, [80], 4),
    _cut_stream(),
    _chat("on", [*P2, *G2, 12, 70, 11], [71], 6),
    _chat("late", [*P2, *G2, *S1], [72, 13], 7, session_id=None),
    _two_choices(),
    _own(0, P1, G1),
    _own(1, P2, G2, masked_positions=[1], version_spans=[{"policy_version": "v7", "start": 0, "end": 2}]),
    _own(1, P2, G2, response_id="own-1b", token_logprobs=None),
    _own(0, [3], [4, 5], trace_id="alone", user=None, ask_id=None, response_id=None, policy_version=None),
    line(tracing_made.otlp(tracing_made.span(tracing_made.CHAT))),
    _pair(1, P1, G1),
    _pair(3, P2, G2),
)
"""Lines with calls of five traces and a tracing span: retries, forks, copies, choices, a cut stream, a masked token."""

SCORES: tuple[bytes, ...] = (
    line(PLAIN),
    line({**PLAIN, "event_id": "e2", "value": 0, "event_time": "2026-11-23T09:00:00Z"}),
    line({**PLAIN, "event_id": "e3", "trace_id": "chat", "value": None, "event_time": "2026-11-24T09:00:00Z"}),
    line({**PLAIN, "event_id": None, "trace_id": "own", "value": 0.25}),
)
"""Lines with one score each, which a CSV file can hold too."""

FOREIGN: tuple[bytes, ...] = (
    line(LANGFUSE),
    _agl("agentlightning.annotation", 2, agentlightning__reward__0__value=0.5, agentlightning__reward__1__value=0.25),
)
"""Lines with scores of other systems; the last holds two."""

BLANK: tuple[bytes, ...] = (_agl("agent.run", 0, agent__name="refund"),)
"""A known record that holds neither call nor score."""

STRANGE: tuple[bytes, ...] = (b'{"a":1}', b'{"trace_id":"own","model":"toy","token_ids":["1"],"token_logprobs":[-1]}')
"""JSON that is no call and no score."""

BROKEN: tuple[bytes, ...] = (b"upstream connect error", b'{"a":\xff}', CALLS[0][:200], b"{}{}")
"""Lines that are no JSON."""

NIGHT = (*CALLS, *SCORES, *FOREIGN, *BLANK, *STRANGE, *BROKEN)
LANDING = {*CALLS, *SCORES, *FOREIGN}
REJECTED = {*STRANGE, *BROKEN}

_COLUMNS = tuple(PLAIN)
HEADER = ",".join(_COLUMNS).encode()


def csv_row(score: bytes) -> bytes:
    """A score of SCORES as a row under HEADER."""
    told = json.loads(score)
    return ",".join("" if told[name] is None else str(told[name]) for name in _COLUMNS).encode()


def written(kind: str, parts: Sequence[Sequence[bytes]]) -> bytes:
    """The bytes of a file with these lines; the parts are what each writing added to it."""
    lines = [one for part in parts for one in part]
    if kind in _SPELLED:
        return _SPELLED[kind](lines)
    return b"".join(_PACKED[kind](b"".join(one + b"\n" for one in part)) for part in parts)


def _members(text: bytes) -> bytes:
    """Two, the first of which ends within a line."""
    half = len(text) // 2
    return gzip.compress(text[:half]) + gzip.compress(text[half:])


_PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "members": _members,
    "zstd": zstandard.compress,
}
_SPELLED: dict[str, Callable[[Sequence[bytes]], bytes]] = {
    "array": lambda lines: b"[" + b",".join(lines) + b"]",
    "spread": lambda lines: b"[\n" + b",\n".join(lines) + b"\n]\n",
    "values": lambda lines: b"".join(json.dumps(json.loads(one), indent=1).encode() + b"\n" for one in lines),
    "csv": lambda lines: b"".join(one + b"\n" for one in (HEADER, *map(csv_row, lines))),
}
LINE_KINDS = ("plain", "gzip", "members", "zstd")
JSON_KINDS = ("array", "spread", "values")


def holds(kind: str, text: bytes) -> bool:
    """Whether a file of this kind can hold the line; a reject is known by its spelling, which `values` changes."""
    if kind == "csv":
        return text in SCORES
    if kind == "values":
        return text not in REJECTED
    return kind in LINE_KINDS or text not in BROKEN


def fresh(empty_lake: Path, root: Path) -> Lake:
    """An empty lake whose salt is always the same."""
    shutil.copytree(empty_lake, root)
    (root / "user_salt").write_text("salt")
    return Lake.open(root)


def land(lake: Lake, *uris: str | Path, **settings: Any) -> LandReport:
    """Land files as calls; the counts of each add up."""
    report = land_calls(
        lake, [str(uri) for uri in uris], deployments=DEPLOYMENTS, settings=LogSettings(**settings), now=NOW
    )
    for file in report.files:
        assert file.num_lines == file.num_landed + file.num_duplicates + file.num_rejects + file.num_blank
        assert file.num_rejects == sum(file.rejects_by_reason.values())
    return report


def put_together(lake: Lake, **settings: Any) -> None:
    """Assemble the traces."""
    assemble(lake, deployments=DEPLOYMENTS, settings=LogSettings(**settings), now=NOW)


def said(lake: Lake) -> dict[str, Any]:
    """All that a lake says of what was logged, and nothing of where and when it was read.

    Of two deliveries that differ in the white space of their messages, the first is kept as it was spelled.
    """
    calls = lake.read("calls", order_by=["call_id"]).drop_columns(_PROVENANCE).to_pylist()
    for call in calls:
        call["messages_json"] = json.loads(call["messages_json"] or "null")
    traces = lake.read("current_traces", order_by=["trace_id", "sequence_index"])
    rejects = lake.read("current_rejects", columns=["line_sha256", "num_bytes", "reason", "message", "first_bytes"])
    return {
        "calls": calls,
        "outcomes": lake.read("outcomes", order_by=["outcome_id"]).drop_columns(_PROVENANCE).to_pylist(),
        "rejects": sorted({tuple(row.values()) for row in rejects.to_pylist()}),
        "traces": traces.drop_columns(["trace_revision", "ingested_at"]).to_pylist(),
    }


def ledger_adds_up(lake: Lake) -> None:
    """The counts of the ledger are those of the tables."""
    rows = lake.read("source_files").to_pylist()
    for row in rows:
        assert row["num_lines"] == sum(row[f"num_{name}"] for name in ("landed", "duplicates", "rejects", "blank"))
    assert sum(row["num_rejects"] for row in rows) == lake.read("rejects").num_rows
    for table, key in (("calls", "call_id"), ("outcomes", "outcome_id")):
        keys = lake.read(table, columns=[key])[key].to_pylist()
        assert len(keys) == len(set(keys))
