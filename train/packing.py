"""Sequences put one after the other without padding, each common beginning once.

Traces of one agent begin alike, and the sequences of a forked trace share most of their tokens. Sorted, they form a
tree: a segment of tokens that several sequences go through is computed once, and what follows it attends to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from train.attention import PackLayout, Segment
from train.sequences import LoggedSequence

Trace = tuple[LoggedSequence, ...]
Slots = npt.NDArray[np.int64]

WORTH_SHARING = 8
"""Slots that a shared segment must save. One more segment costs as much as 5 slots (a forward pass of the example's
model, measured 2026-11-30)."""


@dataclass(frozen=True, eq=False)
class Pack:
    """Sequences on one token axis of N slots, which are fewer than their tokens where they begin alike.

    Exact for a model whose only way from one token to another is causal attention.
    """

    sequences: tuple[LoggedSequence, ...]
    layout: PackLayout
    """Where the segments lie and what each of them follows."""
    token_ids: Tensor
    """[N] token of each slot."""
    position_ids: Tensor
    """[N] position of each slot in its sequences."""
    sequence_slots: tuple[Slots, ...]
    """[T] slot of each token, for each sequence."""

    @property
    def num_slots(self) -> int:
        """Tokens that the model computes."""
        return len(self.token_ids)

    @property
    def num_tokens(self) -> int:
        """Tokens of the sequences, shared ones counted in each."""
        return sum(len(sequence.token_ids) for sequence in self.sequences)


def build_packs(traces: Sequence[Trace], *, token_budget: int) -> list[Pack]:
    """Packs of about `token_budget` slots, all sequences of a trace in one of them.

    Traces are sorted by their tokens, so that neighbours share as much as they can. One that is longer than the
    budget gets a pack to itself.
    """
    ordered = sorted(traces, key=lambda trace: (_sort_key(trace[0]), trace[0].trace_id))
    packs: list[Pack] = []
    held: list[LoggedSequence] = []
    num_slots = 0
    for trace in ordered:
        added = _slots_added([*held[-1:], *trace], is_first=not held)
        if held and num_slots + added > token_budget:
            packs.append(make_pack(held))
            held, num_slots, added = [], 0, _slots_added(trace, is_first=True)
        held += trace
        num_slots += added
    return [*packs, make_pack(held)] if held else packs


def make_pack(sequences: Sequence[LoggedSequence], *, share: bool = True) -> Pack:
    """One pack of these sequences, in this order; without `share`, each is a segment of its own."""
    tree = _Tree(sequences)
    if share:
        tree.grow()
    else:
        for index in range(len(sequences)):
            tree.end(index, depth=0, path=())
    return Pack(
        sequences=tuple(sequences),
        layout=PackLayout(tuple(tree.segments)),
        token_ids=torch.from_numpy(np.concatenate(tree.token_ids).astype(np.int64)),
        position_ids=torch.from_numpy(np.concatenate(tree.position_ids)),
        sequence_slots=tuple(tree.slots[index] for index in range(len(sequences))),
    )


def common_prefix_length(first: LoggedSequence, second: LoggedSequence) -> int:
    """Tokens with which both begin."""
    length = min(len(first.token_ids), len(second.token_ids))
    differs = np.flatnonzero(first.token_ids[:length] != second.token_ids[:length])
    return int(differs[0]) if len(differs) else length


@dataclass
class _Tree:
    """Segments as they are found, from the root outwards."""

    sequences: Sequence[LoggedSequence]
    segments: list[Segment] = field(default_factory=list)
    token_ids: list[npt.NDArray[np.int32]] = field(default_factory=list)
    position_ids: list[Slots] = field(default_factory=list)
    slots: dict[int, Slots] = field(default_factory=dict)
    num_slots: int = 0

    def grow(self) -> None:
        """Split sorted sequences where they part, and share what is worth it."""
        whole = sorted(range(len(self.sequences)), key=lambda index: _sort_key(self.sequences[index]))
        waiting: list[tuple[list[int], int, tuple[int, ...]]] = [(whole, 0, ())]
        while waiting:
            group, depth, path = waiting.pop()
            if len(group) == 1:
                self.end(group[0], depth, path)
                continue
            # Sorted, so what the first and the last have in common all have in common.
            shared = common_prefix_length(self.sequences[group[0]], self.sequences[group[-1]])
            if (shared - depth) * (len(group) - 1) >= WORTH_SHARING:
                path = self.add(group[0], depth, shared, path)
                depth = shared
            waiting += [(part, depth, path) for part in reversed(list(self._parted(group, shared)))]

    def _parted(self, group: Sequence[int], shared: int) -> Iterator[list[int]]:
        """The group by the token after what it shares; sequences that end there come first, one by one."""
        longer = []
        for index in group:
            if len(self.sequences[index].token_ids) == shared:
                yield [index]
            else:
                longer.append(index)
        for _, part in groupby(longer, key=lambda index: int(self.sequences[index].token_ids[shared])):
            yield list(part)

    def add(self, index: int, start: int, end: int, path: tuple[int, ...]) -> tuple[int, ...]:
        """A segment with the tokens [start, end) of a sequence, behind `path`; returns the path that it ends."""
        if start == end:
            return path
        self.segments.append(Segment(start=self.num_slots, length=end - start, before=path))
        self.token_ids.append(self.sequences[index].token_ids[start:end])
        self.position_ids.append(np.arange(start, end))
        self.num_slots += end - start
        return (*path, len(self.segments) - 1)

    def end(self, index: int, depth: int, path: tuple[int, ...]) -> None:
        """The rest of a sequence as its own segment, and the slots that all of it lies in."""
        path = self.add(index, depth, len(self.sequences[index].token_ids), path)
        self.slots[index] = np.concatenate([self.segments[number].slots for number in path])


def _slots_added(sequences: Sequence[LoggedSequence], *, is_first: bool) -> int:
    """Slots that sequences take behind the one before them; the very first of a pack has nothing to share."""
    own = len(sequences[0].token_ids) if is_first else 0
    return own + sum(
        len(later.token_ids) - common_prefix_length(earlier, later) for earlier, later in pairwise(sequences)
    )


def _sort_key(sequence: LoggedSequence) -> bytes:
    """Bytes that sort as the list of tokens does: ids are never negative, the high byte comes first."""
    return sequence.token_ids.astype(">i4").tobytes()
