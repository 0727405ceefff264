"""Rules that drop whole traces for their age, which B, T and N do not notice; what VCPO makes of the age of a batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from schemas.errors import SettingsError
from train.batch import Batch
from train.methods import requirements, terms
from train.methods.corrections import LOG_RATIO_BOUND, Weights, keeping, logged_ratios

ESS_GUARD = 1e-8
"""Added to the denominator of the effective sample size. VCPO release, core_algos.py."""

LARGEST_LOG_PRODUCT = 300.0
"""Beyond it the products of ratios are scaled down together: the square of a larger one overflows float64."""


def sequence_log_ratios(batch: Batch, rule: str) -> Tensor:
    """Sum of the log-ratios over the action tokens of each trace; [B] in float64."""
    return terms.trace_sums(requirements.log_ratios(batch, rule), batch.actions.traces, len(batch.trace_ids))


def effective_sample_size(weights: Tensor) -> float:
    """(sum w)^2 / sum w^2 of non-negative weights [B], between 1 and B. VCPO release."""
    weights = weights.to(torch.float64)
    return float(weights.sum() ** 2 / ((weights**2).sum() + ESS_GUARD))


def learning_rate_scale(
    trace_log_ratios: Tensor,
    *,
    form: Literal["sqrt", "linear"] = "sqrt",
    base_ratio: float = 1.0,
    high: float = math.inf,
) -> float:
    """What VCPO multiplies a learning rate by: min(1, (ESS / B) / base_ratio), or the root of it, in [0, 1].

    ESS is that of the products of ratios of the B traces, cut at `high`; their logarithms [B], `sequence_log_ratios`,
    must be of the whole batch. Products beyond e^300 are scaled down together, which leaves their ESS. VCPO release.
    """
    if form not in ("sqrt", "linear") or not base_ratio > 0:
        raise SettingsError(
            f"learning_rate_scale(form={form!r}, base_ratio={base_ratio!r}): expected 'sqrt' or 'linear' and a ratio "
            f"above 0; 'sqrt' and 1 are the release's"
        )
    logs = trace_log_ratios.to(torch.float64)
    shift = 0.0 if high < math.inf else max(0.0, float(logs.max()) - LARGEST_LOG_PRODUCT)
    size = effective_sample_size(torch.exp(logs - shift).clamp(max=high))
    share = min(1.0, size / len(logs) / base_ratio)
    return share**0.5 if form == "sqrt" else share


def optimal_baseline(rewards: Tensor, weights: Tensor, gradient_norms: Tensor) -> float:
    """The baseline of least variance: b = sum w^2 g^2 R / sum w^2 g^2 over traces; all [B].

    `weights` are the traces' products of ratios, `gradient_norms` the norms of their gradients, which cost one backward
    pass a trace. VCPO release, OPOB.
    """
    squares = (weights.to(torch.float64) * gradient_norms.to(torch.float64)) ** 2
    return float((squares * rewards).sum() / (squares.sum() + ESS_GUARD))


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceMIS:
    """Traces whose ratio as a whole is within a bound, their tokens weighed by their own ratios.

    The product of ratios grows with length: 0.01 of noise a token is 0.2 over 500 tokens and 0.7 over 5,000.
    """

    name: ClassVar[str] = "seq_mis"
    splits: ClassVar[bool] = True

    high: float = 2.0
    """Highest product of ratios of a trace. verl, core_algos.py; TRL has 3."""

    def __post_init__(self) -> None:
        """Refuse what is no bound."""
        requirements.option_number(self, "high", low=0.0, hint="inf keeps every trace")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:  # noqa: ARG002 - one signature for all rules
        """The weights rho of traces with prod rho <= high."""
        bounded = sequence_log_ratios(batch, self.name).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
        return _of_traces(batch, self.name, torch.exp(bounded) <= self.high)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrustRegion:
    """Traces of which no token, nor the mean over tokens, has diverged beyond a bound. arXiv:2512.23075."""

    name: ClassVar[str] = "trust_region"
    splits: ClassVar[bool] = True

    divergence: Literal["k3", "bernoulli"] = "k3"
    """What is bounded: k3 = rho - 1 - log rho, or the Bernoulli KL; verl, core_algos.py, has k3."""
    max_divergence: float = 0.05
    """Highest divergence of any token, in nats. Convention, untested."""
    mean_divergence: float = 0.01
    """Highest mean divergence over the tokens of a trace, in nats. verl documents 0.001 to 0.01 for k3; convention,
    untested."""

    def __post_init__(self) -> None:
        """Refuse what is no bound."""
        requirements.option_choice(self, "divergence", ("k3", "bernoulli"))
        requirements.option_number(self, "max_divergence", low=0.0, hint="inf bounds the mean alone")
        requirements.option_number(self, "mean_divergence", low=0.0, hint="inf bounds the tokens alone")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:  # noqa: ARG002 - one signature for all rules
        """The weights rho of traces within both bounds."""
        current, behavior = requirements.scored(batch, self.name)
        if self.divergence == "k3":
            log_ratios = requirements.log_ratios(batch, self.name).double()
            divergences = torch.expm1(log_ratios) - log_ratios
        else:
            divergences = terms.bernoulli_kl(behavior, current)
        traces = batch.actions.traces
        largest = terms.trace_maxima(divergences, None, traces, len(batch.trace_ids))
        means = terms.trace_means(divergences, None, traces, batch.num_action_tokens)
        return _of_traces(batch, self.name, (largest <= self.max_divergence) & (means <= self.mean_divergence))


@dataclass(frozen=True, kw_only=True, slots=True)
class OPSM:
    """All traces but those that were bad and have become unlikely. DeepSeek-V3.2; slime, loss.py."""

    name: ClassVar[str] = "opsm"
    splits: ClassVar[bool] = True

    bound: float = 1e-4
    """Highest mean of log mu - log pi of a trace with a negative advantage, in nats. slime, loss.py, opsm_delta."""

    def __post_init__(self) -> None:
        """Refuse what is no bound."""
        requirements.option_number(self, "bound", low=0.0, hint="inf keeps every trace")

    def weigh(self, batch: Batch, advantages: Tensor) -> Weights:
        """The weights rho of traces with A >= 0 or mean log(mu/pi) <= bound; A is the trace's mean advantage."""
        counts = batch.num_action_tokens
        receded = -sequence_log_ratios(batch, self.name) / counts
        bad = terms.trace_means(advantages, None, batch.actions.traces, counts) < 0
        return _of_traces(batch, self.name, ~(bad & (receded > self.bound)))


def _of_traces(batch: Batch, rule: str, kept: Tensor) -> Weights:
    """Ratios, cut at +-20 in the logarithm, of the tokens of kept traces [B]."""
    return keeping(logged_ratios(batch, rule, LOG_RATIO_BOUND), batch.actions.of_traces(kept))
