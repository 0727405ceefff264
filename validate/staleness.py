"""How stale a trace is: optimizer updates, hours, drift; whom the trust keeps out; what the canary says of the logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from validate.check import ALL, Estimate, Reading, unmeasured
from validate.group import Groups, share_reading
from validate.segments import Booleans, Floats
from validate.statistics import difference_of_means, mean_interval
from validate.traces import Traces
from validate.versions import Policies

DRIFT_COLUMNS: tuple[str, ...] = (
    "trace_id",
    "policy_version",
    "behavior_version",
    "is_complete",
    "mean_bernoulli_kl",
    "mean_abs_log_ratio",
)
"""What is read of `trace_drift`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Staleness:
    """[N] how stale each trace is; NaN where it is not known."""

    lag: Floats
    """Optimizer updates between writing and the current policy."""
    age_hours: Floats
    """Hours between the end of the trace and the run's clock."""
    drift: Floats
    """Mean Bernoulli KL of its action tokens under the current policy."""
    abs_log_ratio: Floats
    """Mean absolute log ratio of the same."""

    @property
    def is_scored(self) -> Booleans:
        """[N] whether the current policy has scored all of the trace."""
        return ~np.isnan(self.drift)


def drift_of(traces: Traces, drifts: pa.Table, current: str | None) -> tuple[Floats, Floats]:
    """[N] drift and mean absolute log ratio under the current policy; NaN where not every sequence was scored."""
    is_current = pc.equal(drifts["policy_version"], pa.scalar(current, pa.string()))
    rows = drifts.filter(pc.and_(is_current, drifts["is_complete"]))
    owners = pc.index_in(rows["trace_id"], value_set=traces.trace_ids)
    known = owners.is_valid().to_numpy()
    places = owners.drop_null().to_numpy().astype(np.int64)
    drift, ratio = np.full(traces.num_traces, np.nan), np.full(traces.num_traces, np.nan)
    drift[places] = rows["mean_bernoulli_kl"].to_numpy()[known]
    ratio[places] = rows["mean_abs_log_ratio"].to_numpy()[known]
    return drift, ratio


def find_stale(
    staleness: Staleness, *, max_drift: float, max_lag: int | None, max_age_hours: float | None
) -> dict[str, Booleans]:
    """[N] per reason: which traces are too old, too many updates behind, or too far from the current policy.

    A version that is ahead of the current one, after a rollback, counts as far as one that is behind.
    """
    nobody = np.zeros(staleness.lag.size, np.bool_)
    return {
        "too_old": nobody if max_age_hours is None else staleness.age_hours > max_age_hours,
        "lag_over_limit": nobody if max_lag is None else np.abs(staleness.lag) > max_lag,
        "drift_over_trust": staleness.drift > max_drift,
    }


def scan_staleness(
    staleness: Staleness, groups: Groups, *, is_usable: Booleans, is_admitted: Booleans, max_drift: float
) -> list[Reading]:
    """Lag, age and drift over all traces and by version; lag over all is that of the admitted ones."""
    readings: list[Reading] = []
    for subject, members in groups.items():
        readings.append(_lag(staleness.lag[is_admitted if subject == ALL else members], subject))
        readings.append(_age(staleness.age_hours[members], subject))
        readings += _drift(staleness, members & is_usable & staleness.is_scored, subject, max_drift)
    return readings


def _lag(lags: Floats, subject: str) -> Reading:
    known = lags[~np.isnan(lags)]
    if known.size == 0:
        why = "no trace was admitted" if subject == ALL else "the version is not registered, or none is current"
        return unmeasured("policy_lag", why, subject=subject, num_observations=lags.size)
    if subject == ALL:
        mean = mean_interval(known)
        sentence = f"admitted traces are {mean.value:.1f} updates behind in the mean, {known.max():g} at most"
        return Reading(name="policy_lag", estimate=mean, sentence=sentence)
    estimate = Estimate(float(known[0]), num_observations=known.size)
    sentence = f"a lag of {known[0]:g} updates over {known.size:,} traces"
    return Reading(name="policy_lag", estimate=estimate, sentence=sentence, subject=subject)


