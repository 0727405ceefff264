"""Rules that clip around a policy between the writing and the current one, or by a budget of variance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from schemas.errors import BatchError
from train.batch import Batch
from train.methods import requirements, terms
from train.methods.corrections import Weights, closing, keeping, logged_ratios

BUDGET_GUARD = 1e-12
"""Taken off the budget before it is spent. M2PO release, core_algos.py."""


def budgeted_bound(squares: Tensor, budget: float) -> float:
    """Largest value tau^2 among `squares` for which sum min(v, tau^2) stays within n budget; 0 if there is none.

    inf when the mean is within the budget as it is. M2PO release.
    """
    if not len(squares) or float(squares.mean()) <= budget:
        return math.inf
    ordered, _ = torch.sort(squares.double())
    following = len(ordered) - torch.arange(1, len(ordered) + 1, device=ordered.device)
    spent = torch.cumsum(ordered, 0) + following * ordered
    within = ordered[spent < len(ordered) * budget - BUDGET_GUARD]
    return float(within[-1]) if len(within) else 0.0


def exact_bound(squares: Tensor, budget: float) -> float:
    """The tau^2 for which sum min(v, tau^2) is n budget, data value or not; inf when the mean is within the budget."""
    if not len(squares) or float(squares.mean()) <= budget:
        return math.inf
    ordered, _ = torch.sort(squares.double())
    before = torch.cumsum(ordered, 0) - ordered
    levels = (len(ordered) * budget - before) / (len(ordered) - torch.arange(len(ordered), device=ordered.device))
    return float(levels[int((levels > ordered).sum())])


def kept_within_budget(squares: Tensor, budget: float) -> Tensor:
    """True on all but the largest values, so many that the mean of the rest is below the budget; at least one stays."""
    ordered, order = torch.sort(squares.double(), stable=True)
    means = torch.cumsum(ordered, 0) / torch.arange(1, len(ordered) + 1, device=ordered.device)
    num_kept = max(1, int((means < budget).sum()))
    return torch.zeros_like(squares, dtype=torch.bool).index_fill(0, order[:num_kept], True)


@dataclass(frozen=True, kw_only=True, slots=True)
class M2PO:
    """PPO's clip, as wide as a budget for the second moment of the log-ratios allows; needs the whole batch.

    "clip", the authors' form: v = (log rho)^2 over the tokens that moved the way of their advantage; when its mean is
    beyond the budget, ratios are clipped at exp(+-tau), tau^2 being the largest v that brings the sum of min(v, tau^2)
    under it. "exact" takes the tau that makes it equal. "mask", AReaL's: the tokens of largest v, whatever their
    advantage, are masked until the mean of the rest is under the budget. These are different rules. The release reads
    the sign of a trace's advantage off its first token; here each token has its own.
    """

    name: ClassVar[str] = "m2po"
    splits: ClassVar[bool] = False

    budget: float = 0.04
    """Highest mean of (log rho)^2. M2PO release, core_algos.py, M2_budget."""
    low: float = 0.3
    """The clip is never tighter than this below 1. M2PO release, core_algos.py, miniclip."""
    high: float = 0.5
    """The clip is never tighter than this above 1. M2PO release, core_algos.py, miniclip."""
    form: Literal["clip", "exact", "mask"] = "clip"
    """The authors' clip, as in core_algos.py; the same with the exact tau; or AReaL's mask, which reads neither low nor
    high."""

    def __post_init__(self) -> None:
        """Refuse what is no budget and no clip."""
        requirements.option_number(self, "budget", low=0.0, hint="0.04 is the paper's")
        requirements.option_number(self, "low", low=0.0, high=1.0, hint="0.3 is the release's")
        requirements.option_number(self, "high", low=0.0, hint="0.5 is the release's")
        requirements.option_choice(self, "form", ("clip", "exact", "mask"))

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:
        """The weights rho within the clip or under the mask."""
        ratios = logged_ratios(batch, self.name)
        squares = requirements.log_ratios(batch, self.name).double() ** 2
        if self.form == "mask":
            return keeping(ratios, kept_within_budget(squares, self.budget))
        harmful = torch.sign(advantages) * (ratios - 1.0) > 0
        bound = exact_bound if self.form == "exact" else budgeted_bound
        tau = math.sqrt(bound(squares[harmful], self.budget))
        low, high = max(self.low, -math.expm1(-tau)), max(self.high, _expm1(tau))
        return closing(ratios, _clipped(ratios - 1.0, advantages, low, high))


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoupledPPO:
    """PPO's clip around the weights that training began from, times their ratio to what wrote the trace.

        w = pi_prox / mu     rho' = pi / pi_prox     factor = w rho' unless rho' is clipped

    A token whose w is beyond its cap is masked, or its w cut. Needs prox_logprobs. AReaL, decoupled PPO; Hilton et al.
    2021, arXiv:2110.00641.
    """

    name: ClassVar[str] = "decoupled_ppo"
    splits: ClassVar[bool] = True

    low: float = 0.2
    """How far rho' may fall below 1. Convention, untested."""
    high: float = 0.2
    """How far rho' may rise above 1. Convention, untested."""
    cap: float = 5.0
    """Highest w; inf leaves it unbounded, as AReaL now does unless told; 5 was its default. Convention, untested."""
    beyond_cap: Literal["mask", "clamp"] = "mask"
    """What becomes of a token beyond the cap. AReaL, rejection sampling by mask; convention, untested."""

    def __post_init__(self) -> None:
        """Refuse what is no clip."""
        requirements.option_number(self, "low", low=0.0, high=1.0, hint="0.2 is usual")
        requirements.option_number(self, "high", low=0.0, hint="0.2 is usual")
        requirements.option_number(self, "cap", low=0.0, hint="inf turns it off")
        requirements.option_choice(self, "beyond_cap", ("mask", "clamp"))

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:
        """The weights w rho' where rho' is not clipped and w is within its cap."""
        prox = batch.on_actions("prox_logprobs")
        if prox is None:
            raise BatchError(
                f"{self.name}: the batch has no prox_logprobs; expected one a token under the weights that training "
                f"began from; score them before the first update, or use a3po, which needs only policy lags"
            )
        current, behavior = requirements.scored(batch, self.name)
        behaved, moved = (
            terms.importance_ratios(terms.log_ratios(*policies)) for policies in ((prox, behavior), (current, prox))
        )
        closed = _clipped(moved - 1.0, advantages, self.low, self.high)
        if self.beyond_cap == "mask":
            closed |= behaved > self.cap
        return closing(behaved.clamp(max=self.cap) * moved, closed)


