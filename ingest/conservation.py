"""What must hold of every trace before it is written: each sampled token trains once, and says what was logged.

Only our own bug can break it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ingest.branches import ID_BYTES, Branch, LoggedCall
from schemas.errors import TracemillError
from schemas.numbers import SENTINEL


def check_spans(calls: Iterable[LoggedCall], branches: Sequence[Branch]) -> None:
    """Raise when a sampled token would train twice or never, or a sequence holds other tokens than its calls.

    Each step from one call to the next is compared once, in whatever number of sequences it lies.
    """
    owned: Counter[str] = Counter()
    steps: set[tuple[str, str]] = set()
    for branch in branches:
        for call, following in pairwise(branch.path):
            step = (call.call_id, following.call_id)
            if step not in steps and not (following.prompt or b"").startswith(call.full):
                raise _wrong_tokens(call)
            steps.add(step)
        tokens = branch.token_ids
        for span in branch.spans:
            length = (span.end - span.start) * ID_BYTES
            begin, at = span.skipped * ID_BYTES, span.start * ID_BYTES
            if tokens[at : at + length] != (span.call.token_ids or b"")[begin : begin + length]:
                raise _wrong_tokens(span.call)
            if span.start != len(span.call.prompt or b"") // ID_BYTES + span.skipped:
                raise _wrong_tokens(span.call)
            if span.owned:
                owned[span.call.call_id] += span.end - span.start
    for call in calls:
        expected = call.num_sampled - len(call.cuts)
        if owned[call.call_id] != expected:
            raise _bug(
                f"call {call.call_id}: {owned[call.call_id]} of {expected} sampled tokens are owned", "each once"
            )


def check_rows(trace_id: str, calls: Iterable[LoggedCall], rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise when the action tokens of the rows are not the usable tokens of the calls, or one has no number.

    Over all rows of a trace: action tokens = sampled tokens of calls without a fault, minus masked ones.
    """
    expected = sum(call.num_sampled - len(call.cuts) for call in calls if call.fault is None)
    found = sum(row["num_action_tokens"] for row in rows)
    if found != expected:
        raise _bug(f"trace {trace_id}: {found} action tokens", f"{expected}, the usable ones of its calls")
    for row in rows:
        numbers = row["token_logprobs"][row["action_mask"]]
        # Written so that NaN, which is neither above nor below anything, is refused too.
        if numbers.size and not (numbers.min() > SENTINEL and numbers.max() <= 0):
            raise _bug(f"trace {trace_id}: an action token without a log-probability", "one each, 0 at most")


def _wrong_tokens(call: LoggedCall) -> TracemillError:
    return _bug(f"call {call.call_id}: its sequence holds other tokens than the log", "the logged ones")


def _bug(found: str, expected: str) -> TracemillError:
    return TracemillError(
        f"{found}; expected {expected}. This is a bug in stitching, nothing was written: report it with the lines of "
        "the trace"
    )
