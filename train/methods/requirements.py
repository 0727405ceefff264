"""What a method needs of its options and of a batch, refused in one voice."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from schemas.errors import BatchError, SettingsError, TrainingError
from train.action_axis import first_true
from train.batch import Batch
from train.methods import terms
from train.records import Kind


class Undemanding:
    """What a method needs of its trainer unless it says otherwise, which is nothing; `catalog.Method` has the words."""

    __slots__ = ()

    @property
    def needs_groups(self) -> bool:
        """Whether the traces of one ask have to be in one batch, at least two of each."""
        return False

    @property
    def needs_critic(self) -> bool:
        """Whether it reads the values of a critic, and has targets for it."""
        return False

    @property
    def value_range(self) -> tuple[float, float] | None:
        """Where such a critic is bounded to; None leaves it unbounded."""
        return None

    @property
    def needs_records(self) -> Kind | None:
        """The records that a batch has to bring; None for a method that reads none."""
        return None


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


def options_unread(owner: Any, names: tuple[str, ...], because: str) -> None:
    """Refuse options that were set although nothing reads them; `because` says what would have to be set as well."""
    for option in fields(owner):
        default = option.default if option.default_factory is MISSING else option.default_factory()
        value = getattr(owner, option.name)
        if option.name in names and value != default:
            raise SettingsError(
                f"{type(owner).__name__}({option.name}={value!r}): expected {default!r}, since nothing reads it "
                f"{because}; leave it out"
            )


def current_logprobs(batch: Batch, method: str) -> Tensor:
    """`logprobs` [A] of the action tokens, refused when the batch was never scored."""
    found = batch.on_actions("logprobs")
    if found is None:
        raise BatchError(
            f"{method}: the batch has no logprobs; expected one a token under the policy being trained; score it and "
            f"use batch.with_logprobs"
        )
    return found


def behavior_logprobs(batch: Batch, method: str) -> Tensor:
    """`behavior_logprobs` [A] of the action tokens, refused when the log had none."""
    found = batch.on_actions("behavior_logprobs")
    if found is None:
        raise BatchError(
            f"{method}: trace {batch.trace_ids[0]} and the rest of the batch have no behavior_logprobs; expected the "
            f"serving stack's token_logprobs, without which there is no ratio; turn them on and train on the traces "
            f"that come after"
        )
    return found


def critic_values(batch: Batch, method: str) -> Tensor:
    """`values` [A] of the action tokens, refused when there are none or one is not finite."""
    found = batch.on_actions("values")
    if found is None:
        raise BatchError(
            f"{method}: trace {batch.trace_ids[0]} and the rest of the batch have no values; expected the critic's "
            f"prediction before each token; run the critic and use batch.with_values, or a method without a critic"
        )
    if not _all_finite(found):
        bad = first_true(~torch.isfinite(found)) or 0
        raise BatchError(
            f"{method}: {batch.place_of_action(bad)}: value {float(found[bad])}; expected a finite number; the critic "
            f"has diverged: go back to its last good checkpoint"
        )
    return found


def scored(batch: Batch, method: str) -> tuple[Tensor, Tensor]:
    """`logprobs` and `behavior_logprobs` [A] of the action tokens, refused when either is missing."""
    return current_logprobs(batch, method), behavior_logprobs(batch, method)


def log_ratios(batch: Batch, method: str) -> Tensor:
    """Log importance ratios [A] of the action tokens; refused when the batch lacks one side."""
    current, behavior = scored(batch, method)
    return batch.once("log_ratios", lambda: terms.log_ratios(current, behavior))


def importance_ratios(batch: Batch, method: str) -> Tensor:
    """Importance ratios [A] of the action tokens; refused when the batch lacks one side."""
    found = log_ratios(batch, method)
    return batch.once("importance_ratios", lambda: terms.importance_ratios(found))


def drift(batch: Batch, method: str) -> Tensor:
    """Mean Bernoulli KL [B] of each trace of the batch, NaN without an action token; refused when it lacks one side."""
    current, behavior = scored(batch, method)
    traces, counts = batch.actions.traces, batch.num_action_tokens
    return batch.once("drift", lambda: terms.mean_drift(behavior, current, traces, counts))


def whole_batch(batch: Batch, method: str) -> None:
    """Refuse a part of a batch: the method looks at all its tokens together."""
    if not batch.is_whole:
        raise BatchError(
            f"{method}: a part of {len(batch.trace_ids)} of {batch.statistics.num_traces} traces; expected the whole "
            f"batch; score all of it first, then update once"
        )


def finite(batch: Batch, coefficients: Tensor, remedy: str) -> None:
    """Stop at the first action token whose coefficient [A] is not finite; `remedy` is what to do about its ratio."""
    if _all_finite(coefficients):
        return
    bad = first_true(~torch.isfinite(coefficients)) or 0
    current, behavior = batch.on_actions("logprobs"), batch.on_actions("behavior_logprobs")
    if behavior is not None and current is not None:
        remedy = f"its log-ratio is {float(current[bad] - behavior[bad]):.6g}: {remedy}"
    raise TrainingError(
        f"{batch.place_of_action(bad)}: the coefficient overflows {batch.dtype}; expected a finite number; {remedy}"
    )


def _all_finite(numbers: Tensor) -> bool:
    return bool(torch.isfinite(torch.stack(numbers.aminmax())).all())


def action_tokens(batch: Batch, method: str) -> None:
    """Refuse a trace without an action token."""
    empty = first_true(batch.num_action_tokens == 0)
    if empty is not None:
        raise BatchError(
            f"{method}: trace {batch.trace_ids[empty]} has no action token; expected at least one in each of "
            f"the {len(batch.trace_ids)} traces; leave it out or mend its action mask"
        )
