"""Calls of one trace to training sequences: by exact token-id prefix, forking when in doubt.

What the engine saw and sampled in one call is always an exact sequence. Calls share a sequence only where one call's
prompt begins with all tokens of another; nothing is re-tokenised, edited or filled in.
docs/formats.md says which case ends how.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from schemas.errors import TracemillError

BranchKind = Literal["main", "fork", "subagent", "compaction", "abandoned"]

_ID_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCall:
    """What stitching needs of a call: ids packed as int32 and log-probabilities as float32, None where not logged.

    `fault` is the first reason for which the call's tokens cannot be used. `forced` are positions in `token_ids`
    that the engine filled in without sampling.
    """

    call_id: str
    prompt: bytes | None
    token_ids: bytes | None
    token_logprobs: bytes | None
    started_at: datetime
    ended_at: datetime | None = None
    call_index: int | None = None
    response_id: str | None = None
    choice_index: int = 0
    fault: str | None = None
    forced: frozenset[int] = frozenset()

    @property
    def full(self) -> bytes:
        """Prompt and sampled tokens: how the next call's prompt begins if it goes on from here."""
        return (self.prompt or b"") + (self.token_ids or b"")

    @property
    def order(self) -> tuple[datetime, int, str]:
        """Sorts calls by time, and always in the same way."""
        return (self.started_at, -1 if self.call_index is None else self.call_index, self.call_id)


@dataclass(frozen=True, slots=True)
class Span:
    """Sampled tokens from `start` to `end` of a sequence; they train in the one sequence that owns them.

    `skipped` is the number of the call's own tokens before the span, above 0 only after a forced token.
    """

    call: LoggedCall
    start: int
    end: int
    owned: bool
    skipped: int = 0

    @property
    def is_action(self) -> bool:
        """Whether the tokens are action tokens here."""
        return self.owned and self.call.fault is None


@dataclass(frozen=True, slots=True)
class Branch:
    """One training sequence: the calls on its way from the first one, and their sampled spans."""

    kind: BranchKind
    path: tuple[LoggedCall, ...]
    spans: tuple[Span, ...]

    @property
    def token_ids(self) -> bytes:
        """All tokens, prompt and sampled, packed int32."""
        return self.path[-1].full


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
    distinct = _distinct(sorted(calls, key=lambda call: call.order))
    notes["call_logged_twice"] += len(calls) - len(distinct)
    with_tokens = [call for call in distinct if call.token_ids != b""] or distinct
    notes["empty_call"] += len(distinct) - len(with_tokens)
    parents = _parents(with_tokens)
    judged = _judge_siblings(with_tokens, parents)
    notes.update(call.fault for call in judged.values() if call.fault in ("sibling_not_used", "ambiguous_siblings"))
    notes["clock_skew"] += sum(
        judged[parent].started_at > judged[child].started_at for child, parent in parents.items()
    )
    branches = _branches(judged, parents, name_branch)
    check_conservation(judged.values(), branches)
    return Stitched(branches, tuple(judged.values()), +notes)


def _distinct(calls: Sequence[LoggedCall]) -> list[LoggedCall]:
    """Each call once: of copies that differ only in how much was logged, the fullest; else the earliest."""
    kept: list[LoggedCall] = []
    for call in calls:
        position = next((i for i, other in enumerate(kept) if _is_same(call, other)), None)
        if position is None:
            kept.append(call)
        elif _fullness(call) > _fullness(kept[position]):
            kept[position] = call
    return kept


def _is_same(one: LoggedCall, other: LoggedCall) -> bool:
    """Whether two logged calls are one: the same response, or the same prompt, tokens and log-probabilities."""
    if one.prompt is not None and one.token_ids is not None and one.choice_index == other.choice_index:
        content = (one.prompt, one.token_ids, one.token_logprobs)
        if content == (other.prompt, other.token_ids, other.token_logprobs):
            return True
    if one.response_id is None or (one.response_id, one.choice_index) != (other.response_id, other.choice_index):
        return False
    return _agree(one.prompt, other.prompt) and _agree(one.token_ids, other.token_ids)