def _age(ages: Floats, subject: str) -> Reading:
    if ages.size == 0:
        return unmeasured("age_hours", "no trace in the window", subject=subject)
    median = float(np.median(ages))
    sentence = f"{median:.1f} hours in the median of {ages.size:,} traces, {ages.min():.1f} to {ages.max():.1f}"
    estimate = Estimate(median, num_observations=ages.size)
    return Reading(name="age_hours", estimate=estimate, sentence=sentence, subject=subject)


def _drift(staleness: Staleness, members: Booleans, subject: str, max_drift: float) -> list[Reading]:
    drifts = staleness.drift[members]
    if drifts.size == 0:
        why = "no usable trace was scored under the current policy: run tracemill rescore"
        names = ("drift", "drift_abs_log_ratio", "within_trust_share")
        return [unmeasured(name, why, subject=subject) for name in names]
    mean, ratio = mean_interval(drifts), mean_interval(staleness.abs_log_ratio[members])
    over = f"over {drifts.size:,} traces scored under the current policy"
    within = int(np.count_nonzero(drifts <= max_drift))
    return [
        Reading(name="drift", estimate=mean, sentence=f"{mean.value:.2g} nats a token {over}", subject=subject),
        Reading(name="drift_abs_log_ratio", estimate=ratio, sentence=f"{ratio.value:.2g} nats {over}", subject=subject),
        share_reading(
            "within_trust_share", within, drifts.size, f"scored traces are within the trust of {max_drift:g}", subject
        ),
    ]


def scan_selection(
    staleness: Staleness, lengths: Floats, rewards: Floats, *, members: Booleans, max_drift: float
) -> list[Reading]:
    """Whom the trust keeps out: length and reward of those within it against those beyond.

    `members` are the traces that the trust decides on; `rewards` is NaN where there is none.
    """
    kept, dropped = members & (staleness.drift <= max_drift), members & (staleness.drift > max_drift)
    readings = []
    for name, values, unit in (("trust_length_gap", lengths, "tokens"), ("trust_reward_gap", rewards, "reward")):
        left, right = (values[side & ~np.isnan(values)] for side in (kept, dropped))
        if min(left.size, right.size) == 0:
            why = f"the trust keeps {left.size:,} and drops {right.size:,} traces: nothing to compare"
            readings.append(unmeasured(name, why, num_observations=left.size + right.size))
            continue
        gap = difference_of_means(left, right)
        sentence = (
            f"{unit}: {left.mean():.3g} in the mean of {left.size:,} traces kept, "
            f"{right.mean():.3g} of {right.size:,} dropped"
        )
        readings.append(Reading(name=name, estimate=gap, sentence=sentence))
    return readings


def scan_canary(drifts: pa.Table, policies: Policies, *, served: Sequence[str]) -> list[Reading]:
    """Traces scored whole under the very version that wrote them: what is left is numerics, or a fault of the log.

    One pair of readings for each version in `served` and for the current one; NOT MEASURED is grave for the current
    one alone.
    """
    is_own = pc.equal(drifts["policy_version"], drifts["behavior_version"])
    own = drifts.filter(pc.and_(is_own, drifts["is_complete"]))
    names = [name for name in policies.steps if name in set(served) or name == policies.current]
    readings: list[Reading] = []
    for name in names:
        rows = own.filter(pc.equal(own["policy_version"], name))
        subject, is_other = f"version:{name}", name != policies.current
        if rows.num_rows == 0:
            why = f"no trace of {name} was scored under its own weights: run tracemill rescore"
            measures = ("canary_bernoulli_kl", "canary_abs_log_ratio")
            readings += [unmeasured(measure, why, subject=subject, advisory=is_other) for measure in measures]
            continue
        kl = mean_interval(rows["mean_bernoulli_kl"].to_numpy())
        ratio = mean_interval(rows["mean_abs_log_ratio"].to_numpy())
        over = f"over {rows.num_rows:,} traces of {name} under its own weights"
        readings += [
            Reading(name="canary_bernoulli_kl", estimate=kl, sentence=f"{kl.value:.1e} nats {over}", subject=subject),
            Reading(
                name="canary_abs_log_ratio", estimate=ratio, sentence=f"{ratio.value:.1e} nats {over}", subject=subject
            ),
        ]
    if policies.current is None:
        why = "no policy is current: register one under [[model.policies]]"
        readings.append(unmeasured("canary_bernoulli_kl", why))
    return readings
