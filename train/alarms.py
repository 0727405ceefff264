"""Alarms over the figures of the updates so far: they stop a run before it makes a version that nobody should serve."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import Field

from schemas.settings import Settings

AlarmName = Literal["drift", "entropy", "explained_variance", "in_trust"]

Figures = Mapping[str, Any]
"""The figures of one update, as a line of metrics.jsonl has them."""


class AlarmSettings(Settings):
    """When a run is stopped because its updates go wrong; each bound must be crossed in every update of the window."""

    off: tuple[AlarmName, ...] = ()
    """Alarms that are not listened to: drift, entropy, explained_variance or in_trust. Convention, untested."""
    window: int = Field(default=3, ge=2)
    """Updates in a row that must all be beyond a bound, so that one odd batch stops nothing. Of the example's batches
    of six traces one in twenty had an explained variance 0.5 below the best so far and no neighbour of it had, measured
    2026-12-01."""
    largest_added_drift: float = Field(default=0.03, gt=0)
    """Mean drift above that of the first update, in nats a token. Ten times the trust of Hu et al. 2026, Sec. 3.2; on
    the example no batch of a good run gained more than 0.0054 at rates up to 1e-4, measured 2026-12-01."""
    lowest_entropy_share: float = Field(default=0.3, ge=0, lt=1)
    """Mean entropy over the mean surprise that was logged for the same tokens, as a share of the same at the first
    update where that is below 1. On the example no batch of a good run came below 0.77, measured 2026-12-01; the bound
    is a convention."""
    largest_explained_variance_fall: float = Field(default=0.5, gt=0)
    """How far explained variance may fall below the best that the run had, or below 0, which a constant reaches. Of the
    example's good runs none fell by more than 0.24 in three batches in a row, measured 2026-12-01; twice that."""
    lowest_in_trust_share: float = Field(default=0.5, ge=0, le=1)
    """Share of the traces of an update that the method lets move the policy. On the example no two batches of a good
    run in a row came below 0.83, measured 2026-12-01; half is a convention."""

    @property
    def are_off(self) -> bool:
        """Whether none listens."""
        return set(self.off) == set(get_args(AlarmName))


@dataclass(frozen=True, kw_only=True, slots=True)
class Alarm:
    """Why a run must stop, and where it was still good."""

    name: AlarmName
    sentence: str
    """Values, bound, the updates that were looked at, and what to do."""
    num_good: int
    """Updates after which the policy was last seen within the bound: the checkpoint to go back to has made so many; 0
    is the parent."""

    def __str__(self) -> str:
        return self.sentence


def first_alarm(history: Sequence[Figures], settings: AlarmSettings) -> Alarm | None:
    """The first alarm that the last updates of `history` sound, or None.

    `history` holds the figures of every update so far, the newest last. A critic's warm-up is left out. The first
    update after it sounds none: it was measured before anything moved the policy, and others are compared with it.
    A figure that is missing, null or NaN is beyond no bound, and neither is one that its method does not have.
    """
    seen = [(number, figures) for number, figures in enumerate(history) if not figures.get("is_critic_warming_up")]
    if len(seen) <= settings.window:
        return None
    for watch in _WATCHES:
        if watch.name not in settings.off:
            alarm = _sounded(watch, seen, settings)
            if alarm is not None:
                return alarm
    return None


def last_word(history: Sequence[Figures], settings: AlarmSettings) -> str | None:
    """Why a run that was too short for any alarm is not to be proposed; None where its last update was within bounds.

    Drift and trust alone: they say of one batch what the others say of several.
    """
    seen = [(number, figures) for number, figures in enumerate(history) if not figures.get("is_critic_warming_up")]
    if not 1 < len(seen) <= settings.window:
        return None
    for watch in _WATCHES:
        if watch.name not in settings.off and watch.name in {"drift", "in_trust"}:
            values = [watch.value(figures) for _, figures in seen]
            bound = watch.bound(values, settings)
            if watch.is_beyond(values[-1], bound) and not watch.is_beyond(values[0], bound):
                return (
                    f"{watch.what} was {values[-1]:.3g} in the last of {len(seen)} updates, after {values[0]:.3g} in "
                    f"the first; expected {'at most' if watch.is_ceiling else 'at least'} {bound:.3g}; {watch.advice}"
                )
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Watch:
    """One figure and the bound that it is held to."""

    name: AlarmName
    what: str
    value: Callable[[Figures], float]
    bound: Callable[[Sequence[float], AlarmSettings], float]
    """From the values of all updates, the newest last."""
    is_ceiling: bool
    advice: str

    def is_beyond(self, value: float, bound: float) -> bool:
        """Whether the value is on the wrong side; NaN never is."""
        return value > bound if self.is_ceiling else value < bound


