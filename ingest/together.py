"""What the copies of one call say together: text, parameters and names of all, tokens of the fullest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ingest.branches import LoggedCall
from ingest.copies import copies, is_conflict
from ingest.faults import FIELD_KINDS
from ingest.meant import CallRow, MeantCall, Reader

_FILLED = (
    "call_index",
    "ask_id",
    "session_id",
    "user_hash",
    "workload",
    "logged_deployment",
    "landed_as",
    "landed_version",
    "engine",
    "version_spans",
    "top_token_ids",
    "top_token_logprobs",
    "num_prompt_tokens",
    "finish_reason",
    "messages_json",
    "reply_text",
    "ended_at",
)
"""What a copy may leave out and another say."""
_AGAINST = {
    "cache_hit",
    "context_shifted",
    "grammar_constrained",
    "log_says_greedy",
    "log_says_penalised",
    "log_says_truncated",
    "multimodal_prompt",
    "output_overridden",
    "version_ambiguous",
    "version_spans_incomplete",
}
"""Codes of a copy that speak of the call, whatever the copy itself left out."""


def together(calls: Sequence[MeantCall], read: Reader) -> list[MeantCall]:
    """Each call once, with all that its copies say; the same whatever order they were delivered in.

    Where two copies state a field otherwise, the fuller one counts; of equally full ones the first by id. A call
    whose copies contradict each other in their numbers has the code `conflicting_copies`.
    """
    by_id = {call.values["call_id"]: call for call in calls}
    return [
        by_id[group[0].call_id] if len(group) == 1 else _merged(group, by_id, read)
        for group in copies([call.logged() for call in calls])
    ]


def _merged(group: Sequence[LoggedCall], by_id: Mapping[str, MeantCall], read: Reader) -> MeantCall:
    best = by_id[group[0].call_id]
    rows = [by_id[call.call_id].values for call in group]
    timed = [row for row in rows if "time_of_reading" not in row["notes"]] or rows
    values = {
        **best.values,
        **{name: next((row[name] for row in rows if row[name] is not None), None) for name in _FILLED},
        "sampling_json": _sampling([row["sampling_json"] for row in rows]),
        "masked_positions": sorted({at for row in rows for at in row["masked_positions"] or ()}) or None,
        "started_at": min(row["started_at"] for row in timed),
        "notes": _notes(rows),
    }
    found = read(CallRow(values, best.prompt, best.token_ids, best.token_logprobs))
    return found.with_code("conflicting_copies") if is_conflict(group) else found


def _sampling(stated: Sequence[str]) -> str:
    """The parameters that any of them states; the first that states one counts."""
    if len(set(stated)) == 1:
        return stated[0]
    found: dict[str, Any] = {}
    for document in reversed(stated):
        parameters = json.loads(document)
        found.update(parameters if isinstance(parameters, dict) else {})
    return json.dumps(found, sort_keys=True)


def _notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = {*rows[0]["notes"], *(code for row in rows for code in row["notes"] if code in _AGAINST)}
    kinds = [code for row in rows for code in row["notes"] if code in FIELD_KINDS]
    return sorted(notes if notes & FIELD_KINDS.keys() else {*notes, *kinds[:1]})
