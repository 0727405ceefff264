"""Each call of a trace once, however often and in however much detail it was logged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ingest.branches import ID_BYTES, LoggedCall

LARGEST_DIFFERENCE = 1e-3
"""Nats by which the log-probabilities of two copies of a call may differ: what a gateway rounds away.
Convention, untested."""

MOST_COPIES = 64
"""Different contents under one response id that a further copy is compared with; a gateway that gives all responses
one id would cost the square of their number. Convention, untested."""


def distinct(calls: Sequence[LoggedCall]) -> list[LoggedCall]:
    """Each call once: of copies that differ only in how much was logged, the fullest; else the first.

    Copies are calls of equal prompt, tokens and log-probabilities, or of one response as far as both logged it. What
    one copy masks is masked. Copies of one response that give its tokens other log-probabilities cannot both be
    right: the call is kept with the fault `conflicting_copies`. The cost is linear in the calls.
    """
    kept: list[LoggedCall] = []
    conflicts: set[int] = set()
    by_content: dict[tuple[int, bytes, bytes, bytes | None], int] = {}
    by_response: dict[tuple[str, int], list[int]] = defaultdict(list)
    for call in calls:
        content = None
        if call.prompt is not None and call.token_ids is not None:
            content = (call.choice_index, call.prompt, call.token_ids, call.token_logprobs)
        response = None if call.response_id is None else by_response[call.response_id, call.choice_index]
        position = by_content.get(content) if content is not None else None
        if position is None and response is not None:
            position = next((i for i in response[:MOST_COPIES] if _agree(call, kept[i])), None)
        if position is None:
            position = len(kept)
            kept.append(call)
        else:
            if _conflict(call, kept[position]):
                conflicts.add(position)
            kept[position] = _fuller(kept[position], call)
        if content is not None:
            by_content.setdefault(content, position)
        if response is not None and position not in response:
            response.append(position)
    return [
        replace(call, fault=call.fault or "conflicting_copies") if position in conflicts else call
        for position, call in enumerate(kept)
    ]


def _agree(one: LoggedCall, other: LoggedCall) -> bool:
    """Whether two logged calls say the same as far as both say it; replies differ first, so they are compared first."""
    pairs = ((one.token_ids, other.token_ids), (one.prompt, other.prompt))
    return all(a is None or b is None or a is b or a.startswith(b) or b.startswith(a) for a, b in pairs)


def _conflict(one: LoggedCall, other: LoggedCall) -> bool:
    """Whether two whole copies give the same tokens other log-probabilities; a missing number conflicts with none."""
    if one.fault is not None or other.fault is not None or one.token_logprobs is None or other.token_logprobs is None:
        return False
    if one.token_logprobs == other.token_logprobs:
        return False
    length = min(len(one.token_logprobs), len(other.token_logprobs)) // ID_BYTES
    first, second = (np.frombuffer(call.token_logprobs or b"", dtype="<f4", count=length) for call in (one, other))
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinities compare as no difference
        return bool((np.abs(first - second) > LARGEST_DIFFERENCE).any())


def _fuller(kept: LoggedCall, call: LoggedCall) -> LoggedCall:
    best = call if _fullness(call) > _fullness(kept) else kept
    masked = kept.masked | call.masked
    return best if masked == best.masked else replace(best, masked=masked)


def _fullness(call: LoggedCall) -> tuple[bool, bool, bool, int]:
    return (call.fault is None, call.prompt is not None, call.token_logprobs is not None, len(call.token_ids or b""))
