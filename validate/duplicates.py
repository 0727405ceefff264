"""Copies of a trace under another id, equal replies with unequal rewards, and users who fill the training set."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from validate.check import Estimate, Reading, unmeasured
from validate.group import share_reading
from validate.logprobs import BATCH_ROWS
from validate.rewards import Rewards
from validate.segments import Booleans, Integers, Segments, carried, segments_of
from validate.statistics import effective_size
from validate.traces import Texts, Traces

_Part = tuple[npt.NDArray[Any], Integers]
_NO_NUMBER = np.int32(0x7FFFFFFF)  # the bits of a NaN: no log-probability of an action token has them


@dataclass(frozen=True, slots=True)
class Contents:
    """[N] texts that are equal exactly for equal traces."""

    replies: Texts
    """Tokens and mask."""
    tries: Texts
    """Tokens, mask, log-probabilities of action tokens, and the engine's response ids where all were logged."""


def contents_of(traces: Traces, calls: pa.Table) -> Contents:
    """What tells traces apart; what stands off the action mask does not."""
    digests = [digest for piece in _digests(traces.sequences) for digest in piece]
    order = np.lexsort((traces.sequences["sequence_index"].to_numpy(), traces.owners)).tolist()
    of_trace: list[list[tuple[str, str]]] = [[] for _ in range(traces.num_traces)]
    for row in order:
        of_trace[traces.owners[row]].append(digests[row])
    replies = ["".join(reply for reply, _ in pairs) for pairs in of_trace]
    tries = ["".join(whole for _, whole in pairs) for pairs in of_trace]
    named = zip(tries, _responses(traces, calls), strict=True)
    return Contents(
        np.array(replies, dtype=np.object_), np.array(["|".join(parts) for parts in named], dtype=np.object_)
    )


def find_duplicates(traces: Traces, contents: Contents) -> dict[str, Booleans]:
    """[N] which traces are copies: equal tokens, log-probabilities and response ids as an earlier trace.

    The earliest by end time is the original; of equal times the first by id. Two tries whose engine gave them
    different response ids are two tries, however equal they look. A trace without action tokens is no copy.
    """
    _, groups = np.unique(contents.tries, return_inverse=True)
    order = np.lexsort((np.arange(traces.num_traces), traces.ended_us(), groups))
    is_first = np.ones(traces.num_traces, np.bool_)
    is_first[1:] = groups[order][1:] != groups[order][:-1]
    is_copy = np.zeros(traces.num_traces, np.bool_)
    is_copy[order] = ~is_first
    return {"duplicate_trace": is_copy & _has_action_tokens(traces)}


def scan_duplicates(
    traces: Traces,
    contents: Contents,
    rewards: Rewards,
    *,
    is_copy: Booleans,
    window: Booleans,
    is_admitted: Booleans,
) -> list[Reading]:
    """Copies, equal replies with unequal rewards, and how many users the admitted traces come from."""
    copies, num_window = int(np.count_nonzero(is_copy & window)), int(window.sum())
    readings = [
        share_reading("duplicate_share", copies, num_window, "traces are copies of an earlier one"),
        _conflicting(contents, rewards, window & ~is_copy & _has_action_tokens(traces)),
    ]
    return readings + _concentration(traces.texts("user_hash")[is_admitted])


def _conflicting(contents: Contents, rewards: Rewards, members: Booleans) -> Reading:
    scored = members & rewards.has_any
    _, groups = np.unique(contents.replies, return_inverse=True)
    sizes = np.bincount(groups[scored], minlength=scored.size)
    least, greatest = np.full(scored.size, np.inf), np.full(scored.size, -np.inf)
    np.minimum.at(least, groups[scored], rewards.value[scored])
    np.maximum.at(greatest, groups[scored], rewards.value[scored])
    repeated = sizes > 1
    num_groups, num_conflicts = int(repeated.sum()), int(np.count_nonzero(repeated & (least < greatest)))
    what = "groups of equal ask and equal reply got different rewards"
    return share_reading("conflicting_duplicate_share", num_conflicts, num_groups, what)


def _concentration(users: Texts) -> list[Reading]:
    known = [user for user in users if user is not None]
    if not known:
        why = "no admitted trace names a user"
        return [unmeasured(name, why, num_observations=users.size) for name in ("top_user_share", "effective_users")]
    _, counts = np.unique(np.array(known, dtype=np.object_), return_counts=True)
    effective = effective_size(counts.astype(np.float64))
    return [
        share_reading("top_user_share", int(counts.max()), len(known), "admitted traces come from one user"),
        Reading(
            name="effective_users",
            estimate=Estimate(effective, num_observations=len(known)),
            sentence=f"{len(known):,} admitted traces of {counts.size:,} users weigh like {effective:.1f} equal users",
        ),
    ]


def _digests(sequences: pa.Table) -> Iterator[list[tuple[str, str]]]:
    for start in range(0, sequences.num_rows, BATCH_ROWS):
        piece = sequences.slice(start, BATCH_ROWS)
        ids, mask = segments_of(piece["token_ids"]), segments_of(piece["action_mask"])
        reply = ((ids.values.astype(np.int32), ids.offsets), (mask.values.astype(np.int8), mask.offsets))
        numbers = _bits_on_action(piece, mask)
        yield [_digest(reply, numbers, row) for row in range(piece.num_rows)]


def _bits_on_action(piece: pa.Table, mask: Segments) -> _Part:
    """The bits of the log-probabilities of action tokens; what stands elsewhere is made equal."""
    logprobs = segments_of(piece["token_logprobs"])
    bits = logprobs.values.astype(np.float32).view(np.int32)
    on_action = carried(mask.values, mask, logprobs, logprobs.lengths == mask.lengths)
    return np.where(on_action & logprobs.present, bits, _NO_NUMBER), logprobs.offsets


def _digest(reply: tuple[_Part, _Part], numbers: _Part, row: int) -> tuple[str, str]:
    digest = hashlib.sha256()
    for part in reply:
        _add(digest, part, row)
    of_reply = digest.hexdigest()
    _add(digest, numbers, row)
    return of_reply, digest.hexdigest()


def _add(digest: hashlib._Hash, part: _Part, row: int) -> None:
    values, offsets = part
    piece = values[offsets[row] : offsets[row + 1]]
    digest.update(len(piece).to_bytes(8, "little"))  # so that no list can run over into the next
    digest.update(piece.tobytes())


def _responses(traces: Traces, calls: pa.Table) -> Iterator[str]:
    """One text per trace: the response ids of its calls, sorted; empty where any was not logged."""
    owners = pc.index_in(calls["trace_id"], value_set=traces.trace_ids)
    known = owners.is_valid().to_numpy(zero_copy_only=False)
    rows = owners.drop_null().to_numpy().astype(np.int64)
    ids = np.asarray(calls["response_id"].to_numpy(), dtype=np.object_)[known]
    names: list[list[str]] = [[] for _ in range(traces.num_traces)]
    for owner, response_id in zip(rows.tolist(), ids, strict=True):
        names[owner].append(response_id or "")
    for of_trace in names:
        yield "" if "" in of_trace else ",".join(sorted(of_trace))


def _has_action_tokens(traces: Traces) -> Booleans:
    return traces.any_of(np.asarray(traces.sequences["num_action_tokens"].to_numpy() > 0, np.bool_))
