"""What is fixed on a whole batch before it is split, so that no split changes the update."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchStatistics:
    """Counts and the mean reward of the whole batch."""

    num_traces: int
    """Traces of the whole batch, those that a gate will mask included."""
    num_action_tokens: int
    """Action tokens of the whole batch."""
    mean_reward: float
    """Mean reward over its traces."""
    equal_rewards: bool
    """Whether all its rewards are one number, so that no baseline of rewards leaves an advantage."""

    @staticmethod
    def of(rewards: Tensor, num_action_tokens: Tensor) -> BatchStatistics:
        """Statistics of traces with these rewards [B] and token counts [B]."""
        # Taken around the first reward, so that equal rewards have exactly themselves as their mean.
        mean = rewards[0] + (rewards - rewards[0]).mean()
        return BatchStatistics(
            num_traces=len(rewards),
            num_action_tokens=int(num_action_tokens.sum()),
            mean_reward=float(mean),
            equal_rewards=bool((rewards == rewards[0]).all()),
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GroupStatistics:
    """Mean, deviation and size of the group of each trace, over the whole batch."""

    means: Tensor
    """[B] mean reward of the traces of its ask."""
    deviations: Tensor
    """[B] standard deviation of the same, with Bessel's correction; 0 for a group of one."""
    sizes: Tensor
    """[B] traces of its ask."""

    @staticmethod
    def of(rewards: Tensor, groups: Tensor) -> GroupStatistics:
        """Statistics of the groups of these rewards [B]."""
        _, index, sizes = torch.unique(groups, return_inverse=True, return_counts=True)
        zeros = torch.zeros(len(sizes), dtype=torch.float64, device=rewards.device)
        # Around the lowest reward, so that equal rewards deviate by exactly 0 from their mean.
        lowest = torch.full_like(zeros, torch.inf).scatter_reduce(0, index, rewards, "amin")
        means = lowest + zeros.index_add(0, index, rewards - lowest[index]) / sizes
        squares = zeros.index_add(0, index, (rewards - means[index]) ** 2)
        deviations = (squares / (sizes - 1).clamp(min=1)).sqrt()
        return GroupStatistics(means=means[index], deviations=deviations[index], sizes=sizes[index])

    def of_traces(self, traces: Tensor) -> GroupStatistics:
        """Those of some of the traces, by index."""
        return GroupStatistics(means=self.means[traces], deviations=self.deviations[traces], sizes=self.sizes[traces])

    def to(self, device: torch.device | str) -> GroupStatistics:
        """The same on `device`."""
        return GroupStatistics(
            means=self.means.to(device), deviations=self.deviations.to(device), sizes=self.sizes.to(device)
        )
