"""BPO: policy mirror descent towards the behavior policy tilted by the advantage, with a bounded token weight."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from schemas.errors import SettingsError
from train.batch import Batch
from train.methods import requirements, values
from train.methods.baselines import group_advantages, group_update
from train.methods.bpo_weight import BPOWeight
from train.methods.correction_catalog import Rule, correction_by_name
from train.methods.klpo import KLPO
from train.methods.requirements import Undemanding
from train.methods.update import Update

DEVIATION_GUARD = 1e-4
"""Added to the deviation of a group. TRL, grpo_trainer.py."""

_ALONE = (
    "where the practical form moves nothing; expected at least two traces of an ask; use "
    'BPO(form="exact_residual"), which is KLPO(route="sequence", centering="binary") with beta 1/eta'
)
"""Why the practical form refuses a trace that is alone in its group, and what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BPO(Undemanding):
    """A trace moves the policy until log(pi/mu) plus the drift it caused is what its advantage asks for.

        delta / eta = R - V - (1/eta) sum_t [log(pi_t / mu_t) + KL_bernoulli(mu_t || pi_t)]

    "practical", the paper's algorithm, takes that apart near pi = mu: the advantage of GRPO and a bounded weight,

        omega_t = (1 + eps - mu_t) / (1 + eps - pi_t)
        c_t     = A min(omega_t, cap) / (T B),  but 0 if A > 0 and omega_t > 1 + high, or A < 0 and omega_t < 1 - low

    and needs a group: a trace alone in its group has nothing to be compared with and is refused.

    "exact_residual" keeps the residual, and works for single traces:

        c_t     = (delta / eta) (1 - mu_t) / (1 - pi_t) / B

    with V = 0 or a critic's. It is KLPO's sequence route under its binary centering, with beta = 1/eta and reward
    R - V, and is computed as that; tokens are summed, so long traces weigh more. The paper's 1/deviation of the group
    is left out. It refuses a trace without an action token and, unless told otherwise, a log-probability of exactly 0.

    Needs reward, behavior_logprobs and action mask, and a group for each trace or values, as its form says. TRL puts
    the policy's own number where one of behavior_logprobs is missing; here that is refused.

    BPO, arXiv:2609.15987; TRL, experimental `BPOTrainer`. No code of the authors is public.
    """

    name: ClassVar[str] = "bpo"
    splits: ClassVar[bool] = True

    form: Literal["practical", "exact_residual"] = "practical"
    """The algorithm that was published, or the regression it is the linearisation of. BPO, arXiv:2609.15987; TRL's
    experimental `BPOTrainer` has the first."""
    correction: Rule = field(default_factory=BPOWeight)
    """The weight of the practical form and its bounds, a `BPOWeight`. BPO, arXiv:2609.15987."""
    scaled: bool = True
    """Whether the practical form divides by the deviation of the group. BPO, arXiv:2609.15987."""
    singleton: Literal["refuse", "zero"] = "refuse"
    """What the practical form does with a group of one: refuse it, or give it advantage 0 as TRL, grpo_trainer.py."""
    eta: float = 10.0
    """How far an advantage of 1 moves the log-ratio of a trace in the exact residual, in nats; 1/eta is KLPO's beta,
    whose release, arXiv:2610.08963, has 0.1."""
    baseline: Literal["zero", "critic"] = "zero"
    """The V of the exact residual: 0, or the batch's value at the first action token. Convention, untested."""
    certain: Literal["refuse", "floor"] = "refuse"
    """What the exact residual does with a log-probability of exactly 0, as `KLPO.certain`. Convention, untested."""

    def __post_init__(self) -> None:
        """Refuse what no update can be computed with."""
        requirements.option_choice(self, "form", ("practical", "exact_residual"))
        practical, exact = ("scaled", "singleton"), ("eta", "baseline", "certain")
        rule = correction_by_name(self.correction)
        if not isinstance(rule, BPOWeight):
            raise SettingsError(
                f"BPO(correction={rule.name!r}): expected a BPOWeight; use GRPO(correction={rule.name!r}) for that rule"
            )
        requirements.option_flag(self, "scaled")
        requirements.option_choice(self, "singleton", ("refuse", "zero"))
        requirements.option_number(self, "eta", low=1e-6, high=1e6, hint="10 is KLPO's beta of 0.1")
        requirements.option_choice(self, "baseline", ("zero", "critic"))
        requirements.option_choice(self, "certain", ("refuse", "floor"))
        requirements.options_unread(self, exact if self.form == "practical" else practical, f"with form={self.form!r}")
        if self.form == "exact_residual" and rule != BPOWeight():
            raise SettingsError(
                f"BPO(correction={rule!r}): expected none with form='exact_residual', which has no weight; leave it out"
            )

    @property
    def needs_critic(self) -> bool:
        """Whether its V is a critic's."""
        return self.form == "exact_residual" and self.baseline == "critic"

    @property
    def needs_groups(self) -> bool:
        """Whether traces are compared with others of their ask."""
        return self.form == "practical"

    def update(self, batch: Batch) -> Update:
        """The update of `batch`, or of a part of it: B and the groups are those of the whole."""
        return self._practical(batch) if self.form == "practical" else self._exact_residual(batch)

    def _practical(self, batch: Batch) -> Update:
        """Group advantages under the bounded weight."""
        advantages, alone = group_advantages(
            batch, self.name, self.scaled, DEVIATION_GUARD, self.singleton, refusal=_ALONE
        )
        return group_update(
            batch,
            advantages,
            alone,
            method=self.name,
            correction=correction_by_name(self.correction),
            aggregation="trace_mean",
        )

    def _exact_residual(self, batch: Batch) -> Update:
        """KLPO's sequence-binary route on the reward above V."""
        requirements.scored(batch, self.name)
        requirements.action_tokens(batch, self.name)
        targets = None
        above = batch
        if self.baseline == "critic":
            above = replace(batch, rewards=batch.rewards - self._first_values(batch))
            counts = batch.num_action_tokens
            targets = values.value_targets(batch.rewards, batch.action_mask, batch.trace_index, counts, 1.0)
        regression = KLPO(beta=1.0 / self.eta, route="sequence", centering="binary", certain=self.certain)
        made = regression.update(above)
        return replace(
            made,
            method=self.name,
            batch=batch,
            value_targets=None if targets is None else targets.to(batch.dtype),
            notes=[f"the exact residual: KLPO's sequence-binary route with beta {1.0 / self.eta:g}", *made.notes],
        )

    def _first_values(self, batch: Batch) -> Tensor:
        """The value at the first action token of each trace, from the tokens before it; [B]."""
        # A trace without one was refused, so that each begins where those before it end.
        firsts = torch.cumsum(batch.num_action_tokens, 0) - batch.num_action_tokens
        return requirements.critic_values(batch, self.name).index_select(0, firsts).to(torch.float64)
