"""What a method needs of its options and of a batch, refused in one voice."""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor

from schemas.errors import BatchError, SettingsError, TrainingError
from train.batch import Batch
from train.methods import terms


def option_number(owner: object, name: str, *, low: float, high: float = math.inf, hint: str) -> None:
    """Refuse an option that is no number in [low, high]; `hint` is the way out."""
    value = getattr(owner, name)
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        bound = f"a number of at least {low:g}" if math.isinf(high) else f"a number from {low:g} to {high:g}"
        raise SettingsError(f"{type(owner).__name__}({name}={value!r}): expected {bound}; {hint}")


def option_range(owner: object, name: str, *, low: float, hint: str) -> None:
    """Refuse an option that is no pair of numbers, the first at least `low` and below the second."""
    value = getattr(owner, name)
    good = isinstance(value, tuple) and len(value) == 2
    good = good and all(isinstance(end, Real) and not isinstance(end, bool) for end in value)
    if not good or not low <= value[0] < value[1]:
        raise SettingsError(
            f"{type(owner).__name__}({name}={value!r}): expected two numbers, {low:g} <= low < high; {hint}"
        )


def option_bounds(owner: object, low: str, high: str) -> None:
    """Refuse two options that are no bounds from 0 up, the lower one first."""
    option_number(owner, low, low=0.0, hint="0 has no lower bound")
    option_number(owner, high, low=float(getattr(owner, low)), hint="inf has no upper bound")


def option_choice(owner: object, name: str, choices: tuple[str, ...]) -> None:
    """Refuse an option that is none of `choices`."""
    value = getattr(owner, name)
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise SettingsError(f"{type(owner).__name__}({name}={value!r}): expected one of {known}; choose one of them")


def option_flag(owner: object, name: str) -> None:
    """Refuse an option that is neither True nor False."""
    value = getattr(owner, name)
    if not isinstance(value, bool):
        raise SettingsError(f"{type(owner).__name__}({name}={value!r}): expected True or False; set one of them")


def current_logprobs(batch: Batch, method: str) -> Tensor:
    """`logprobs` [N] of the batch, refused when it was never scored."""
    if batch.logprobs is None:
        raise BatchError(
            f"{method}: the batch has no logprobs; expected one a token under the policy being trained; score it and "
            f"use batch.with_logprobs"
        )
    return batch.logprobs


def behavior_logprobs(batch: Batch, method: str) -> Tensor:
    """`behavior_logprobs` [N] of the batch, refused when the log had none."""
    if batch.behavior_logprobs is None:
        raise BatchError(
            f"{method}: trace {batch.trace_ids[0]} and the rest of the batch have no behavior_logprobs; expected the "
            f"serving stack's token_logprobs, without which there is no ratio; turn them on and train on the traces "
            f"that come after"
        )
    return batch.behavior_logprobs


def critic_values(batch: Batch, method: str) -> Tensor:
    """`values` [N] of the batch, refused when there are none or one is not finite on an action token."""
    if batch.values is None:
        raise BatchError(
            f"{method}: trace {batch.trace_ids[0]} and the rest of the batch have no values; expected the critic's "
            f"prediction before each token; run the critic and use batch.with_values, or a method without a critic"
        )
    if not bool(torch.isfinite(torch.stack(torch.where(batch.action_mask, batch.values, 0.0).aminmax())).all()):
        bad = (batch.action_mask & ~torch.isfinite(batch.values)).nonzero()
        token = int(bad[0])
        raise BatchError(
            f"{method}: {batch.place(token)}: value {float(batch.values[token])}; expected a finite number; the critic "
            f"has diverged: go back to its last good checkpoint"
        )
    return batch.values


def scored(batch: Batch, method: str) -> tuple[Tensor, Tensor]:
    """`logprobs` and `behavior_logprobs` [N] of the batch, refused when either is missing."""
    return current_logprobs(batch, method), behavior_logprobs(batch, method)


def log_ratios(batch: Batch, method: str) -> Tensor:
    """Log importance ratios [N] of the batch, 0 off the action mask; refused when it lacks one side."""
    current, behavior = scored(batch, method)
    return batch.once("log_ratios", lambda: terms.log_ratios(current, behavior, batch.action_mask))


def importance_ratios(batch: Batch, method: str) -> Tensor:
    """Importance ratios [N] of the batch, 0 off the action mask; refused when it lacks one side."""
    found = log_ratios(batch, method)
    return batch.once("importance_ratios", lambda: terms.importance_ratios(found, batch.action_mask))


def drift(batch: Batch, method: str) -> Tensor:
    """Mean Bernoulli KL [B] of each trace of the batch, NaN without an action token; refused when it lacks one side."""
    current, behavior = scored(batch, method)
    mask, index, counts = batch.action_mask, batch.trace_index, batch.num_action_tokens
    return batch.once("drift", lambda: terms.mean_drift(behavior, current, mask, index, counts))


def whole_batch(batch: Batch, method: str) -> None:
    """Refuse a part of a batch: the method looks at all its tokens together."""
    if not batch.is_whole:
        raise BatchError(
            f"{method}: a part of {len(batch.trace_ids)} of {batch.statistics.num_traces} traces; expected the whole "
            f"batch; score all of it first, then update once"
        )


def finite(batch: Batch, coefficients: Tensor, remedy: str) -> None:
    """Stop at the first token whose coefficient [N] is not finite; `remedy` is what to do about its ratio."""
    if bool(torch.isfinite(torch.stack(coefficients.aminmax())).all()):
        return
    bad = (~torch.isfinite(coefficients)).nonzero()
    token = int(bad[0])
    if batch.behavior_logprobs is not None and batch.logprobs is not None:
        remedy = f"its log-ratio is {float(batch.logprobs[token] - batch.behavior_logprobs[token]):.6g}: {remedy}"
    raise TrainingError(
        f"{batch.place(token)}: the coefficient overflows {batch.dtype}; expected a finite number; {remedy}"
    )


def action_tokens(batch: Batch, method: str) -> None:
    """Refuse a trace without an action token."""
    empty = (batch.num_action_tokens == 0).nonzero()
    if len(empty):
        raise BatchError(
            f"{method}: trace {batch.trace_ids[int(empty[0])]} has no action token; expected at least one in each of "
            f"the {len(batch.trace_ids)} traces; leave it out or mend its action mask"
        )
