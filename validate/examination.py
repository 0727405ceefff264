"""One night looked at from every side: each check and each scan, once, in the order of the gate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from schemas.progress import Progress, silent
from validate.check import Estimate, Reading
from validate.duplicates import Contents, contents_of, find_duplicates, scan_duplicates
from validate.group import Groups, group_by, groups_of, shares_by_group
from validate.judge import opinions_of, scan_judge
from validate.logprobs import TokenCounts, count_tokens, find_bad_logprobs, scan_logprobs
from validate.regime import scan_regime
from validate.reward_scan import scan_rewards
from validate.rewards import Rewards, find_bad_rewards, reward_of
from validate.segments import Booleans
from validate.staleness import (
    Staleness,
    drift_of,
    find_stale,
    scan_canary,
    scan_selection,
    scan_staleness,
)
from validate.structure import find_broken, scan_structure
from validate.traces import Texts
from validate.versions import Writers, find_bad_versions, scan_versions, writers_of
from validate.waterfall import REASON_ORDER, Reasons, Waterfall, decide

if TYPE_CHECKING:
    from validate.gate import ValidateSettings
    from validate.night import Night

_USABLE = ("structure", "logprobs", "version")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """What was found out about a night: where each trace ended, and every reading."""

    waterfall: Waterfall
    rewards: Rewards
    staleness: Staleness
    readings: list[Reading]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Evidence:
    """What several checks and scans share."""

    night: Night
    settings: ValidateSettings
    as_of_us: int
    counts: TokenCounts
    contents: Contents
    writers: Writers
    rewards: Rewards
    staleness: Staleness


def examine(night: Night, settings: ValidateSettings, *, as_of: datetime, progress: Progress = silent) -> Examination:
    """Check every trace and scan the night.

    Traces are judged whatever their age; scans look at the window, which is the traces that ended within
    `gate.max_age_hours` before `as_of`.
    """
    steps = iter(range(1, 5))
    progress("validate", next(steps), 4, "steps", "tokens")
    evidence = _gather(night, settings, as_of)
    progress("validate", next(steps), 4, "steps", "traces")
    reasons = _check(evidence)
    waterfall = decide(reasons)
    progress("validate", next(steps), 4, "steps", "night")
    readings = _scan(evidence, reasons, waterfall)
    progress("validate", next(steps), 4, "steps", "done")
    return Examination(waterfall=waterfall, rewards=evidence.rewards, staleness=evidence.staleness, readings=readings)


def _gather(night: Night, settings: ValidateSettings, as_of: datetime) -> _Evidence:
    as_of_us = (as_of - _EPOCH) // timedelta(microseconds=1)
    writers = writers_of(night.traces, night.policies)
    drift, abs_log_ratio = drift_of(night.traces, night.drifts, night.policies.current)
    return _Evidence(
        night=night,
        settings=settings,
        as_of_us=as_of_us,
        counts=count_tokens(night.traces.sequences),
        contents=contents_of(night.traces, night.calls),
        writers=writers,
        rewards=reward_of(night.traces, night.outcomes, settings.reward, as_of_us=as_of_us, is_timed=night.is_timed),
        staleness=Staleness(
            lag=writers.lag,
            age_hours=night.traces.age_hours(as_of_us),
            drift=drift,
            abs_log_ratio=abs_log_ratio,
        ),
    )


def _check(evidence: _Evidence) -> Reasons:
    night, gate = evidence.night, evidence.settings.gate
    traces, counts = night.traces, evidence.counts
    reasons = Reasons(traces.num_traces)
    reasons.add({code: traces.has_fault(code) for code in REASON_ORDER})  # what assembly found, it has seen best
    reasons.add(find_broken(traces, counts, required_calls=gate.required_calls))
    numbers = find_bad_logprobs(traces, counts, constant_run=gate.constant_run)
    # Where the support is cut to one token, its log-probability is 0, and a whole reply of zeros is no default.
    numbers["constant_logprob"] &= ~(reasons.has("truncated_support") | reasons.has("greedy_sampling"))
    reasons.add(numbers)
    reasons.add(find_bad_versions(evidence.writers))
    reasons.add(find_bad_rewards(evidence.rewards, evidence.settings.reward))
    reasons.add(find_duplicates(traces, evidence.contents))
    reasons.add({"heldout": traces.texts("split") == "holdout", "already_trained": night.is_trained})
    stale = find_stale(
        evidence.staleness, max_drift=gate.max_drift, max_lag=gate.max_lag, max_age_hours=gate.max_age_hours
    )
    reasons.add(stale)
    # Scoring is asked for only where it can change the verdict: not of a trace that is out by itself.
    is_out = reasons.any_in(*_USABLE, "holdout") | stale["too_old"] | stale["lag_over_limit"]
    reasons.add({"not_rescored": ~evidence.staleness.is_scored & ~is_out})
    return reasons


def _scan(evidence: _Evidence, reasons: Reasons, waterfall: Waterfall) -> list[Reading]:
    traces, gate = evidence.night.traces, evidence.settings.gate
    age = evidence.staleness.age_hours
    oldest = np.inf if gate.max_age_hours is None else gate.max_age_hours
    window = (age >= 0) & (age <= oldest)
    groups = groups_of(window, evidence.writers.name, list(evidence.night.policies.steps))
    is_usable = ~reasons.any_in(*_USABLE)
    readings = _admission(waterfall)
    readings += scan_structure(traces, evidence.counts, groups, is_usable=is_usable)
    readings += scan_logprobs(traces, evidence.counts, groups)
    readings += _coverage(traces.texts("workload"), reasons, is_usable, groups)
    readings += scan_versions(evidence.writers, window)
    readings += _stale_readings(evidence, reasons, waterfall, groups)
    readings += scan_rewards(
        evidence.rewards, evidence.settings.reward, groups=groups, is_admitted=waterfall.is_admitted
    )
    readings += _judge(evidence, window)
    return readings + scan_duplicates(
        traces,
        evidence.contents,
        evidence.rewards,
        is_copy=reasons.has("duplicate_trace"),
        window=window,
        is_admitted=waterfall.is_admitted,
    )


def _admission(waterfall: Waterfall) -> list[Reading]:
    num_traces = waterfall.leading.size
    readings = []
    for name, flags in (("admitted_traces", waterfall.is_admitted), ("pending_traces", waterfall.is_pending)):
        number = int(flags.sum())
        sentence = f"{number:,} of {num_traces:,} traces are {name.removesuffix('_traces')}"
        estimate = Estimate(float(number), num_observations=num_traces)
        readings.append(Reading(name=name, estimate=estimate, sentence=sentence))
    return readings


def _coverage(workloads: Texts, reasons: Reasons, is_usable: Booleans, groups: Groups) -> list[Reading]:
    window = next(iter(groups.values()))
    by_workload = group_by(window, prefix="workload", names=workloads)
    what = "traces are usable for ratio methods"
    readings = shares_by_group("usable_logprob_share", is_usable, {**groups, **by_workload}, what)
    is_logged = ~reasons.has("no_behavior_logprobs")
    return readings + shares_by_group("logged_logprob_share", is_logged, groups, "traces came with log-probabilities")


def _stale_readings(evidence: _Evidence, reasons: Reasons, waterfall: Waterfall, groups: Groups) -> list[Reading]:
    night, staleness, max_drift = evidence.night, evidence.staleness, evidence.settings.gate.max_drift
    window = next(iter(groups.values()))
    is_usable = ~reasons.any_in(*_USABLE)
    served = [subject.removeprefix("version:") for subject in groups]
    readings = scan_canary(night.drifts, night.policies, served=served)
    readings += scan_staleness(
        staleness, groups, is_usable=is_usable, is_admitted=waterfall.is_admitted, max_drift=max_drift
    )
    decided = window & is_usable & staleness.is_scored
    lengths = night.traces.sum_of(evidence.counts.num_action)
    readings += scan_selection(staleness, lengths, evidence.rewards.value, members=decided, max_drift=max_drift)
    asked = staleness.is_scored & ~reasons.any_but("drift_over_trust")
    return readings + scan_regime(
        night.traces, night.scored, beyond=staleness.drift > max_drift, asked=asked, admitted=waterfall.is_admitted
    )


def _judge(evidence: _Evidence, window: Booleans) -> list[Reading]:
    traces, settings = evidence.night.traces, evidence.settings.judge
    opinions = opinions_of(traces, evidence.night.outcomes, settings, window=window)
    return scan_judge(
        opinions,
        traces.sum_of(evidence.counts.num_action),
        settings,
        is_reward=evidence.settings.reward.source_kind == "judge",
        as_of_us=evidence.as_of_us,
    )
