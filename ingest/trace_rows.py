"""The calls of one trace as rows of `traces`: one row a training sequence."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.columns import array_column
from ingest.faults import ROUNDING, masking_fault, trace_faults
from ingest.meaning import Deployment
from ingest.messages import SHORTEST_SUMMARY, Messages
from ingest.settings import LogSettings
from ingest.stitch import Branch, BranchKind, LoggedCall, NameBranch, Span, Stitched, stitch
from schemas.numbers import SENTINEL
from schemas.tables import table

Floats = npt.NDArray[np.float32]

_SCHEMA = table("traces").schema
_TRUNCATED = ("length", "abort")
_UNALIGNED = ("len_mismatch", "ids_disagree")
_INEXACT = {
    "logprob_kind_unknown",
    "logprob_kind_mismatch",
    "truncated_support",
    "greedy_sampling",
    "penalised_sampling",
    "grammar_constrained",
    "sampling_params_unknown",
}
"""Codes of a call whose numbers are not exactly the distribution that its tokens were sampled from."""


@dataclass(frozen=True, slots=True)
class CallRow:
    """One row of `calls`: its plain columns, and its lists packed."""

    values: Mapping[str, Any]
    prompt: bytes | None
    token_ids: bytes | None
    token_logprobs: bytes | None

    def logged(self) -> LoggedCall:
        """The call as stitching wants it."""
        return LoggedCall(
            call_id=self.values["call_id"],
            prompt=self.prompt,
            token_ids=self.token_ids,
            token_logprobs=self.token_logprobs,
            started_at=self.values["started_at"],
            ended_at=self.values["ended_at"],
            call_index=self.values["call_index"],
            response_id=self.values["response_id"],
            choice_index=self.values["choice_index"],
            fault=masking_fault(tuple(self.values["notes"])),
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace put together."""

    rows: list[dict[str, Any]]
    faults: frozenset[str]
    notes: Counter[str]


class TraceBuilder:
    """Puts traces together; what only the settings say comes from here."""

    def __init__(self, deployments: Mapping[str, Deployment], settings: LogSettings, now: datetime) -> None:
        self._deployments = deployments
        self._settings = settings
        self._now = now

    def build(self, trace_id: str, revision: int, calls: Sequence[CallRow], split: str | None = None) -> Trace:
        """The sequences of one trace, in any order of its calls.

        `split` is that of its earlier revision, which it keeps; None at its first.
        """
        by_id = {call.values["call_id"]: call for call in calls}
        stitched = stitch([call.logged() for call in calls], _namer(by_id))
        in_time = [by_id[call.call_id] for call in sorted(stitched.used, key=lambda call: call.order)]
        faults = self._faults(stitched, by_id)
        of_trace = self._of_trace(in_time)
        shared = {
            **of_trace,
            "trace_id": trace_id,
            "split": split or split_of(_ask_key(of_trace, trace_id), self._settings.holdout_share),
            "trace_revision": revision,
            "num_sequences": len(stitched.branches),
            "num_calls": len(calls),
            "faults": sorted(faults),
            "ingested_at": self._now,
        }
        rows = [
            {**shared, "sequence_index": index, **self._of_branch(branch, by_id)}
            for index, branch in enumerate(stitched.branches)
        ]
        return Trace(rows, frozenset(faults), stitched.notes)

    def _faults(self, stitched: Stitched, by_id: Mapping[str, CallRow]) -> set[str]:
        """Everything that keeps the trace from being trained on; an answer that was not used keeps it from nothing."""
        used = [call for call in stitched.used if call.fault != "sibling_not_used"]
        faults: set[str] = set()
        for call in used:
            faults |= trace_faults(by_id[call.call_id].values["notes"])
        if stitched.notes["ambiguous_siblings"]:
            faults.add("ambiguous_siblings")
        versions = {by_id[call.call_id].values["policy_version"] for call in used}
        if len(versions) > 1:
            faults.add("version_ambiguous")
        # A trace is scored at one temperature over all its sequences, so an answer that was not used counts here too.
        if len({by_id[call.call_id].values["temperature"] for call in stitched.used}) > 1:
            faults.add("sampling_mixed")
        has_action = any(span.is_action and span.end > span.start for b in stitched.branches for span in b.spans)
        if not has_action and all(call.fault is None for call in used):
            faults.add("no_action_tokens")
        return faults

    def _of_trace(self, calls: Sequence[CallRow]) -> dict[str, Any]:
        """What all sequences of a trace say alike; `calls` are in order of time."""
        first, last = calls[0].values, calls[-1].values
        trace: dict[str, Any] = {
            name: next((call.values[name] for call in calls if call.values[name] is not None), None)
            for name in ("ask_id", "session_id", "user_hash", "workload", "engine", "deployment")
        }
        settings = self._deployments.get(trace["deployment"])
        return trace | {
            "tokenizer_sha256": settings.tokenizer_sha256 if settings is not None else None,
            "started_at": first["started_at"],
            "ended_at": max(call.values["ended_at"] or call.values["started_at"] for call in calls),
            "ask_text": Messages.read(first["messages_json"]).ask,
            "reply_text": last["reply_text"],
        }

    def _of_branch(self, branch: Branch, by_id: Mapping[str, CallRow]) -> dict[str, Any]:
        calls = [by_id[call.call_id].values for call in branch.path]
        token_ids = np.frombuffer(branch.token_ids, dtype="<i4")
        logprobs = np.full(token_ids.size, np.nan, dtype=np.float32)
        mask = np.zeros(token_ids.size, dtype=np.bool_)
        for span in branch.spans:
            logprobs[span.start : span.end] = usable_logprobs(span.call)[span.skipped :][: span.end - span.start]
            mask[span.start : span.end] = span.is_action
        kinds = {call["logprob_kind"] for call in calls}
        return {
            "branch_kind": branch.kind,
            "token_ids": token_ids,
            "token_logprobs": logprobs,
            "action_mask": mask,
            "spans": [_span(span) for span in branch.spans],
            "version_spans": _version_spans(branch.spans, by_id),
            "prompt_length": branch.spans[0].start if branch.spans else token_ids.size,
            "num_action_tokens": int(mask.sum()),
            "logprob_kind": kinds.pop() if len(kinds) == 1 else "unknown",
            "logprob_exact": not any(_INEXACT.intersection(call["notes"]) for call in calls),
            "temperature": _common([call["temperature"] for call in calls]),
            "top_p": _least([call["top_p"] for call in calls]),
            "top_k": _least_top_k([call["top_k"] for call in calls]),
            "policy_version_min": calls[0]["policy_version"],
            "policy_version_max": calls[-1]["policy_version"],
            "finish_reason": calls[-1]["finish_reason"],
            "truncated": calls[-1]["finish_reason"] in _TRUNCATED,
            "top_token_ids": _spread("top_token_ids", branch, by_id),
            "top_token_logprobs": _spread("top_token_logprobs", branch, by_id),
        }


