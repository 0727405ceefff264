"""BPCO: best-practice critic optimization, with a bounded critic and a clip that widens for rare tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from schemas.errors import BatchError
from train.action_axis import first_true
from train.batch import Batch
from train.methods import notes, requirements, terms, values
from train.methods.requirements import Undemanding
from train.methods.update import Actions, Update

LOG_RATIO_BOUND = 20.0
"""Log-ratios are cut at this on both sides before they become ratios. BPCO release, core_algos.py."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BPCO(Undemanding):
    """Each token moves the policy by its advantage over a bounded critic, until its probability has moved far enough.

        V      bounded to the reward range, see `values.bounded_values`
        A_t    by GAE over action tokens, skipping observations, lambda = 1 - 1/(alpha T), gamma 1
        rho_t  = exp(log pi_t - log mu_t)
        c_t    = rho_t A_t / B,  but 0 if A_t > 0 and pi_t - mu_t > clip,  or A_t < 0 and pi_t - mu_t < -clip

    The clip is on the probability: in the ratio it is clip/mu wide, so that a rare token is not masked for being rare,
    and its ratio is bounded by nothing but exp(20). Tokens are summed and divided by B, so long traces weigh more. The
    critic's target is the reward at every token.

    Needs reward, behavior_logprobs, action mask and values. Refuses a reward or a value outside of the range. The
    reward stands on the last action token; in the release it is lost when an observation follows that token.

    Qi et al. 2026, arXiv:2608.23566; release QPHutu/golden_critic. The clip is DPPO's, arXiv:2602.04879.
    """

    name: ClassVar[str] = "bpco"
    splits: ClassVar[bool] = True
    needs_critic: ClassVar[bool] = True

    clip: float = 0.2
    """How far the probability of a token may move in its advantage's direction. BPCO release, verl's clip_ratio in
    its core_algos.py; DPPO's own scripts have 0.15."""

    gae_alpha: float = 0.4
    """The alpha of lambda = 1 - 1/(alpha T). BPCO, Eq. 14."""

    reward_range: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest reward, to which values are bounded. BPCO, Eq. 9; the release hard-codes it."""

    mask_rule: Literal["probability", "ratio"] = "probability"
    """Whether the clip compares probabilities, as the release does, or the cut ratio with 1 +- clip/mu, as Eq. 2 is
    written: they differ where the ratio was cut."""

    lambda_floor: bool = True
    """Whether a lambda below 0, of traces with T < 1/alpha, is put at 0; the release leaves it there. Convention,
    untested."""

    def __post_init__(self) -> None:
        """Refuse what no update can be computed with."""
        requirements.option_number(self, "clip", low=0.0, high=1.0, hint="1 never closes a token")
        requirements.option_number(self, "gae_alpha", low=1e-3, hint="larger trusts the reward more, the critic less")
        requirements.option_range(self, "reward_range", low=-torch.inf, hint="state the range that your scorer has")
        requirements.option_choice(self, "mask_rule", ("probability", "ratio"))
        requirements.option_flag(self, "lambda_floor")

    @property
    def value_range(self) -> tuple[float, float]:
        """Where its critic is bounded to."""
        return self.reward_range

    def update(self, batch: Batch) -> Update:
        """The update of `batch`, or of a part of it: only B is of the whole."""
        logprobs = requirements.current_logprobs(batch, self.name)
        behavior = requirements.behavior_logprobs(batch, self.name)
        predicted = self._values_in_range(batch)
        actions, counts = batch.actions, batch.num_action_tokens

        lambdas = values.length_adaptive_lambdas(counts, self.gae_alpha, floored=self.lambda_floor)
        advantages = values.skip_observation_advantages(predicted, batch.rewards, actions, 1.0, lambdas)
        log_ratios = requirements.log_ratios(batch, self.name)
        ratios = terms.importance_ratios(log_ratios.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND))
        widths = terms.by_parts(self._widths, behavior)
        rising, falling = advantages > 0, advantages < 0
        if self.mask_rule == "probability":
            moved = terms.probability_moves(logprobs, behavior)
            closed = terms.moved_with_advantage(moved, rising, falling, self.clip, self.clip)
        else:
            closed = terms.moved_with_advantage(ratios.double() - 1.0, rising, falling, widths, widths)

        kept_ratios = torch.where(closed, 0.0, ratios)
        targets = values.value_targets(batch.rewards, batch.action_mask, batch.trace_index, counts, 1.0)
        explained = values.explained_variance(actions.of_traces(batch.rewards), predicted)
        acted, num_tokens = counts > 0, len(actions)
        num_closed = int(torch.count_nonzero(closed))
        stats = {
            "in_trust_share": float(acted.to(torch.float64).mean()),
            "clipped_token_share": num_closed / num_tokens,
            "mean_ratio": terms.mean_over(ratios, num_tokens),
            "max_ratio": float(ratios.max()),
            "mean_advantage": terms.mean_over(advantages, num_tokens),
            "mean_clip_range": terms.mean_over(widths, num_tokens),
            "mean_lambda": terms.masked_mean(lambdas, acted),
        }
        return Update(
            batch=batch,
            method=self.name,
            coefficients=actions.spread((advantages / batch.statistics.num_traces).to(batch.dtype) * kept_ratios),
            of_actions=Actions(advantages=advantages.to(batch.dtype), log_ratios=log_ratios, weights=kept_ratios),
            in_trust=acted,
            value_targets=targets.to(batch.dtype),
            stats=stats if math.isnan(explained) else stats | {"explained_variance": explained},
            notes=self._notes(batch, log_ratios, num_closed, explained),
        )

    def _widths(self, behavior: Tensor) -> Tensor:
        """How far each ratio may move, clip/mu; [A] in float64."""
        return self.clip * torch.exp(-behavior.double())

    def _values_in_range(self, batch: Batch) -> Tensor:
        """The values, refused with the rewards when outside of the reward range."""
        predicted = requirements.critic_values(batch, self.name)
        low, high = self.reward_range
        trace = first_true((batch.rewards < low) | (batch.rewards > high))
        if trace is not None:
            raise BatchError(
                f"{self.name}: trace {batch.trace_ids[trace]}: reward {float(batch.rewards[trace])}; expected within "
                f"[{low:g}, {high:g}], beyond which no bounded value can follow; set reward_range to your scorer's"
            )
        least, most = predicted.aminmax()
        if bool((least < low) | (most > high)):
            outside = first_true((predicted < low) | (predicted > high)) or 0
            raise BatchError(
                f"{self.name}: {batch.place_of_action(outside)}: value {float(predicted[outside])}; expected within "
                f"[{low:g}, {high:g}]; bound the critic's head with values.bounded_values"
            )
        return predicted

    def _notes(self, batch: Batch, log_ratios: Tensor, num_closed: int, explained: float) -> list[str]:
        """Whether the clip acted, and whether the critic explains anything."""
        num_tokens = len(batch.actions)
        told = [f"the clip {self.clip:g} closed nothing: this is plain importance-weighted policy gradient"]
        if num_closed:
            counted = f"{num_closed} of {num_tokens} tokens ({num_closed / num_tokens:.2%}) had moved by more than"
            where = f"{self.clip:g} in their advantage's direction; {notes.furthest(batch, log_ratios)}"
            told = [f"{counted} {where}: train sooner after serving or raise clip"]
        if explained < 0:
            told.append("the critic predicts worse than a constant: warm it up before the policy moves")
        return told + notes.about_empty_traces(batch) + notes.about_numbers(batch)
