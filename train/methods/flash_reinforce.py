"""FlashREINFORCE: REINFORCE on single stale traces, with a batch mean, a trust gate and 1/T."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from schemas.errors import BatchError
from train.action_axis import first_true
from train.batch import Batch
from train.methods import notes, requirements, terms
from train.methods.requirements import Undemanding
from train.methods.update import Actions, Update

LOG_RATIO_BOUND = 30.0
"""Where `overflow="clamp"` cuts a log-ratio, on both sides. FlashREINFORCE, Appendix A, as whileai 0.131 cites it."""

_OVERFLOW_REMEDY = (
    'the gate does not see tokens rarer than 1e-6, so quarantine the trace, lower trust, or set overflow="clamp"'
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FlashReinforce(Undemanding):
    """A trace moves the policy by its reward above the batch mean, unless the policy has drifted too far from it.

        A     = R - (1/B) sum_j R_j                    over all traces of the batch, masked ones included
        rho_t = exp(log pi_t - log mu_t)               unclipped
        D     = (1/T) sum_t KL_bernoulli(mu_t || pi_t)
        c_t   = A rho_t / (T B)  if D <= trust, else 0 for the whole trace

    B and T are fixed before anything is masked. Every trace in trust weighs the same, however long it is.

    Needs reward, behavior_logprobs and action mask. Refuses a trace without behavior_logprobs or without an action
    token. The gate cannot see a change between two probabilities below 1e-6, so watch the largest ratio.

    Hu et al., FlashREINFORCE, NVIDIA 2026; reference code yifanzhang-pro/FlashREINFORCE.
    """

    name: ClassVar[str] = "flash_reinforce"
    splits: ClassVar[bool] = True

    trust: float = 0.003
    """Highest mean drift a trace may show, in nats a token; inf opens the gate. Hu et al. 2026, Sec. 3.2, Table 13."""

    overflow: Literal["raise", "clamp"] = "raise"
    """What becomes of a ratio too large for its number type: "raise" stops the update, as the reference code does
    (loss.py); "clamp" cuts log-ratios at +-30, as labs-molt does."""

    negative_token_fraction: float = 1.0
    """Share of the tokens of a failed trace that are kept, those of highest entropy first; 1 keeps all and reads
    neither entropies nor failures. Reference code, loss.py, default; its ALFWorld configuration has 0.9."""

    def __post_init__(self) -> None:
        """Refuse what no update can be computed with."""
        requirements.option_number(
            self, "trust", low=0.0, hint="0 keeps only traces of the very same policy, inf keeps all"
        )
        requirements.option_choice(self, "overflow", ("raise", "clamp"))
        requirements.option_number(
            self, "negative_token_fraction", low=0.0, high=1.0, hint="1 turns the entropy filter off"
        )

    def update(self, batch: Batch) -> Update:
        """The update of `batch`, or of a part of it: only the reward mean and B are of the whole."""
        requirements.scored(batch, self.name)
        requirements.action_tokens(batch, self.name)
        actions = batch.actions
        drift = requirements.drift(batch, self.name)
        in_trust = drift <= self.trust
        log_ratios = requirements.log_ratios(batch, self.name)
        kept = self._filtered(batch, actions.of_traces(in_trust))
        ratios = terms.importance_ratios(self._bounded(log_ratios), kept)

        advantages = terms.batch_mean_advantages(batch.rewards, batch.statistics.mean_reward)
        weights = advantages / (batch.num_action_tokens * batch.statistics.num_traces)
        # Ratios are 0 where nothing is kept; one that overflowed makes its coefficient infinite, or NaN at advantage 0.
        coefficients = actions.of_traces(weights.to(batch.dtype)).mul_(ratios)
        requirements.finite(batch, coefficients, _OVERFLOW_REMEDY)

        num_kept = int(torch.count_nonzero(kept))
        num_clamped = int((kept & (log_ratios.abs() > LOG_RATIO_BOUND)).sum()) if self.overflow == "clamp" else 0
        return Update(
            batch=batch,
            method=self.name,
            coefficients=actions.spread(coefficients),
            of_actions=Actions(
                advantages=actions.of_traces(advantages.to(batch.dtype)), log_ratios=log_ratios, weights=ratios
            ),
            in_trust=in_trust,
            stats={
                "batch_mean_reward": batch.statistics.mean_reward,
                "in_trust_share": float(in_trust.to(torch.float64).mean()),
                "mean_drift": float(drift.mean()),
                "max_drift": float(drift.max()),
                "mean_ratio": terms.mean_over(ratios, num_kept),
                "max_ratio": float(ratios.max()) if num_kept else math.nan,
                "num_retained_tokens": num_kept,
                "num_clamped_tokens": num_clamped,
            },
            notes=self._notes(batch, drift, in_trust, num_clamped),
        )

    def _bounded(self, log_ratios: Tensor) -> Tensor:
        return log_ratios.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND) if self.overflow == "clamp" else log_ratios

    def _filtered(self, batch: Batch, kept: Tensor) -> Tensor:
        """`kept` without the low-entropy tokens of failed traces; T and B do not notice."""
        if self.negative_token_fraction == 1.0:
            return kept
        entropies, traces = batch.on_actions("entropies"), batch.actions.traces
        if entropies is None or batch.failures is None:
            raise BatchError(
                f"{self.name}: negative_token_fraction {self.negative_token_fraction:g} but no entropies or no "
                f"failures in the batch; expected an entropy a token and a flag a trace; add them, or set it to 1"
            )
        failed = batch.actions.of_traces(batch.failures)
        bad = first_true(failed & ~torch.isfinite(entropies))
        if bad is not None:
            place = batch.place_of_action(bad)
            raise BatchError(f"{place}: entropy is not finite; expected nats; score the trace again")
        num_kept = torch.ceil(self.negative_token_fraction * batch.num_action_tokens.to(torch.float64)).to(torch.int64)
        return kept & (~failed | terms.top_entropy_tokens(entropies, failed, traces, num_kept))

    def _notes(self, batch: Batch, drift: Tensor, in_trust: Tensor, num_clamped: int) -> list[str]:
        """Why nothing can move, what was masked, and whether the gate acted at all."""
        told = notes.about_batch_mean(batch)
        largest = float(drift.max())
        if not bool(in_trust.all()):
            told.append(
                f"{notes.named(batch.trace_ids, ~in_trust)} over trust {self.trust:g} masked whole (max drift "
                f"{largest:.3g}); the policy has moved further from what wrote it than the gate allows: check that "
                f"behavior_logprobs are the behavior policy's own, then train sooner after serving or raise trust"
            )
            if not bool(in_trust.any()):
                told.append("no trace is in trust, so nothing moves")
        else:
            told.append(f"the gate masked nothing: the largest drift is {largest:.3g}, trust {self.trust:g}")
        if num_clamped:
            told.append(f"{num_clamped} tokens had a log-ratio beyond +-{LOG_RATIO_BOUND:g} and were cut there")
        return told + notes.about_numbers(batch)
