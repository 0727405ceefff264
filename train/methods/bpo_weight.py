"""BPO's weight: what a token's probability leaves to the others, compared between the two policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from train.batch import Batch
from train.methods import requirements, terms
from train.methods.corrections import Weights, closing

SMALLEST_EPSILON = 1e-12
"""Below it a certain token divides by nothing. Convention, untested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BPOWeight:
    """The bounded weight (1 + eps - mu) / (1 + eps - pi) of tokens that have not moved too far their advantage's way.

    Whether a token has moved too far is decided on the weight before the cap. Around another advantage than that of a
    group this is BPO's weight, not BPO: say so in a report.
    """

    name: ClassVar[str] = "bpo_weight"
    splits: ClassVar[bool] = True

    epsilon: float = 0.1
    """Bounds the weight at (1 + epsilon) / epsilon. BPO, arXiv:2609.15987; TRL's experimental `BPOTrainer`."""
    cap: float = 3.0
    """Highest weight. BPO, arXiv:2609.15987; TRL's experimental `BPOTrainer`."""
    low: float = 0.2
    """How far below 1 the weight of a token with a negative advantage may fall. TRL, grpo_trainer.py, from which its
    `BPOTrainer` inherits it."""
    high: float = 0.2
    """How far above 1 the weight of a token with a positive advantage may rise. TRL, grpo_trainer.py, from which its
    `BPOTrainer` inherits it; the paper's DAPO baseline has 0.28."""

    def __post_init__(self) -> None:
        """Refuse what is no weight and no clip."""
        requirements.option_number(self, "epsilon", low=SMALLEST_EPSILON, hint="0.1 is the paper's")
        requirements.option_number(self, "cap", low=1.0, hint="inf leaves the weight to epsilon alone")
        requirements.option_number(self, "low", low=0.0, high=1.0, hint="0.2 is usual")
        requirements.option_number(self, "high", low=0.0, hint="0.2 is usual")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:
        """The weights min(omega, cap), 0 where omega is beyond its bound the advantage's way."""
        current, behavior = requirements.scored(batch, self.name)
        weights = terms.bpo_weights(current, behavior, self.epsilon)
        closed = terms.moved_with_advantage(weights - 1.0, advantages > 0, advantages < 0, self.low, self.high)
        return closing(weights.clamp(max=self.cap), closed)
