"""Reinforce, GRPO and RAE: baselines made of rewards, with any correction for age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import ClassVar, Literal

import torch
from torch import Tensor

from schemas.errors import BatchError, SettingsError
from train.batch import Batch
from train.methods import notes, requirements, terms
from train.methods.centering import ScoreCentering
from train.methods.correction_catalog import Rule, correction_by_name
from train.methods.corrections import PPO, Correction, NoCorrection, Weights
from train.methods.requirements import Undemanding
from train.methods.update import Actions, Update
from train.records import Kind

Aggregation = Literal["token_mean", "trace_mean", "trace_sum"]
_AGGREGATIONS = ("token_mean", "trace_mean", "trace_sum")


def corrected_update(
    batch: Batch, advantages: Tensor, *, method: str, correction: Correction, aggregation: str, told: list[str]
) -> Update:
    """Coefficients c = w A / normaliser for advantages [B] and the weights w of a correction."""
    actions, counts, whole = batch.actions, batch.num_action_tokens, batch.statistics
    if not correction.splits:
        requirements.whole_batch(batch, f"{method} with {correction.name}")
    requirements.current_logprobs(batch, method)
    per_token = actions.of_traces(advantages.to(batch.dtype))
    weights = correction.weigh(batch, per_token)
    scale = terms.normalisers(aggregation, counts, whole.num_traces, whole.num_action_tokens)
    scaled = actions.of_traces(torch.where(counts > 0, advantages * scale, 0.0).to(batch.dtype))
    auxiliary = weights.auxiliary
    if auxiliary is not None:
        auxiliary = (scaled[:, None] * auxiliary).to(batch.dtype)

    coefficients = scaled.mul_(weights.factors)  # Finite times a factor that is 0 where nothing is kept.
    requirements.finite(batch, coefficients, "quarantine the trace, or use a correction that bounds the ratio")

    num_tokens = num_kept = len(actions)
    in_trust = counts > 0
    if weights.kept is not None:
        num_kept = int(torch.count_nonzero(weights.kept))
        in_trust = terms.traces_with(weights.kept, actions.traces, len(counts))
    log_ratios = None if batch.behavior_logprobs is None else requirements.log_ratios(batch, method)
    stats = {
        "in_trust_share": float(in_trust.to(torch.float64).mean()),
        "dropped_token_share": 1.0 - num_kept / num_tokens,
        "mean_weight": terms.mean_over(weights.factors, num_kept),
        "max_weight": float(weights.factors.max()),
    }
    if log_ratios is not None:
        ratios = requirements.importance_ratios(batch, method)
        stats |= {"mean_ratio": terms.mean_over(ratios, num_tokens), "max_ratio": float(ratios.max())}
    return Update(
        batch=batch,
        method=method,
        coefficients=actions.spread(coefficients),
        auxiliary_coefficients=None if auxiliary is None else actions.spread(auxiliary),
        of_actions=Actions(advantages=per_token, log_ratios=log_ratios, weights=weights.factors),
        in_trust=in_trust,
        stats=stats,
        notes=told + _about(correction, weights, log_ratios, batch, stats) + notes.about_numbers(batch),
    )


def _about(
    correction: Correction, weights: Weights, log_ratios: Tensor | None, batch: Batch, stats: Mapping[str, float]
) -> list[str]:
    """What the correction did to how many tokens, and which knobs it has."""
    told = notes.about_empty_traces(batch)
    if weights.auxiliary is not None:
        mass = float(weights.auxiliary.abs().sum(1).mean())
        head = f"a head of K = {weights.auxiliary.shape[1]}, the tail modelled: an approximation"
        told.append(f"scores centred by {mass:.4g} a token over {head}")
    dropped = stats["dropped_token_share"]
    unchanged = stats["max_weight"] == stats["mean_weight"] == 1.0 and not dropped
    if log_ratios is None or (unchanged and weights.auxiliary is None):
        return [*told, f"correction {correction.name} changed nothing: this is plain policy gradient"]
    num_tokens = len(batch.actions)
    num_masked = round(dropped * num_tokens)
    knobs = ", ".join(f"{each.name} {getattr(correction, each.name)}" for each in fields(correction))  # type: ignore[arg-type]  # a dataclass
    counted = f"masked {num_masked} of {num_tokens} tokens ({num_masked / num_tokens:.2%})"
    way_out = f": train sooner after serving or mend its {knobs}" if knobs and num_masked else ""
    return [*told, f"correction {correction.name} {counted}; {notes.furthest(batch, log_ratios)}{way_out}"]


def _records_of(correction: Rule) -> Kind | None:
    """Score centering alone reads records: the heads that were logged."""
    return "top_k" if isinstance(correction, ScoreCentering) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reinforce(Undemanding):
    """A trace moves the policy by its reward above a baseline: A = R - b, c = w A / normaliser.

    Needs reward and action mask, and what its correction needs. Without a correction it trains stale traces as if they
    were new, which is what other methods are to be compared with. Williams 1992.
    """

    name: ClassVar[str] = "reinforce"

    baseline: float | Literal["batch"] = "batch"
    """A number, or "batch" for the mean reward of the batch. FlashREINFORCE, Eq. 5, has the batch mean."""
    correction: Rule = field(default_factory=NoCorrection)
    """Rule for stale tokens, an object or a name; the plain method has none. Convention, untested."""
    aggregation: Aggregation = "token_mean"
    """1/N over the batch's action tokens, 1/(T B), or 1/B. Convention, untested."""

    def __post_init__(self) -> None:
        """Refuse what no update can be computed with."""
        if self.baseline != "batch":
            requirements.option_number(self, "baseline", low=-torch.inf, hint='"batch" takes the batch mean')
        requirements.option_choice(self, "aggregation", _AGGREGATIONS)
        correction_by_name(self.correction)

    @property
    def splits(self) -> bool:
        """Whether a part of a batch can be updated by itself."""
        return correction_by_name(self.correction).splits

    @property
    def needs_records(self) -> Kind | None:
        """Those of its correction."""
        return _records_of(self.correction)

    def update(self, batch: Batch) -> Update:
        """The update of `batch`, or of a part of it."""
        mean = self.baseline == "batch"
        baseline = batch.statistics.mean_reward if mean else float(self.baseline)
        return corrected_update(
            batch,
            terms.batch_mean_advantages(batch.rewards, baseline),
            method=self.name,
            correction=correction_by_name(self.correction),
            aggregation=self.aggregation,
            told=notes.about_batch_mean(batch) if mean else [],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GRPO(Undemanding):
    """A trace moves the policy by its reward above the mean of the traces of its ask, over their deviation.

        A = (R - mean) / (deviation + epsilon)     c = w A / normaliser

    Needs reward, action mask, a group for each trace, and what its correction needs. A group of one has nothing to be
    compared with and is refused; two public readings of it can be chosen. Shao et al. 2024, arXiv:2402.03300.
    """

    name: ClassVar[str] = "grpo"
    needs_groups: ClassVar[bool] = True

    scaled: bool = True
    """Whether to divide by the deviation of the group. arXiv:2402.03300; Dr. GRPO, arXiv:2503.20783, does not."""
    epsilon: float = 1e-4
    """Added to the deviation. TRL, grpo_trainer.py; verl has 1e-6."""
    singleton: Literal["refuse", "zero", "raw"] = "refuse"
    """A group of one: refused; advantage 0 as in TRL; or its raw reward as in verl, core_algos.py, which is REINFORCE
    without a baseline."""
    correction: Rule = field(default_factory=PPO)
    """Rule for stale tokens, an object or a name. PPO's clip, arXiv:2402.03300."""
    aggregation: Aggregation = "token_mean"
    """1/N over the batch's action tokens, 1/(T B), or 1/B. TRL, grpo_trainer.py, default."""

    def __post_init__(self) -> None:
        """Refuse what no update can be computed with."""
        requirements.option_flag(self, "scaled")
        requirements.option_number(self, "epsilon", low=0.0, hint="1e-4 is usual")
        requirements.option_choice(self, "singleton", ("refuse", "zero", "raw"))
        requirements.option_choice(self, "aggregation", _AGGREGATIONS)
        correction_by_name(self.correction)

    @property
    def splits(self) -> bool:
        """Whether a part of a batch can be updated by itself."""
        return correction_by_name(self.correction).splits

    @property
    def needs_records(self) -> Kind | None:
        """Those of its correction."""
        return _records_of(self.correction)

    def update(self, batch: Batch) -> Update:
        """The update of `batch`, or of a part of it: the groups are those of the whole."""
        advantages, alone = group_advantages(
            batch, self.name, self.scaled, self.epsilon, self.singleton, refusal=_ALONE
        )
        return group_update(
            batch,
            advantages,
            alone,
            method=self.name,
            correction=correction_by_name(self.correction),
            aggregation=self.aggregation,
        )


_ALONE = (
    "with nothing to be compared with; expected at least two traces of an ask; use FlashReinforce or SAO for single "
    "traces"
)
"""Why GRPO refuses a trace that is alone in its group, and what to do."""


def group_update(
    batch: Batch, advantages: Tensor, alone: Tensor, *, method: str, correction: Correction, aggregation: str
) -> Update:
    """The update of advantages [B] within groups; says which traces are `alone` [B], and why nothing moves, if so."""
    told = [f"{notes.named(batch.trace_ids, alone)} alone in its group"] if bool(alone.any()) else []
    if not bool(advantages.any()):
        told.append("every group has one reward throughout, so nothing moves")
    return corrected_update(batch, advantages, method=method, correction=correction, aggregation=aggregation, told=told)


def group_advantages(
    batch: Batch, method: str, scaled: bool, epsilon: float, singleton: str, *, refusal: str
) -> tuple[Tensor, Tensor]:
    """Advantages [B] within groups, and which traces are alone in theirs; `refusal` says why that is none, if it is."""
    statistics = batch.group_statistics
    if statistics is None:
        raise BatchError(
            f"{method}: trace {batch.trace_ids[0]} and the rest of the batch have no group; expected one for each "
            f"trace, the same for traces of one ask; add it, or use a method for single traces"
        )
    alone = statistics.sizes == 1
    if singleton == "refuse" and bool(alone.any()):
        raise BatchError(f"{method}: {notes.named(batch.trace_ids, alone)} alone in its group, {refusal}")
    differences = batch.rewards - statistics.means
    advantages = differences / (statistics.deviations + epsilon) if scaled else differences
    if singleton == "raw":
        raw = batch.rewards / (1.0 + epsilon) if scaled else batch.rewards
        advantages = torch.where(alone, raw, advantages)
    return advantages, alone


@dataclass(frozen=True, kw_only=True, slots=True)
class RAE(Undemanding):
    """A trace moves the policy by its reward above a running mean of the rewards of its key.

        A = R - b[key]   first, then   b[key] <- decay b[key] + (1 - decay) R       in the order of the batch

    Needs reward and action mask, and what its correction needs; a key for each trace, or all share one. The order of
    traces counts: put them in order of completion. The running means are `state`: go on with `after(method, update)`
    and keep them with each checkpoint. A new key starts at 0, so its first rewards come almost raw.

    SPIRAL, arXiv:2506.24119; prime-rl, `rae`.
    """

    name: ClassVar[str] = "rae"
    splits: ClassVar[bool] = False

    decay: float = 0.95
    """Share of the running mean that stays with each reward. SPIRAL, arXiv:2506.24119; prime-rl has the same."""
    correction: Rule = field(default_factory=NoCorrection)
    """Rule for stale tokens, an object or a name. SPIRAL, arXiv:2506.24119, has none."""
    aggregation: Aggregation = "token_mean"
    """1/N over the batch's action tokens, 1/(T B), or 1/B. Convention, untested."""
    state: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Running means by key, as the last update left them; empty at first. SPIRAL, arXiv:2506.24119, starts at 0."""

    def __post_init__(self) -> None:
        """Refuse what no update can be computed with."""
        requirements.option_number(self, "decay", low=0.0, high=1.0, hint="0.95 is the paper's")
        requirements.option_choice(self, "aggregation", _AGGREGATIONS)
        correction_by_name(self.correction)
        if not all(isinstance(mean, int | float) for mean in self.state.values()):
            raise SettingsError(
                f"RAE(state={dict(self.state)!r:.60}): expected numbers by key; start from an empty one"
            )

    @property
    def needs_records(self) -> Kind | None:
        """Those of its correction."""
        return _records_of(self.correction)

    def update(self, batch: Batch) -> Update:
        """The update of a whole batch."""
        requirements.whole_batch(batch, self.name)
        means, advantages = dict(self.state), []
        for key, reward in zip(batch.keys or ("agent",) * len(batch.trace_ids), batch.rewards.tolist(), strict=True):
            before = means.get(key, 0.0)
            advantages.append(reward - before)
            means[key] = self.decay * before + (1.0 - self.decay) * reward
        made = corrected_update(
            batch,
            torch.tensor(advantages, dtype=torch.float64, device=batch.rewards.device),
            method=self.name,
            correction=correction_by_name(self.correction),
            aggregation=self.aggregation,
            told=[],
        )
        new = sorted(set(means) - set(self.state))
        told = [f"baseline of {', '.join(new[:5])} started at 0"] if new else []
        return replace(made, state=means, notes=[*told, *made.notes])
