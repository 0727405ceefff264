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

from ingest.branches import Branch, LoggedCall, Span
from ingest.columns import array_column
from ingest.conservation import check_rows
from ingest.faults import ROUNDING, masking_fault, trace_faults
from ingest.meaning import Deployment, Interpreter, joined_sha256
from ingest.meant import CallRow, MeantCall, Reader
from ingest.messages import Messages, Told
from ingest.settings import LogSettings
from ingest.stitch import Stitched, stitch
from ingest.successor import with_prompts
from ingest.together import together
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
class Trace:
    """One trace put together."""

    rows: list[dict[str, Any]]
    faults: frozenset[str]
    notes: Counter[str]


class TraceBuilder:
    """Puts traces together; what only the settings say comes from here, whatever was stated when the calls landed."""

    def __init__(self, deployments: Mapping[str, Deployment], settings: LogSettings, now: datetime) -> None:
        self.interpreter = Interpreter(deployments)
        self._read = Reader(self.interpreter)
        self._settings = settings
        self._now = now

    def meaning_sha256(self, calls: Sequence[CallRow]) -> str:
        """What stands for the settings behind the meaning of these calls."""
        named = {(row.values["logged_deployment"], row.values["landed_as"], row.values["model"]) for row in calls}
        return joined_sha256(self.interpreter.settings_sha256(*names) for names in named)

    def build(self, trace_id: str, revision: int, calls: Sequence[CallRow], split: str | None = None) -> Trace:
        """The sequences of one trace, in any order of its calls.

        `split` is that of its earlier revision, which it keeps; None at its first.
        """
        once = together([self._read(call) for call in calls], self._read)
        by_id = {call.values["call_id"]: call for call in with_prompts(once)}
        told = Told(by_id)
        stitched = stitch([call.logged() for call in by_id.values()], told.name)
        faults = _faults(stitched, by_id)
        of_trace = _of_trace(stitched, by_id)
        shared = {
            **of_trace,
            "trace_id": trace_id,
            "split": split or split_of(_ask_key(of_trace, trace_id), self._settings.holdout_share),
            "trace_revision": revision,
            "num_sequences": len(stitched.branches),
            "num_calls": len(calls),
            "faults": sorted(faults),
            "meaning_sha256": self.meaning_sha256(calls),
            "ingested_at": self._now,
        }
        rows = [
            {**shared, "sequence_index": index, **_of_branch(branch, by_id)}
            for index, branch in enumerate(stitched.branches)
        ]
        check_rows(trace_id, stitched.used, rows)
        copied = Counter(call_logged_twice=len(calls) - len(once))
        return Trace(rows, frozenset(faults), stitched.notes + copied + _notes(stitched, by_id, told))


def _notes(stitched: Stitched, by_id: Mapping[str, MeantCall], told: Told) -> Counter[str]:
    """What the calls say beside how they fit together."""
    rebuilt = sum("prompt_from_successor" in by_id[call.call_id].codes for call in stitched.used)
    ends = [branch.path[-1] for branch in stitched.branches if branch.kind in ("main", "fork", "compaction")]
    return +Counter(prompt_from_successor=rebuilt, turn_not_logged=told.num_unlogged(ends))


def _faults(stitched: Stitched, by_id: Mapping[str, MeantCall]) -> set[str]:
    """Everything that keeps the trace from being trained on; an answer that was not used keeps it from nothing."""
    used = [call for call in stitched.used if call.fault != "sibling_not_used"]
    faults = {call.fault for call in used if call.fault in ("ambiguous_siblings", "conflicting_copies")}
    for call in used:
        codes = by_id[call.call_id].codes
        is_whole = call.fault is None and masking_fault(codes) == "stream_cut"  # what was logged was gone on from
        faults |= trace_faults(codes) - ({"stream_cut"} if is_whole else set())
    if stitched.notes["ambiguous_siblings"]:
        faults.add("ambiguous_siblings")
    versions = {by_id[call.call_id].meaning.policy_version for call in used}
    if len(versions) > 1:
        faults.add("version_ambiguous")
    # A trace is scored at one temperature over all its sequences, so an answer that was not used counts here too.
    if len({by_id[call.call_id].meaning.temperature for call in stitched.used}) > 1:
        faults.add("sampling_mixed")
    has_action = any(span.is_action and span.end > span.start for b in stitched.branches for span in b.spans)
    if not has_action and all(call.fault is None for call in used):
        faults.add("no_action_tokens")
    return {fault for fault in faults if fault is not None}


