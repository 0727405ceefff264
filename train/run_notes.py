"""What a run has to say of itself besides its updates: its critic, and traces that it read more than once."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from train.learner import Learner
from train.plan import Plan


def notes_of(plan: Plan, learner: Learner, history: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences about the updates of `history`, none where there is nothing to say."""
    return [*_of_critic(learner, history), *_of_reuse(plan, history)]


def critic_notes(before: tuple[float, int] | None, after: tuple[float, int]) -> list[str]:
    """How much of the variance on so many held-out traces the critic explains; `before` is of a run that began here."""
    explained, num_traces = after
    if not num_traces:
        return []
    began = "" if before is None else f", {before[0]:.3g} before the run"
    return [
        f"on {num_traces} held-out traces the critic explains {explained:.3g} of the variance of its targets{began}"
    ]


def _of_critic(learner: Learner, history: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if learner.critic is None:
        return
    num_waited = sum(figures["is_critic_warming_up"] for figures in history)
    yield (
        f"the critic has learned from {learner.critic.num_updates} batches; the policy waited for it in "
        f"{num_waited} of {len(history)}"
    )


def _of_reuse(plan: Plan, history: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How far the policy stood from the same traces the first time that it read them, and the last."""
    visits: dict[str, list[float]] = {}
    for batch, figures in zip(plan.batches, history, strict=False):
        drift = figures.get("mean_drift")
        if drift is not None:
            visits.setdefault(batch[0].trace_id, []).append(drift)
    repeated = [drifts for drifts in visits.values() if len(drifts) > 1]
    if not repeated:
        return
    first, last = (statistics.fmean(drifts[at] for drifts in repeated) for at in (0, -1))
    times = max(len(drifts) for drifts in repeated)
    yield (
        f"{len(repeated)} batches were read up to {times} times: mean drift {first:.3g} nats a token the first time, "
        f"{last:.3g} the last; reuse added {last - first:.3g}"
    )
