"""Centred scores: the gradient of a token's logprob less its mean under the behavior policy, from recorded tokens.

q is the behavior policy and p the current one, [A] the axis of action tokens, [A, K] recorded tokens. Each equation
gives the shares w of a centred score

    z = f grad log p(a) - sum_j w_j grad log p(v_j)

and the divergence k, what the centering knows of KL(q || p) at that token, in nats. All in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from train import records
from train.batch import Batch
from train.methods import corrections, requirements, terms
from train.methods.corrections import Weights
from train.records import Records

TAIL_FLOOR = 1e-6
"""Least probability of all tokens outside of a head, under either policy. KLPO, arXiv:2610.08963, loss code; score
centering, arXiv:2609.20807, has the same."""

HIGHEST_CAP = 1e6
"""Beyond it a ratio is as good as not capped. Convention, untested."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Centred:
    """What one centering makes of each token."""

    divergences: Tensor
    """[A] k."""
    factors: Tensor | None = None
    """[A] f, what the score of the sampled token is multiplied by; None for 1."""
    shares: Tensor | None = None
    """[A, K] w, what the scores of the recorded tokens are multiplied by; None where there are none."""
    columns: Tensor | None = None
    """[A, M] k of each draw by itself; None where there are no draws."""
    head_masses: Tensor | None = None
    """[A] probability of the recorded head under the behavior policy; None where there is no head."""
    floored: Tensor | None = None
    """[A] True where the current policy leaves less than TAIL_FLOOR to the tail; None where there is no head."""


def exact(found: Records) -> Centred:
    """Over the whole vocabulary: w = q, k = sum q log(q/p); from the two sums alone if that is what was recorded."""
    behavior, current = _numbers(found)
    if found.kind == "expected":
        shares, divergences = torch.ones_like(current), (behavior - current).squeeze(1)
    else:
        shares = torch.exp(behavior)
        divergences = (shares * _log_ratios(behavior, current)).sum(1)
    return Centred(divergences=divergences, shares=shares)


def monte_carlo(found: Records) -> Centred:
    """Over M draws, duplicates and all: w = 1/M, k_j = log q(v_j) - log p(v_j), k their mean, which may be negative."""
    behavior, current = _numbers(found)
    columns = behavior - current
    shares = columns.new_full((1, 1), 1.0 / found.num_records).expand(columns.shape)
    return Centred(divergences=columns.mean(1), shares=shares, columns=columns)


def top_k(found: Records, *, literal: bool) -> Centred:
    """Over a head H, the tail modelled as p rescaled: w = q - rho p, rho = q_tail / p_tail, tails not under TAIL_FLOOR.

        k = sum_H q log(q/p) + q_tail log(q_tail / p_tail)

    `literal` takes the derivative of that k as it is: nothing passes through a floored tail, so w = q there. Otherwise
    rho is of the floored tail, and w can reach 1e5.
    """
    behavior, current = _numbers(found)
    behavior_head, current_head = torch.exp(behavior), torch.exp(current)
    head_masses = behavior_head.sum(1)
    behavior_tail = (1.0 - head_masses).clamp(min=TAIL_FLOOR)
    current_tail = 1.0 - current_head.sum(1)
    floored = current_tail < TAIL_FLOOR
    rho = behavior_tail / current_tail.clamp(min=TAIL_FLOOR)
    modelled = torch.where(floored, 0.0, rho) if literal else rho
    divergences = (behavior_head * _log_ratios(behavior, current)).sum(1) + behavior_tail * torch.log(rho)
    return Centred(
        divergences=divergences,
        shares=behavior_head - modelled[:, None] * current_head,
        head_masses=head_masses,
        floored=floored,
    )


def binary(behavior_logprobs: Tensor, logprobs: Tensor) -> Centred:
    """From the sampled token alone, the other tokens taken as one: f = (1 - q)/(1 - p), k of the two coins.

    Both [A], below 0. The score is not centred: its mean under q is not 0.
    """
    behavior, current = behavior_logprobs.double(), logprobs.double()
    return Centred(
        divergences=terms.guarded_kl(behavior, current, 0.0), factors=torch.expm1(behavior) / torch.expm1(current)
    )


def truncated(found: Records, cap: float) -> Tensor:
    """Shares [A, K] of a score weighed by min(p/q, cap), less its mean: w = min(p, cap q) - min(1, cap rho) p.

    rho and the floors are those of `top_k`. Score centering, arXiv:2609.20807, Eq. 7-12.
    """
    behavior_head, current_head = (torch.exp(values) for values in _numbers(found))
    behavior_tail, current_tail = ((1.0 - head.sum(1)).clamp(min=TAIL_FLOOR) for head in (behavior_head, current_head))
    tail_weights = (cap * behavior_tail / current_tail).clamp(max=1.0)
    return torch.minimum(current_head, cap * behavior_head) - tail_weights[:, None] * current_head


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreCentering:
    """The ratio up to a cap, and each score less its mean under the behavior policy, so that stale traces do not drift.

        A min(rho, cap) grad log p(a) - A sum_H w_v grad log p(v)      w of `centering.truncated`

    Without it a mean advantage away from 0 pulls the policy back to what wrote the traces. Reads "top_k" records; the
    tail is modelled, so that the mean is 0 only as far as the head holds the behavior policy's probability: its authors
    had 99.9% at K = 128. arXiv:2609.20807; torchtitan, `ScoreCenteringLoss`.
    """

    name: ClassVar[str] = "score_centering"
    splits: ClassVar[bool] = True

    cap: float = 2.0
    """Highest ratio. Score centering, arXiv:2609.20807; torchtitan, score_centering.py, default."""

    def __post_init__(self) -> None:
        """Refuse a cap that would weigh down traces of the policy itself."""
        requirements.option_number(self, "cap", low=1.0, high=HIGHEST_CAP, hint="2 is the published one")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:  # noqa: ARG002 - one signature for all rules
        """The weights min(rho, cap) of the sampled tokens, and minus the shares of the recorded ones."""
        ratios = corrections.logged_ratios(batch, self.name).clamp(max=self.cap)
        found = records.examined(batch, self.name, ("top_k", "full"), "another correction, such as tis")
        return Weights(factors=ratios, auxiliary=-truncated(on_actions(batch, found), self.cap))


def on_actions(batch: Batch, found: Records) -> Records:
    """The records of the action tokens alone."""
    return found if batch.actions.is_whole else found.select(batch.actions.positions)


def _numbers(found: Records) -> tuple[Tensor, Tensor]:
    """Both log-probabilities [A, K] in float64."""
    behavior, current = found.scored()
    return behavior.double(), current.double()


def _log_ratios(behavior: Tensor, current: Tensor) -> Tensor:
    """Log-ratios log q - log p, 0 where q is 0: 0 log 0 is 0."""
    return torch.where(behavior > -torch.inf, behavior - current, 0.0)
