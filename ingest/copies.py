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
    """Each call once, whatever order its copies came in: the fullest of them, at the place and time of the first.

    What one copy masks is masked. Copies of one response that give its tokens other log-probabilities cannot both be
    right: the call is kept with the fault `conflicting_copies`.
    """
    return [_whole(group) for group in copies(calls)]


def copies(calls: Sequence[LoggedCall]) -> list[list[LoggedCall]]:
    """The calls in groups of one call each, the fullest copy first; groups in the order of their first copies.

    Copies are calls of equal prompt, tokens and log-probabilities, or of one response as far as both logged it. Of
    equally full ones the first by id leads, so that no clock decides. The cost is linear in the calls, but for sorting.
    """
    groups: list[list[LoggedCall]] = []
    by_content: dict[tuple[int, bytes, bytes, bytes | None], int] = {}
    by_response: dict[tuple[str, int], list[int]] = defaultdict(list)
    for call in sorted(calls, key=_emptiness):
        content = None
        if call.prompt is not None and call.token_ids is not None:
            content = (call.choice_index, call.prompt, call.token_ids, call.token_logprobs)
        response = None if call.response_id is None else by_response[call.response_id, call.choice_index]
        position = by_content.get(content) if content is not None else None
        if position is None and response is not None:
            position = next((i for i in response[:MOST_COPIES] if _agree(call, groups[i][0])), None)
        if position is None:
            position = len(groups)
            groups.append([])
        groups[position].append(call)
        if content is not None:
            by_content.setdefault(content, position)
        if response is not None and position not in response:
            response.append(position)
    places = {call.call_id: place for place, call in reversed(list(enumerate(calls)))}
    return sorted(groups, key=lambda group: min(places[call.call_id] for call in group))


def is_conflict(group: Sequence[LoggedCall]) -> bool:
    """Whether copies of one call contradict each other: whole ones that give the same tokens other numbers."""
    return any(_conflict(group[0], other) for other in group[1:])


def _whole(group: Sequence[LoggedCall]) -> LoggedCall:
    best = group[0]
    if len(group) == 1:
        return best
    return replace(
        best,
        started_at=min(call.started_at for call in group),
        masked=frozenset().union(*(call.masked for call in group)),
        fault=best.fault or ("conflicting_copies" if is_conflict(group) else None),
    )


def _agree(one: LoggedCall, other: LoggedCall) -> bool:
    """Whether two logged calls say the same as far as both say it.

    A reply may be cut in one of them. A prompt is logged whole or not at all: one that goes on from another is a later
    turn, under a response id that somebody gave twice.
    """
    if one.prompt is not None and other.prompt is not None and one.prompt != other.prompt:
        return False
    a, b = one.token_ids, other.token_ids
    return a is None or b is None or a.startswith(b) or b.startswith(a)


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


def _emptiness(call: LoggedCall) -> tuple[bool, bool, bool, int, str]:
    """Sorts calls, those with the most that can be used first."""
    num_bytes = len(call.token_ids or b"")
    return (call.fault is not None, call.prompt is None, call.token_logprobs is None, -num_bytes, call.call_id)
