"""What each method would do to a batch, side by side, before any of them has moved the policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from schemas.errors import BatchError, TrainingError
from schemas.numbers import PLAIN_DEPARTURE
from train.batch import Batch
from train.methods import requirements, terms
from train.methods.catalog import METHODS, Method
from train.methods.gates import effective_sample_size

if TYPE_CHECKING:
    from train.methods.update import Update

IDLE_SHARE = 1e-3
"""Share of action tokens below which a mask or a bound has not acted enough to be tested: SAO's recipe masked 3 in
10,000 and ran the same experiment twice, and 2 in 1,000 once it did act (whileai course, SAO recipe, rounds 1, 2)."""

RATIO_TOLERANCE = 1e-4
"""Relative difference up to which a weight counts as the ratio itself: the logarithm of one of e^20 has 7 digits in
float32, which leaves it 5."""

LARGEST_WEIGHT = 1e150
"""Weights are cut here before they are squared: the square of a larger one, times the batch, overflows float64, which
ends at 1.8e308. Convention, untested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Touch:
    """What one method would do to the batch; the numbers are None where it cannot be run on it."""

    method: str
    """Name of the method, with its correction if it has one."""
    masked_trace_share: float | None = None
    """Share of the traces with action tokens that would move nothing."""
    masked_token_share: float | None = None
    """Share of action tokens that would be masked."""
    bounded_token_share: float | None = None
    """Share of action tokens that would count, but not by their own importance ratio."""
    departure: float | None = None
    """Mean |weight - 1| over action tokens: how far this is from plain policy gradient."""
    effective_token_share: float | None = None
    """(sum w)^2 / (N sum w^2): the share of equal tokens that the weights are worth."""
    sentence: str
    """What that comes to, or why it is not measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Regime:
    """How far a batch is from the policy, and what each method would make of that.

    Prints itself as a table. A method that the batch cannot feed is listed with what it lacks: not measured, which is
    not the same as not touched.
    """

    num_traces: int
    num_action_tokens: int
    mean_abs_log_ratio: float
    """Over action tokens, in nats."""
    max_ratio: float
    mean_drift: float
    """Mean over traces of the mean Bernoulli KL of their action tokens, in nats a token."""
    touches: tuple[Touch, ...]

    def __str__(self) -> str:
        """A line on the batch and one on each method."""
        head = (
            f"{self.num_traces} traces, {self.num_action_tokens:,} action tokens: mean |log ratio| "
            f"{self.mean_abs_log_ratio:.3g}, largest ratio {self.max_ratio:.3g}, mean drift {self.mean_drift:.3g}"
        )
        width = max(len(touch.method) for touch in self.touches)
        columns = ("masked traces", "masked tokens", "bounded tokens", "mean |w - 1|", "effective")
        lines = [head, "  ".join([" " * width, *columns])]
        for touch in self.touches:
            shares = (touch.masked_trace_share, touch.masked_token_share, touch.bounded_token_share)
            cells = [*map(_percent, shares), _figure(touch.departure), _percent(touch.effective_token_share)]
            padded = [cell.rjust(len(name)) for cell, name in zip(cells, columns, strict=True)]
            lines.append("  ".join([touch.method.ljust(width), *padded, touch.sentence]))
        return "\n".join(lines)


def regime(batch: Batch, methods: Sequence[Method] | None = None) -> Regime:
    """What each of `methods` would do to a scored batch; all methods at their defaults when none are named.

    Needs logprobs and behavior_logprobs. When the batch has no values, a method with a critic is given one that says
    the mean reward everywhere: a mask reads no more of an advantage than its sign, and a new critic says about that.
    """
    num_tokens, counts = len(batch.actions), batch.num_action_tokens
    log_ratios = requirements.log_ratios(batch, "regime").double()
    drift = requirements.drift(batch, "regime")
    chosen = [kind() for kind in METHODS.values()] if methods is None else list(methods)
    return Regime(
        num_traces=len(batch.trace_ids),
        num_action_tokens=num_tokens,
        mean_abs_log_ratio=terms.mean_over(log_ratios.abs(), num_tokens),
        max_ratio=math.exp(min(float(log_ratios.max()), terms.LARGEST_EXPONENT)),
        mean_drift=float(drift[counts > 0].mean()),
        touches=tuple(touch(batch, method) for method in chosen),
    )


def touch(batch: Batch, method: Method) -> Touch:
    """What one method would do to a scored batch."""
    name, fed = _name(method), batch
    if batch.values is None:
        told = torch.full(batch.action_mask.shape, batch.statistics.mean_reward, dtype=batch.dtype)
        fed = batch.with_values(told.to(batch.rewards.device))
    try:
        update = method.update(fed)
    except (BatchError, TrainingError) as error:
        return Touch(method=name, sentence=f"not measured: {error}")
    weights = update.of_actions.weights
    made = _unweighed(name, update) if weights is None else _weighed(name, update, weights)
    if batch.values is None and update.value_targets is not None:
        return replace(made, sentence=f"{made.sentence} (with a critic that says the mean reward)")
    return made


def _weighed(name: str, update: Update, weights: Tensor) -> Touch:
    """Of a method that multiplies advantages by a weight."""
    actions, counts, own = (
        update.batch.actions,
        update.batch.num_action_tokens,
        weights.double().clamp(max=LARGEST_WEIGHT),
    )
    kept, num_traces = own != 0, int((counts > 0).sum())
    ratios = torch.exp(_log_ratios(update).clamp(max=terms.LARGEST_EXPONENT))
    is_ratio = torch.isclose(own, ratios, rtol=RATIO_TOLERANCE, atol=0.0)
    masked, bounded = 1.0 - float(kept.sum()) / len(own), float((kept & ~is_ratio).sum()) / len(own)
    departure = float((own - 1.0).abs().mean())
    return Touch(
        method=name,
        masked_trace_share=1.0 - float(terms.traces_with(kept, actions.traces, len(counts)).sum()) / num_traces,
        masked_token_share=masked,
        bounded_token_share=bounded,
        departure=departure,
        effective_token_share=effective_sample_size(own) / len(own),
        sentence=_verdict(masked, bounded, departure),
    )


def _unweighed(name: str, update: Update) -> Touch:
    """Of a method that adds to the advantage and masks nothing."""
    moved = _log_ratios(update).abs()
    return Touch(
        method=name,
        masked_trace_share=0.0,
        masked_token_share=0.0,
        sentence=f"masks and weighs nothing; pulls back by beta times {float(moved.mean()):.3g} nats a token",
    )


def _verdict(masked: float, bounded: float, departure: float) -> str:
    if masked < IDLE_SHARE and departure < PLAIN_DEPARTURE:
        return "would equal plain policy gradient"
    if masked == 1.0:
        return "would move nothing"
    if masked + bounded < IDLE_SHARE:
        return "its gate, mask or bound would hardly act: importance-weighted policy gradient"
    return "acts"


def _log_ratios(update: Update) -> Tensor:
    """[A] log-ratios of the action tokens in float64."""
    if update.of_actions.log_ratios is None:
        raise AssertionError("a batch with behavior_logprobs has log-ratios")
    return update.of_actions.log_ratios.double()


def _name(method: Method) -> str:
    correction = getattr(method, "correction", None)
    of = getattr(correction, "name", correction)
    return f"{method.name}, {of}" if of else method.name


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
