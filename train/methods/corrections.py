"""Rules that correct single tokens for their age: what an advantage is multiplied by.

With logged traces there is one ratio, current over behavior, pi/mu. Rules published for the ratio between two engines
of one policy (TIS, IcePop) or against the policy before an epoch (PPO) are applied to that ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from train.batch import Batch
from train.methods import requirements, terms

LOG_RATIO_BOUND = 20.0
"""Log-ratios are cut at this where a rule bounds them by nothing else. verl, core_algos.py, safety clamp."""

KL_GUARD = 1e-8
"""Added to both complements in DPPO's KL. DPPO release Stable-RL, core_algos.py."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Weights:
    """What a rule makes of a batch."""

    factors: Tensor
    """[A] what the advantage of an action token is multiplied by; 0 on masked tokens."""
    kept: Tensor | None = None
    """[A] True on tokens that the rule keeps; None for all."""
    auxiliary: Tensor | None = None
    """[A, K] what the advantage is multiplied by for each recorded token; None for a rule that reads no records."""


class Correction(Protocol):
    """A frozen rule."""

    name: ClassVar[str]
    splits: ClassVar[bool]

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:
        """The weights of the action tokens of a batch with these advantages [A]."""


def logged_ratios(batch: Batch, rule: str, bound: float | None = None) -> Tensor:
    """Importance ratios [A], their logarithms cut at `bound` if there is one; refused without behavior_logprobs."""
    if bound is None:
        return requirements.importance_ratios(batch, rule)
    return terms.importance_ratios(requirements.log_ratios(batch, rule).clamp(-bound, bound))


def keeping(factors: Tensor, kept: Tensor) -> Weights:
    """Weights with these factors where kept, 0 elsewhere."""
    return Weights(factors=torch.where(kept, factors, 0.0), kept=kept)


def closing(factors: Tensor, closed: Tensor) -> Weights:
    """Weights with these factors but where closed, 0 there."""
    return keeping(factors, ~closed)


@dataclass(frozen=True, kw_only=True, slots=True)
class NoCorrection:
    """Every token counts as if the current policy had written it."""

    name: ClassVar[str] = "none"
    splits: ClassVar[bool] = True

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:  # noqa: ARG002 - one signature for all rules
        """1 on each action token."""
        return Weights(factors=torch.ones_like(advantages))


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportanceSampling:
    """The ratio itself."""

    name: ClassVar[str] = "is"
    splits: ClassVar[bool] = True

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:  # noqa: ARG002 - one signature for all rules
        """The weights rho."""
        return Weights(factors=logged_ratios(batch, self.name, LOG_RATIO_BOUND))


@dataclass(frozen=True, kw_only=True, slots=True)
class TIS:
    """Truncated importance sampling: the ratio, kept within bounds."""

    name: ClassVar[str] = "tis"
    splits: ClassVar[bool] = True

    low: float = 0.0
    """Lowest weight. slime, loss.py; verl, core_algos.py; OpenRLHF has 0.5."""
    high: float = 2.0
    """Highest weight. slime, loss.py; verl, core_algos.py; OpenRLHF has 5."""

    def __post_init__(self) -> None:
        """Refuse bounds in the wrong order."""
        requirements.option_bounds(self, "low", "high")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:  # noqa: ARG002 - one signature for all rules
        """The weights clamp(rho, low, high)."""
        return Weights(factors=logged_ratios(batch, self.name).clamp(self.low, self.high))


@dataclass(frozen=True, kw_only=True, slots=True)
class IcePop:
    """The ratio of tokens within inclusive bounds; the others are masked."""

    name: ClassVar[str] = "icepop"
    splits: ClassVar[bool] = True

    low: float = 0.5
    """Lowest ratio that is kept. Ring-1T; OpenRLHF, loss.py."""
    high: float = 5.0
    """Highest ratio that is kept. Ring-1T; OpenRLHF, loss.py."""

    def __post_init__(self) -> None:
        """Refuse bounds in the wrong order."""
        requirements.option_bounds(self, "low", "high")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:  # noqa: ARG002 - one signature for all rules
        """The weights rho where low <= rho <= high."""
        ratios = logged_ratios(batch, self.name)
        return keeping(ratios, (ratios >= self.low) & (ratios <= self.high))


@dataclass(frozen=True, kw_only=True, slots=True)
class PPO:
    """The ratio of tokens that have not moved too far in their advantage's direction."""

    name: ClassVar[str] = "ppo"
    splits: ClassVar[bool] = True

    low: float = 0.2
    """How far below 1 a ratio may fall. Schulman et al. 2017, arXiv:1707.06347."""
    high: float = 0.2
    """How far above 1 a ratio may rise. arXiv:1707.06347; DAPO has 0.28."""
    dual: float = torch.inf
    """Highest ratio of a token with a negative advantage; inf leaves it unbounded. Off in arXiv:1707.06347; verl's
    dual clip, core_algos.py, has 3."""

    def __post_init__(self) -> None:
        """Refuse what is no clip."""
        requirements.option_number(self, "low", low=0.0, high=1.0, hint="0.2 is usual")
        requirements.option_number(self, "high", low=0.0, hint="0.2 is usual")
        requirements.option_number(self, "dual", low=1.0, hint="inf turns it off")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:
        """The weights rho unless clipped: the gradient of max(-A rho, -A clip(rho, 1 - low, 1 + high))."""
        ratios = logged_ratios(batch, self.name)
        rising, falling = advantages > 0, advantages < 0
        closed = terms.moved_with_advantage(ratios - 1.0, rising, falling, self.low, self.high)
        if self.dual < torch.inf:
            closed |= falling & (ratios > self.dual)
        return closing(ratios, closed)


