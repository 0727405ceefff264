"""The reward scan: how many rewards there are, when they arrive, what they say, and who said it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from validate.check import Estimate, Reading, unmeasured
from validate.group import Groups, group_by, share_reading, shares_by_group
from validate.rewards import Rewards, RewardSettings
from validate.segments import Booleans, Floats
from validate.statistics import arrived_by, difference_of_means, mean_interval

ARRIVAL_HOURS = (1, 3, 6, 12, 24, 36, 48, 72)
"""Hours at which the arrival curve is read. Convention, untested."""


def scan_rewards(rewards: Rewards, settings: RewardSettings, *, groups: Groups, is_admitted: Booleans) -> list[Reading]:
    """All readings of the rewards; `groups` has all traces of the window first, then the versions, oldest first."""
    window = next(iter(groups.values()))
    by_source = group_by(window & rewards.has_any, prefix="source", names=rewards.source)
    readings = _arrived(rewards, groups)
    for subject, members in {**groups, **by_source}.items():
        readings += _means(rewards, members, subject)
    readings += _mix(rewards, window, by_source)
    readings += _shifts(rewards, groups)
    readings += _spread(rewards.value[is_admitted])
    readings += _arrival_curve(rewards, window)
    return readings + _faults(rewards, settings, window)


def _arrived(rewards: Rewards, groups: Groups) -> list[Reading]:
    mature = {subject: members & rewards.is_mature for subject, members in groups.items()}
    return shares_by_group("reward_arrived_share", rewards.has_any, mature, "mature traces have a reward")


def _means(rewards: Rewards, members: Booleans, subject: str) -> list[Reading]:
    values = rewards.value[members & rewards.has_any]
    num_members, num_missing = int(members.sum()), int(members.sum()) - values.size
    count = Reading(
        name="reward_count",
        estimate=Estimate(float(values.size), num_observations=num_members),
        sentence=f"{values.size:,} of {num_members:,} traces have a reward",
        subject=subject,
    )
    if values.size == 0:
        names = ("reward_mean", "reward_mean_if_zero")
        return [count, *(unmeasured(name, "no reward has arrived", subject=subject) for name in names)]
    mean = mean_interval(values)
    sentence = f"{mean.value:.3f} over the {values.size:,} rewards there are; {num_missing:,} traces are left out"
    readings = [count, Reading(name="reward_mean", estimate=mean, sentence=sentence, subject=subject)]
    if not subject.startswith("source:"):
        zeroed = float(values.sum()) / num_members
        readings.append(
            Reading(
                name="reward_mean_if_zero",
                estimate=Estimate(zeroed, num_observations=num_members),
                sentence=f"{zeroed:.3f} if the {num_missing:,} missing rewards were read as 0, not {mean.value:.3f}",
                subject=subject,
            )
        )
    return readings


def _mix(rewards: Rewards, window: Booleans, by_source: Groups) -> list[Reading]:
    total = int((window & rewards.has_any).sum())
    return [
        share_reading("reward_source_share", int(members.sum()), total, f"rewards came from {subject[7:]}", subject)
        for subject, members in by_source.items()
    ]


def _shifts(rewards: Rewards, groups: Groups) -> list[Reading]:
    readings: list[Reading] = []
    versions = [(subject, members) for subject, members in groups.items() if subject.startswith("version:")]
    for (before, earlier), (subject, later) in pairwise(versions):
        old, new = rewards.value[earlier & rewards.has_any], rewards.value[later & rewards.has_any]
        if min(old.size, new.size) == 0:
            readings.append(unmeasured("reward_shift", "one of the two versions has no reward", subject=subject))
            continue
        gap = difference_of_means(new, old)
        sentence = (
            f"{new.mean():.3f} against {old.mean():.3f} of {before[8:]}, over {new.size:,} and {old.size:,} rewards"
        )
        readings.append(Reading(name="reward_shift", estimate=gap, sentence=sentence, subject=subject))
    return readings


def _spread(values: Floats) -> list[Reading]:
    if values.size < 2:
        why = f"{values.size} admitted traces; a spread needs two"
        return [unmeasured(name, why, num_observations=values.size) for name in ("reward_std", "reward_top_share")]
    deviation = float(values.std())
    spread = Reading(
        name="reward_std",
        estimate=Estimate(deviation, num_observations=values.size),
        sentence=f"{deviation:.3f} over the rewards of {values.size:,} admitted traces, mean {values.mean():.3f}",
    )
    (most, number), *_ = sorted(Counter(values.tolist()).items(), key=lambda item: (-item[1], item[0]))
    what = f"admitted traces have the reward {most:g}"
    return [spread, share_reading("reward_top_share", number, values.size, what)]


def _arrival_curve(rewards: Rewards, window: Booleans) -> list[Reading]:
    waits, arrived = rewards.wait_hours[window], rewards.has_arrived[window]
    readings = []
    for hours in ARRIVAL_HOURS:
        subject = f"hours:{hours}"
        if waits.size == 0:
            readings.append(unmeasured("reward_arrived_by", "no trace in the window", subject=subject))
            continue
        share = arrived_by(float(hours), waits, arrived)
        if share.value is None:
            why = f"no trace was waited as long as {hours} h"
            readings.append(unmeasured("reward_arrived_by", why, subject=subject, num_observations=waits.size))
            continue
        sentence = f"{share.value:.1%} of rewards arrive within {hours} h of the end of the trace"
        readings.append(Reading(name="reward_arrived_by", estimate=share, sentence=sentence, subject=subject))
    return readings


def _faults(rewards: Rewards, settings: RewardSettings, window: Booleans) -> list[Reading]:
    scored = window & rewards.has_any
    out_of_range = scored & ((rewards.value < settings.lowest) | (rewards.value > settings.highest))
    num_scored, num_revised = int(scored.sum()), int((window & rewards.is_revised).sum())
    spoken = int((scored | (window & rewards.is_conflict)).sum())
    num_conflicts = int(np.count_nonzero(window & rewards.is_conflict))
    orphans = rewards.num_orphans
    return [
        share_reading("reward_conflict_share", num_conflicts, spoken, "scored traces have outcomes that disagree"),
        share_reading(
            "reward_out_of_range_share",
            int(out_of_range.sum()),
            num_scored,
            f"rewards lie outside {settings.lowest:g} to {settings.highest:g}",
        ),
        Reading(
            name="reward_revisions",
            estimate=Estimate(float(num_revised), num_observations=num_scored),
            sentence=f"{num_revised:,} of {num_scored:,} scored traces were revised by the same source",
        ),
        Reading(
            name="orphan_outcomes",
            estimate=Estimate(float(orphans), num_observations=num_scored),
            sentence=f"{orphans:,} outcomes named {settings.name} wait for a trace that has not been seen",
        ),
    ]