@dataclass(frozen=True, kw_only=True, slots=True)
class A3PO:
    """Decoupled PPO with the policy in the middle interpolated by age, so that nothing has to be scored for it.

        log pi_prox = log mu + alpha (log pi - log mu)     alpha = (lag - 1) / lag, 0 up to a lag of 1

    Old traces have alpha near 1, where rho' is 1 and nothing is clipped: what is left is the bare ratio. Needs a policy
    lag, for each trace or each token. AReaL, A-3PO.
    """

    name: ClassVar[str] = "a3po"
    splits: ClassVar[bool] = True

    low: float = 0.2
    """How far rho' may fall below 1. Convention, untested."""
    high: float = 0.2
    """How far rho' may rise above 1. Convention, untested."""

    def __post_init__(self) -> None:
        """Refuse what is no clip."""
        requirements.option_number(self, "low", low=0.0, high=1.0, hint="0.2 is usual")
        requirements.option_number(self, "high", low=0.0, hint="0.2 is usual")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:
        """The weights rho where rho' = rho^(1 - alpha) is not clipped."""
        lags = batch.on_actions("policy_lags")
        if lags is None:
            raise BatchError(
                f"{self.name}: the batch has no policy_lag; expected the updates between writing and now, for each "
                f"trace or token; add it from the policy versions"
            )
        ages = lags.clamp(min=1).double()
        alphas = (ages - 1.0) / ages
        log_ratios = requirements.log_ratios(batch, self.name)
        moved = torch.expm1((1.0 - alphas) * log_ratios)
        return closing(logged_ratios(batch, self.name), _clipped(moved, advantages, self.low, self.high))


def _clipped(moved: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """Tokens whose ratio less 1 is beyond its bound the advantage's way."""
    return terms.moved_with_advantage(moved, advantages > 0, advantages < 0, low, high)


def _expm1(value: float) -> float:
    """exp(value) - 1, infinite where it overflows."""
    return math.expm1(value) if value < terms.LARGEST_EXPONENT else math.inf