@dataclass(frozen=True, kw_only=True, slots=True)
class CISPO:
    """The clipped ratio as a weight: no token loses its gradient."""

    name: ClassVar[str] = "cispo"
    splits: ClassVar[bool] = True

    low: float = 0.2
    """How far below 1 a weight may fall. Convention, untested."""
    high: float = 0.28
    """How far above 1 a weight may rise. Convention, untested."""

    def __post_init__(self) -> None:
        """Refuse what is no clip."""
        requirements.option_number(self, "low", low=0.0, high=1.0, hint="1 has no lower bound")
        requirements.option_number(self, "high", low=0.0, hint="inf has no upper bound")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:  # noqa: ARG002 - one signature for all rules
        """The weights clamp(rho, 1 - low, 1 + high)."""
        ratios = logged_ratios(batch, self.name)
        return Weights(factors=ratios.clamp(1.0 - self.low, 1.0 + self.high))


@dataclass(frozen=True, kw_only=True, slots=True)
class DPPOTV:
    """The ratio of tokens whose probability has not moved too far in their advantage's direction."""

    name: ClassVar[str] = "dppo_tv"
    splits: ClassVar[bool] = True

    low: float = 0.15
    """How far a probability may fall. DPPO, arXiv:2602.04879, own scripts."""
    high: float = 0.15
    """How far a probability may rise. DPPO, arXiv:2602.04879, own scripts."""
    truncate: float = torch.inf
    """Highest weight; inf leaves rare tokens unbounded, as golden_critic, core_algos.py, does; Stable-RL has 10."""

    def __post_init__(self) -> None:
        """Refuse what is no clip."""
        requirements.option_number(self, "low", low=0.0, high=1.0, hint="0.15 is the paper's")
        requirements.option_number(self, "high", low=0.0, high=1.0, hint="0.15 is the paper's")
        requirements.option_number(self, "truncate", low=1.0, hint="inf turns it off")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:
        """The weights rho unless pi - mu is beyond its bound the advantage's way."""
        ratios = logged_ratios(batch, self.name).clamp(max=self.truncate)
        moved = terms.probability_moves(*requirements.scored(batch, self.name))
        return closing(ratios, _closed(moved, advantages, self.low, self.high))


@dataclass(frozen=True, kw_only=True, slots=True)
class DPPOKL:
    """The ratio of tokens whose binary KL is small, or which moved against their advantage."""

    name: ClassVar[str] = "dppo_kl"
    splits: ClassVar[bool] = True

    low: float = 0.05
    """Highest KL of a probability that fell, in nats. Convention, untested."""
    high: float = 0.05
    """Highest KL of a probability that rose, in nats. Convention, untested."""

    def __post_init__(self) -> None:
        """Refuse what is no bound."""
        requirements.option_number(self, "low", low=0.0, hint="inf never closes a token")
        requirements.option_number(self, "high", low=0.0, hint="inf never closes a token")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:
        """The weights rho unless KL(mu || pi) is beyond its bound and the token moved the advantage's way."""
        current, behavior = requirements.scored(batch, self.name)
        # It has the sign of the move, so that a bound on either side is one on what is signed.
        signed = terms.guarded_kl(behavior, current, KL_GUARD).copysign_(requirements.log_ratios(batch, self.name))
        return closing(logged_ratios(batch, self.name), _closed(signed, advantages, self.low, self.high))


@dataclass(frozen=True, kw_only=True, slots=True)
class IPO:
    """The ratio of tokens whose probability has not moved far, whatever their advantage."""

    name: ClassVar[str] = "ipo"
    splits: ClassVar[bool] = True

    bound: float = 0.1
    """How far a probability may move. prime-rl, loss.py, August 2026."""

    def __post_init__(self) -> None:
        """Refuse what is no bound."""
        requirements.option_number(self, "bound", low=0.0, high=1.0, hint="1 never closes a token")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:  # noqa: ARG002 - one signature for all rules
        """The weights rho where abs(pi - mu) <= bound."""
        moved = terms.probability_moves(*requirements.scored(batch, self.name))
        return keeping(logged_ratios(batch, self.name), moved.abs() <= self.bound)


def _closed(moved: Tensor, advantages: Tensor, down: float, up: float) -> Tensor:
    """Tokens that moved with their advantage; an advantage of 0 is a push down, as DPPO's release reads it."""
    rising = advantages > 0
    return terms.moved_with_advantage(moved, rising, ~rising, down, up)
