"""Calls of one trace to training sequences: by exact token-id prefix, forking when in doubt.

What the engine saw and sampled in one call is always an exact sequence. Calls share a sequence only where one call's
prompt begins with all tokens of another; nothing is re-tokenised, edited or filled in.
docs/stitching.md says which case ends how.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ingest.branches import ID_BYTES, Branch, BranchKind, LoggedCall, Span
from ingest.conservation import check_spans
from ingest.copies import distinct
from ingest.lineage import judged, lineage

_COUNTED = ("sibling_not_used", "ambiguous_siblings", "conflicting_copies")


@dataclass(frozen=True, slots=True)
class Stitched:
    """The sequences of one trace, the calls that were used, and what was found, as reason codes."""

    branches: tuple[Branch, ...]
    used: tuple[LoggedCall, ...]
    notes: Counter[str]


NameBranch = Callable[[LoggedCall, LoggedCall], BranchKind]
"""Names the branch of a first call that goes on from no other, given the first call of the main branch."""


def as_fork(_root: LoggedCall, _main: LoggedCall) -> BranchKind:
    """Name every further root a fork, whatever the messages say."""
    return "fork"


def stitch(calls: Sequence[LoggedCall], name_branch: NameBranch = as_fork) -> Stitched:
    """Put the calls of one trace together, whatever order they come in.

    A call goes on from the call with the longest tokens that its prompt begins with. Of several answers to one
    prompt the one that was gone on from is used, the others are `abandoned`; where none or several were, all of them
    are `ambiguous_siblings` and none is trained. A span that several sequences contain is owned by the first.
    """
    notes: Counter[str] = Counter()
    once = distinct(sorted(calls, key=lambda call: call.order))
    notes["call_logged_twice"] += len(calls) - len(once)
    with_tokens = [call for call in once if call.token_ids != b""] or once
    notes["empty_call"] += len(once) - len(with_tokens)
    found = lineage(with_tokens)
    by_id = judged(with_tokens, found)
    notes.update(call.fault for call in by_id.values() if call.fault in _COUNTED)
    notes["clock_skew"] += sum(
        by_id[parent].started_at > by_id[child].started_at for child, parent in found.parents.items()
    )
    branches = _branches(by_id, found.parents, name_branch)
    check_spans(by_id.values(), branches)
    return Stitched(branches, tuple(by_id.values()), +notes)


def _branches(
    calls: Mapping[str, LoggedCall], parents: Mapping[str, str], name_branch: NameBranch
) -> tuple[Branch, ...]:
    owned: set[str] = set()
    branches: list[Branch] = []
    main: LoggedCall | None = None
    for path in _paths(calls, parents):
        spans = tuple(span for call in path for span in _spans(call, owned=call.call_id not in owned))
        owned.update(call.call_id for call in path)
        if path[-1].fault == "sibling_not_used":
            kind: BranchKind = "abandoned"
        elif main is None:
            kind = "main"
        else:
            kind = "fork" if path[0] is main else name_branch(path[0], main)
        if kind == "main":
            main = path[0]
        branches.append(Branch(kind, path, spans))
    # By time of the first owned span; what was abandoned comes last, so that the first sequence is always in use.
    return tuple(sorted(branches, key=lambda branch: (branch.kind == "abandoned", _first_owned(branch).order)))


def _first_owned(branch: Branch) -> LoggedCall:
    return next((span.call for span in branch.spans if span.owned), branch.path[-1])


def _paths(calls: Mapping[str, LoggedCall], parents: Mapping[str, str]) -> Iterator[tuple[LoggedCall, ...]]:
    """Every way from a first call to a last one, depth first, earlier calls first and abandoned ones last."""
    following: dict[str | None, list[LoggedCall]] = defaultdict(list)
    for call in calls.values():
        following[parents.get(call.call_id)].append(call)
    for siblings in following.values():
        siblings.sort(key=lambda call: (call.fault == "sibling_not_used", call.order), reverse=True)
    open_paths: list[tuple[LoggedCall, ...]] = [(call,) for call in following[None]]
    while open_paths:
        path = open_paths.pop()
        onward = following.get(path[-1].call_id)
        if onward:
            open_paths += [(*path, call) for call in onward]
        else:
            yield path


def _spans(call: LoggedCall, *, owned: bool) -> Iterator[Span]:
    """The sampled span of a call, cut where a token is masked; an empty one where all are, to keep its place."""
    base, length = len(call.prompt or b"") // ID_BYTES, call.num_sampled
    begin, is_bare = 0, True
    for cut in (*call.cuts, length):
        if cut > begin:
            is_bare = False
            yield Span(call, base + begin, base + cut, owned, begin)
        begin = cut + 1
    if is_bare:
        yield Span(call, base, base, owned)