def rows_to_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows as columns of `traces`; lists of numbers go into Arrow without a Python object each."""
    arrays = {"token_ids": pa.int32(), "token_logprobs": pa.float32(), "action_mask": pa.bool_()}
    columns = {name: array_column([row[name] for row in rows], kind) for name, kind in arrays.items()}
    plain = {name: [row[name] for row in rows] for name in rows[0] if name not in arrays}
    columns |= {name: pa.array(values, _SCHEMA.field(name).type) for name, values in plain.items()}
    return pa.table(columns)


def split_of(ask: str, holdout_share: float) -> str:
    """Whether an ask trains or is held out, by its hash: the same for every trace of it."""
    drawn = int.from_bytes(hashlib.sha256(ask.encode()).digest()[:8], "big") / 2**64
    return "holdout" if drawn < holdout_share else "train"


def _ask_key(trace: Mapping[str, Any], trace_id: str) -> str:
    """What names the ask of a trace: its id, else its text, else the trace alone."""
    if trace["ask_id"]:
        return str(trace["ask_id"])
    return hashlib.sha256(trace["ask_text"].encode()).hexdigest() if trace["ask_text"] else trace_id


def usable_logprobs(call: LoggedCall) -> Floats:
    """One number a sampled token, NaN where the log has none that can be used; none is ever made up."""
    num_tokens = len(call.token_ids or b"") // 4
    if call.token_logprobs is None or len(call.token_logprobs) // 4 != num_tokens or call.fault in _UNALIGNED:
        return np.full(num_tokens, np.nan, dtype=np.float32)
    logged = np.frombuffer(call.token_logprobs, dtype="<f4")
    if call.fault is None:
        capped: Floats = np.minimum(logged, np.float32(0.0))
        return capped  # what is above it is rounding, or the call had a fault
    with np.errstate(invalid="ignore"):
        is_usable = np.isfinite(logged) & (logged > SENTINEL) & (logged <= ROUNDING)
    return np.where(is_usable, np.minimum(logged, np.float32(0.0)), np.float32(np.nan))


def _span(span: Span) -> dict[str, Any]:
    call = span.call
    return {
        "call_id": call.call_id,
        "call_index": call.call_index,
        "start": span.start,
        "end": span.end,
        "owned": span.owned,
        "fault": call.fault,
    }


def _version_spans(spans: Sequence[Span], by_id: Mapping[str, CallRow]) -> list[dict[str, Any]]:
    return [
        {"policy_version": by_id[span.call.call_id].values["policy_version"], "start": span.start, "end": span.end}
        for span in spans
    ]


def _spread(name: str, branch: Branch, by_id: Mapping[str, CallRow]) -> list[Any] | None:
    """Top-K lists at the positions of their tokens, nothing elsewhere; None when no call of the sequence has any."""
    found: list[Any] | None = None
    for span in branch.spans:
        listed = by_id[span.call.call_id].values[name]
        if listed is None or len(listed) * 4 != len(span.call.token_ids or b""):
            continue
        found = found if found is not None else [None] * (len(branch.token_ids) // 4)
        found[span.start : span.end] = listed[span.skipped : span.skipped + span.end - span.start]
    return found


def _common(values: Sequence[float | None]) -> float | None:
    return values[0] if len(set(values)) == 1 else None


def _least(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return min(known) if len(known) == len(values) else None


def _least_top_k(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return min((value for value in known if value > 0), default=-1) if len(known) == len(values) else None


def _namer(by_id: Mapping[str, CallRow]) -> NameBranch:
    """Tells sub-agents and compacted chains from plain forks by their messages; nothing but the name depends on it."""

    def name(root: LoggedCall, main: LoggedCall) -> BranchKind:
        told = Messages.read(by_id[root.call_id].values["messages_json"])
        earlier = [row.values["reply_text"] for row in by_id.values() if row.values["started_at"] < root.started_at]
        replies = [reply.strip() for reply in earlier if reply is not None]
        if any(len(reply) >= SHORTEST_SUMMARY and reply in told.given for reply in replies):
            return "compaction"
        main_told = Messages.read(by_id[main.call_id].values["messages_json"])
        return "subagent" if told.system != main_told.system else "fork"

    return name