def _of_trace(stitched: Stitched, by_id: Mapping[str, MeantCall]) -> dict[str, Any]:
    """What all sequences of a trace say alike; the reply is the last one that is not known to be unused."""
    in_time = sorted(stitched.used, key=lambda call: call.order)
    calls = [by_id[call.call_id] for call in in_time]
    in_use = [by_id[call.call_id] for call in in_time if call.fault != "sibling_not_used"] or calls
    trace: dict[str, Any] = {
        name: next((call.values[name] for call in calls if call.values[name] is not None), None)
        for name in ("ask_id", "session_id", "user_hash", "workload")
    } | {
        name: next((value for call in calls if (value := getattr(call.meaning, name)) is not None), None)
        for name in ("engine", "deployment", "tokenizer_sha256")
    }
    return trace | {
        "started_at": calls[0].values["started_at"],
        "ended_at": max(call.values["ended_at"] or call.values["started_at"] for call in calls),
        "ask_text": Messages.read(calls[0].values["messages_json"]).ask,
        "reply_text": in_use[-1].values["reply_text"],
    }


def _of_branch(branch: Branch, by_id: Mapping[str, MeantCall]) -> dict[str, Any]:
    calls = [by_id[call.call_id] for call in branch.path]
    judged = [by_id[call.call_id] for call in branch.path if call.fault != "sibling_not_used"]
    meanings = [call.meaning for call in calls]
    token_ids = np.frombuffer(branch.token_ids, dtype="<i4")
    logprobs = np.full(token_ids.size, np.nan, dtype=np.float32)
    mask = np.zeros(token_ids.size, dtype=np.bool_)
    for span in branch.spans:
        logprobs[span.start : span.end] = usable_logprobs(span.call)[span.skipped :][: span.end - span.start]
        mask[span.start : span.end] = span.is_action
    kinds = {meaning.logprob_kind for meaning in meanings}
    versions = _version_spans(branch.spans, by_id)
    finish_reason = calls[-1].values["finish_reason"]
    return {
        "branch_kind": branch.kind,
        "token_ids": token_ids,
        "token_logprobs": logprobs,
        "action_mask": mask,
        "spans": [_span(span) for span in branch.spans],
        "version_spans": versions,
        "prompt_length": branch.spans[0].start,
        "num_action_tokens": int(mask.sum()),
        "logprob_kind": kinds.pop() if len(kinds) == 1 else "unknown",
        # An answer that was not used trains nothing, so nothing about it makes the numbers of a trace inexact.
        "logprob_exact": not any(_INEXACT.intersection(call.codes) for call in judged),
        "temperature": _common([meaning.temperature for meaning in meanings]),
        "top_p": _least([meaning.top_p for meaning in meanings]),
        "top_k": _least_top_k([meaning.top_k for meaning in meanings]),
        "policy_version_min": versions[0]["policy_version"],
        "policy_version_max": versions[-1]["policy_version"],
        "finish_reason": finish_reason,
        "truncated": finish_reason in _TRUNCATED,
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


def _version_spans(spans: Sequence[Span], by_id: Mapping[str, MeantCall]) -> list[dict[str, Any]]:
    """Which version sampled which tokens: one a span, or one for each of the weights that the server tells apart."""
    found: list[dict[str, Any]] = []
    for span in spans:
        call = by_id[span.call.call_id]
        weights = call.values["version_spans"] or ()
        pieces = _pieces(span, weights) if "version_ambiguous" in call.codes else []
        found += pieces or [{"policy_version": call.meaning.policy_version, "start": span.start, "end": span.end}]
    return found


def _pieces(span: Span, weights: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The part of a span that each of the weights sampled; where a server lets two overlap, the first has it."""
    found: list[dict[str, Any]] = []
    base, free = span.start - span.skipped, span.start
    for piece in sorted(weights, key=lambda piece: (piece["start"], piece["end"])):
        start, end = max(base + piece["start"], free), min(base + piece["end"], span.end)
        if start < end:
            found.append({"policy_version": piece["policy_version"], "start": start, "end": end})
            free = end
    return found


def _spread(name: str, branch: Branch, by_id: Mapping[str, MeantCall]) -> list[Any] | None:
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
