"""The action tokens of a batch alone: the axis on which updates are computed."""

from __future__ import annotations

import torch
from torch import Tensor


def first_true(flags: Tensor) -> int | None:
    """Where the first True stands in flags [N]; None when there is none."""
    return int(flags.nonzero()[0]) if bool(flags.any()) else None


class ActionAxis:
    """The A action tokens among N packed ones, trace by trace in time order; found once, for all updates of a batch.

    Whatever lies off the action mask is left behind by `pack`, so that nothing that is computed on this axis can read
    it. When all N tokens are action tokens and stand trace by trace, both axes are one and nothing is copied.
    """

    def __init__(self, mask: Tensor, trace_index: Tensor, num_traces: int) -> None:
        self.num_tokens = len(mask)
        """N, the tokens of the batch."""
        self.positions = mask.nonzero().flatten()
        """[A] where each action token stands among the N."""
        self.traces = trace_index.index_select(0, self.positions)
        """[A] its trace; never falls along the axis."""
        if bool((self.traces[1:] < self.traces[:-1]).any()):  # Sequences of one trace may lie apart: sorting is slow.
            order = torch.argsort(self.traces, stable=True)
            self.positions, self.traces = self.positions[order], self.traces[order]
        self.counts = torch.bincount(self.traces, minlength=num_traces)
        """[B] action tokens of each trace."""
        self._sources = self._found_sources(mask)

    def __len__(self) -> int:
        """A, the action tokens."""
        return len(self.positions)

    @property
    def is_whole(self) -> bool:
        """Whether all tokens are action tokens that stand trace by trace, so that both axes are one."""
        return self._sources is None

    def pack(self, tokens: Tensor) -> Tensor:
        """The entries of the action tokens; [N] or [N, K] to [A] or [A, K]."""
        return tokens if self.is_whole else tokens.index_select(0, self.positions)

    def spread(self, actions: Tensor) -> Tensor:
        """Numbers of the action tokens back among the others, which have 0 or False; [A] or [A, K] to [N] or [N, K]."""
        if self._sources is None:
            return actions
        # Reading with a 0 at the end is several times as fast as writing to scattered places.
        return torch.cat([actions, actions.new_zeros((1, *actions.shape[1:]))]).index_select(0, self._sources)

    def of_traces(self, traces: Tensor) -> Tensor:
        """The number of its trace for each action token; [B] to [A]."""
        return traces.index_select(0, self.traces)

    def _found_sources(self, mask: Tensor) -> Tensor | None:
        """[N] where `spread` finds the number of each token, A for one that has none; None where the axes are one."""
        order = torch.arange(len(self.positions), device=mask.device)
        if len(self.positions) == len(mask) and bool((self.positions == order).all()):
            return None
        sources = torch.full((len(mask),), len(self.positions), device=mask.device)
        return sources.index_copy_(0, self.positions, order)