def _sounded(watch: _Watch, seen: Sequence[tuple[int, Figures]], settings: AlarmSettings) -> Alarm | None:
    values = [watch.value(figures) for _, figures in seen]
    bound = watch.bound(values, settings)
    last = values[-settings.window :]
    if not all(watch.is_beyond(value, bound) for value in last):
        return None
    first, newest = seen[-settings.window][0], seen[-1][0]
    began = "" if math.isnan(values[0]) else f", after {values[0]:.3g} in update {seen[0][0]}"
    before = values[-settings.window - 1]
    kept = "" if watch.is_beyond(before, bound) else f", which it last kept after {first - 1} updates"
    sentence = (
        f"{watch.what} was {', '.join(f'{value:.3g}' for value in last)} in the last {settings.window} updates "
        f"({first} to {newest}){began}; expected {'at most' if watch.is_ceiling else 'at least'} {bound:.3g}{kept}; "
        f"{watch.advice}, or add {watch.name} to train.alarms.off"
    )
    return Alarm(name=watch.name, sentence=sentence, num_good=first - 1)


def _number(figures: Figures, name: str) -> float:
    """The figure, NaN where there is none."""
    value = figures.get(name)
    return math.nan if value is None else float(value)


def _in_trust_share(figures: Figures) -> float:
    num_traces = _number(figures, "num_traces")
    return _number(figures, "num_in_trust") / num_traces if num_traces > 0 else math.nan


def _entropy_share(figures: Figures) -> float:
    """Entropy over surprise: near 1 for the policy that wrote the tokens, whatever the tokens are."""
    surprise = _number(figures, "mean_surprise")
    return _number(figures, "mean_entropy") / surprise if surprise > 0 else math.nan


def _best(values: Sequence[float], window: int) -> float:
    """Highest median of `window` measured values in a row; at least 0, which a constant has.

    A median, because one lucky batch is no level to fall from.
    """
    measured = [value for value in values if not math.isnan(value)]
    parts = (measured[start : start + window] for start in range(len(measured) - window + 1))
    return max([0.0, *(statistics.median(part) for part in parts)])


_WATCHES = (
    _Watch(
        name="drift",
        what="mean drift",
        value=lambda figures: _number(figures, "mean_drift"),
        bound=lambda values, settings: values[0] + settings.largest_added_drift,
        is_ceiling=True,
        advice="the policy runs away from what wrote its traces: lower train.learning_rate or train.max_updates",
    ),
    _Watch(
        name="in_trust",
        what="the share of traces in trust",
        value=_in_trust_share,
        bound=lambda _, settings: settings.lowest_in_trust_share,
        is_ceiling=False,
        advice="lower train.learning_rate if it fell within the run, train sooner after serving if it began low, or "
        "lower train.alarms.lowest_in_trust_share",
    ),
    _Watch(
        name="entropy",
        what="mean entropy over logged surprise",
        value=_entropy_share,
        bound=lambda values, settings: settings.lowest_entropy_share * min(1.0, values[0]),
        is_ceiling=False,
        advice="the policy has become certain of its tokens: lower train.learning_rate, or look at what the "
        "rewards pay for",
    ),
    _Watch(
        name="explained_variance",
        what="explained variance of the critic",
        value=lambda figures: _number(figures, "critic_explained_variance"),
        bound=lambda values, settings: _best(values, settings.window) - settings.largest_explained_variance_fall,
        is_ceiling=False,
        advice="its values are worse than they were, and so are the advantages: lower train.critic.learning_rate or "
        "give it more train.critic.warmup_updates",
    ),
)
"""In the order in which they are asked: the nearest cause first."""
