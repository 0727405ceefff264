"""How coefficients become weights: AdamW, its learning rate by the number of the update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

LOWEST_RATE = 0.1
"""Share of the learning rate at which a cosine ends. FlashREINFORCE reference repository, its docs/training.md."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimization:
    """AdamW's settings for a run of `num_updates`."""

    learning_rate: float
    schedule: Literal["constant", "cosine"]
    warmup_updates: int
    num_updates: int
    betas: tuple[float, float]
    weight_decay: float
    max_grad_norm: float

    def rate(self, update: int) -> float:
        """Learning rate of the update of that number, from 0: a linear warm-up, then constant or down to a tenth."""
        if update < self.warmup_updates:
            return self.learning_rate * (update + 1) / (self.warmup_updates + 1)
        if self.schedule == "constant":
            return self.learning_rate
        done = (update - self.warmup_updates) / max(1, self.num_updates - self.warmup_updates)
        return self.learning_rate * (LOWEST_RATE + (1 - LOWEST_RATE) * (1 + math.cos(math.pi * done)) / 2)

    def optimizer(self, parameters: Mapping[str, torch.nn.Parameter]) -> torch.optim.AdamW:
        """An optimizer of these parameters, in their order."""
        return torch.optim.AdamW(
            list(parameters.values()), lr=self.learning_rate, betas=self.betas, weight_decay=self.weight_decay
        )
