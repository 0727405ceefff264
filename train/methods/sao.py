"""SAO: single-rollout asynchronous optimization, with a critic and a band on the ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from train.batch import Batch
from train.methods import notes, requirements, terms, values
from train.methods.requirements import Undemanding
from train.methods.update import Actions, Update

CODING_BAND = (0.2, 4.0)
"""The band for coding agents. Hou et al. 2026, arXiv:2607.07508, Sec. 4.1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SAO(Undemanding):
    """Each token moves the policy by its advantage over a critic, unless its ratio has left a band.

        A_t    by GAE over action tokens, skipping observations, lambda = 1 - 1/(alpha T)
        rho_t  = exp(log pi_t - log mu_t)
        c_t    = rho_t A_t / N  if low < rho_t < high, else 0, whatever the sign of A_t

    N counts the action tokens of the batch, those outside of the band included. A trace without an action token adds
    nothing. The critic's targets are the plain (discounted) returns.

    Needs reward, behavior_logprobs, action mask and values. The paper does not say how tokens are averaged, nor its
    gamma, nor whether T counts observation tokens; read here as 1/N, 1, and action tokens alone.

    Hou, Li, Tang and Dong 2026, arXiv:2607.07508; no public code.
    """

    name: ClassVar[str] = "sao"
    splits: ClassVar[bool] = True
    needs_critic: ClassVar[bool] = True

    band: tuple[float, float] = (0.7, 6.0)
    """Ratios strictly between the two keep their token. arXiv:2607.07508, Sec. 4.1, for mathematics with tools; its
    coding runs have `CODING_BAND`."""

    gae_alpha: float = 1.5
    """The alpha of lambda = 1 - 1/(alpha T). arXiv:2607.07508, Sec. 4.1."""

    gamma: float = 1.0
    """Discount from one action token to the next; the paper gives none. Convention, untested."""

    aggregation: Literal["token_mean", "trace_mean"] = "token_mean"
    """1/N over the batch's action tokens, or 1/(T B); the paper does not say. Convention, untested."""

    def __post_init__(self) -> None:
        """Refuse what no update can be computed with."""
        requirements.option_range(self, "band", low=0.0, hint="(0.7, 6.0) for reasoning, (0.2, 4.0) for coding")
        requirements.option_number(self, "gae_alpha", low=1e-3, hint="larger trusts the reward more, the critic less")
        requirements.option_number(self, "gamma", low=0.0, high=1.0, hint="1 does not discount")
        requirements.option_choice(self, "aggregation", ("token_mean", "trace_mean"))

    def update(self, batch: Batch) -> Update:
        """The update of `batch`, or of a part of it: only N and B are of the whole."""
        requirements.scored(batch, self.name)
        predicted = requirements.critic_values(batch, self.name)
        actions, counts, whole = batch.actions, batch.num_action_tokens, batch.statistics

        lambdas = values.length_adaptive_lambdas(counts, self.gae_alpha)
        advantages = values.skip_observation_advantages(predicted, batch.rewards, actions, self.gamma, lambdas)
        log_ratios = requirements.log_ratios(batch, self.name)
        ratios = requirements.importance_ratios(batch, self.name)
        in_band = (ratios > self.band[0]) & (ratios < self.band[1])

        scale = terms.normalisers(self.aggregation, counts, whole.num_traces, whole.num_action_tokens)
        kept_ratios = torch.where(in_band, ratios, 0.0)
        num_kept, num_tokens = int(torch.count_nonzero(in_band)), len(actions)
        in_trust = terms.traces_with(in_band, actions.traces, len(counts))
        targets = values.value_targets(batch.rewards, batch.action_mask, batch.trace_index, counts, self.gamma)
        return Update(
            batch=batch,
            method=self.name,
            coefficients=actions.spread((advantages * actions.of_traces(scale)).to(batch.dtype) * kept_ratios),
            of_actions=Actions(advantages=advantages.to(batch.dtype), log_ratios=log_ratios, weights=kept_ratios),
            in_trust=in_trust,
            value_targets=targets.to(batch.dtype),
            stats={
                "in_trust_share": float(in_trust.to(torch.float64).mean()),
                "masked_token_share": 1.0 - num_kept / num_tokens,
                "mean_ratio": terms.mean_over(kept_ratios, num_kept),
                "max_ratio": float(ratios.max()),
                "mean_advantage": terms.mean_over(advantages, num_tokens),
                "mean_lambda": terms.masked_mean(lambdas, counts > 0),
                "num_action_tokens": num_tokens,
            },
            notes=self._notes(batch, log_ratios, in_band, in_trust),
        )

    def _notes(self, batch: Batch, log_ratios: Tensor, in_band: Tensor, in_trust: Tensor) -> list[str]:
        """Which traces lost all their tokens, and whether the band acted at all."""
        low, high = self.band
        num_tokens = len(in_band)
        num_masked = num_tokens - int(torch.count_nonzero(in_band))
        told = [f"the band ({low:g}, {high:g}) masked nothing: this is plain importance-weighted policy gradient"]
        if num_masked:
            below = int((~in_band & (requirements.importance_ratios(batch, self.name) <= low)).sum())
            counted = f"{below} tokens at or below ratio {low:g} and {num_masked - below} at or above {high:g} masked"
            share = f"{num_masked / num_tokens:.2%} of {num_tokens}; {notes.furthest(batch, log_ratios)}"
            told = [f"{counted}, {share}: train sooner after serving or widen the band"]
        lost = (batch.num_action_tokens > 0) & ~in_trust
        if bool(lost.any()):
            told.append(f"{notes.named(batch.trace_ids, lost)} outside of the band with every token")
        return told + notes.about_empty_traces(batch) + notes.about_numbers(batch)