def _agree(one: bytes | None, other: bytes | None) -> bool:
    return one is None or other is None or one.startswith(other) or other.startswith(one)


def _fullness(call: LoggedCall) -> tuple[bool, bool, bool, int]:
    return (call.fault is None, call.prompt is not None, call.token_logprobs is not None, len(call.token_ids or b""))


def _parents(calls: Sequence[LoggedCall]) -> dict[str, str]:
    """The call that each call goes on from, by id; a call that goes on from none is left out."""
    candidates = [(call.full, call) for call in calls if call.prompt is not None and call.token_ids]
    candidates.sort(
        key=lambda item: (len(item[0]), item[1].ended_at or item[1].started_at, item[1].order), reverse=True
    )
    parents = {}
    for call in calls:
        if call.prompt is None:
            continue
        for full, other in candidates:
            if len(full) <= len(call.prompt) and other is not call and call.prompt.startswith(full):
                parents[call.call_id] = other.call_id
                break
    return parents


def _judge_siblings(calls: Sequence[LoggedCall], parents: dict[str, str]) -> dict[str, LoggedCall]:
    """The calls by id, with a fault on those answers to one prompt that cannot be told to have been used."""
    continued = set(parents.values())
    by_prompt: dict[bytes, list[LoggedCall]] = defaultdict(list)
    for call in calls:
        if call.prompt is not None:
            by_prompt[call.prompt].append(call)
    faults: dict[str, str] = {}
    for siblings in by_prompt.values():
        if len(siblings) < 2:
            continue
        used = [call for call in siblings if call.call_id in continued]
        if len(used) == 1:
            faults.update({call.call_id: "sibling_not_used" for call in siblings if call is not used[0]})
        else:
            faults.update({call.call_id: call.fault or "ambiguous_siblings" for call in siblings})
    return {c.call_id: replace(c, fault=faults[c.call_id]) if c.call_id in faults else c for c in calls}


def _branches(calls: dict[str, LoggedCall], parents: dict[str, str], name_branch: NameBranch) -> tuple[Branch, ...]:
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


def _paths(calls: dict[str, LoggedCall], parents: dict[str, str]) -> Iterator[tuple[LoggedCall, ...]]:
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
    """The sampled span of a call, cut where the engine forced a token."""
    base, length = len(call.prompt or b"") // _ID_BYTES, len(call.token_ids or b"") // _ID_BYTES
    cuts = sorted(position for position in call.forced if position < length)
    begin = 0
    for cut in (*cuts, length):
        if cut > begin or length == 0:
            yield Span(call, base + begin, base + cut, owned, begin)
        begin = cut + 1


def check_conservation(calls: Iterable[LoggedCall], branches: Sequence[Branch]) -> None:
    """Raise when a sampled token would train twice or never, or a span holds other tokens than its call.

    Only our own bug can break it.
    """
    owned: Counter[str] = Counter()
    for branch in branches:
        tokens = branch.token_ids
        for span in branch.spans:
            own = (span.call.token_ids or b"")[span.skipped * _ID_BYTES :][: (span.end - span.start) * _ID_BYTES]
            if tokens[span.start * _ID_BYTES : span.end * _ID_BYTES] != own or not tokens.startswith(span.call.full):
                raise TracemillError(
                    f"call {span.call.call_id}: its sequence holds other tokens than the log; expected the logged "
                    "ones. This is a bug in stitching, nothing was written: report it with the lines of the trace"
                )
            if span.owned:
                owned[span.call.call_id] += span.end - span.start
    for call in calls:
        sampled = len(call.token_ids or b"") // _ID_BYTES - len(call.forced)
        if owned[call.call_id] != sampled:
            raise TracemillError(
                f"call {call.call_id}: {owned[call.call_id]} of {sampled} sampled tokens are owned; expected each "
                "once. This is a bug in stitching, nothing was written: report it with the lines of the trace"
            )
