"""Which call each call goes on from, and which calls answer one prompt: by token ids, never by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from ingest.branches import LoggedCall


@dataclass(frozen=True, slots=True)
class Lineage:
    """How the calls of a trace hang together."""

    parents: Mapping[str, str]
    """The call that each goes on from, by id; a call that goes on from none is left out."""
    siblings: Sequence[Sequence[LoggedCall]]
    """Calls that answer one prompt, two or more each."""

    @property
    def continued(self) -> set[str]:
        """The calls that another goes on from."""
        return set(self.parents.values())


def lineage(calls: Sequence[LoggedCall]) -> Lineage:
    """The call with the longest tokens that a prompt begins with is the one it goes on from; of equals the last.

    In the order of their bytes, a prefix comes before all that begins with it and nothing else lies between, so one
    walk with a stack of open prefixes finds the longest one of every prompt. A conversation in order of time is in
    that order already, which makes the sort one comparison a call.
    """
    entries: list[tuple[bytes, bool, Any, LoggedCall]] = []
    for call in calls:
        if call.prompt is None:
            continue
        entries.append((call.prompt, True, (), call))
        if call.token_ids:
            last = (not call.unserved, call.ended_at or call.started_at, call.order)
            entries.append((call.full, False, last, call))
    entries.sort(key=itemgetter(0, 1, 2))  # of equal bytes the prefixes first: a prompt may be exactly one
    parents: dict[str, str] = {}
    groups: list[list[LoggedCall]] = []
    prefixes: list[tuple[bytes, str]] = []
    for packed, is_prompt, _, call in entries:
        while prefixes and not packed.startswith(prefixes[-1][0]):
            prefixes.pop()
        if not is_prompt:
            prefixes.append((packed, call.call_id))
            continue
        if prefixes:
            parents[call.call_id] = prefixes[-1][1]
        if groups and groups[-1][0].prompt == packed:
            groups[-1].append(call)
        else:
            groups.append([call])
    return Lineage(parents, [group for group in groups if len(group) > 1])


def judged(calls: Sequence[LoggedCall], found: Lineage) -> dict[str, LoggedCall]:
    """The calls by id, in their order, each with the fault that only its place among the others shows.

    A cut stream that a later prompt goes on from is exact as far as it goes, and its reader went on from just that,
    so it counts. Of several answers to one prompt the one that was gone on from is used (else the one that the
    settings say was served); where that does not single one out, none can be told to have been used.
    """
    continued = found.continued
    faults: dict[str, str | None] = {
        call.call_id: None for call in calls if call.fault == "stream_cut" and call.call_id in continued
    }
    for siblings in found.siblings:
        used = [call for call in siblings if call.call_id in continued]
        if not used and any(call.unserved for call in siblings):
            used = [call for call in siblings if not call.unserved]
        if len(used) == 1:
            faults.update({call.call_id: "sibling_not_used" for call in siblings if call is not used[0]})
        else:
            faults.update({call.call_id: call.fault or "ambiguous_siblings" for call in siblings})
    return {c.call_id: replace(c, fault=faults[c.call_id]) if c.call_id in faults else c for c in calls}
