"""Which outcome is the reward, and what the reward scan says of all of them."""

import numpy as np
import pytest
from pydantic import ValidationError

from tests.validate.hand_made import AS_OF_US, REWARD, outcome, outcomes, sequence, traces
from validate.reward_scan import scan_rewards
from validate.rewards import RewardSettings, find_bad_rewards, reward_of


def rewards(rows, *, settings=REWARD, hours=(48.0,) * 3):
    """The rewards of traces a, b and c."""
    seen = traces(*(sequence(name, hours=age) for name, age in zip("abc", hours, strict=True)))
    return reward_of(seen, outcomes(*rows), settings, as_of_us=AS_OF_US)


def readings(found, admitted=(True, True, True)):
    """The readings of the scan by name and subject; a is of v1, b and c of v2."""
    everyone = np.ones(3, bool)
    groups = {
        "all": everyone,
        "version:v1": np.array([True, False, False]),
        "version:v2": np.array([False, True, True]),
    }
    scan = scan_rewards(found, REWARD, groups=groups, is_admitted=np.array(admitted))
    return {(reading.name, reading.subject): reading for reading in scan}


def test_the_latest_word_of_any_source_counts():
    """Of two programs the later one, whichever way the rows lie."""
    rows = [outcome("a", 1.0, source="x", hours=30.0), outcome("a", 0.0, source="y", hours=20.0)]
    for listed in (rows, rows[::-1]):
        found = rewards(listed)
        assert found.value[0] == 0.0
        assert found.source[0] == "program/y"


def test_a_named_source_counts_alone():
    """With a source in the settings, another's later word changes nothing."""
    rows = [outcome("a", 1.0, source="x", hours=30.0), outcome("a", 0.0, source="y", hours=20.0)]
    chosen = RewardSettings(name="solved", source_kind="program", source="x")
    assert rewards(rows, settings=chosen).value[0] == 1.0


def test_a_missing_reward_is_not_zero():
    """A trace without outcome and one whose outcome was withdrawn have none."""
    found = rewards([outcome("a", None), outcome("b", 0.0)])
    assert np.isnan(found.value).tolist() == [True, False, True]
    assert found.has_any.tolist() == [False, True, False]


def test_a_score_of_an_unknown_trace_waits_and_is_counted():
    """Three events about a trace that nobody has seen, and one that names no trace at all."""
    rows = [outcome("a", 1.0), outcome("never seen", 1.0, num_events=3), outcome(None, 1.0)]
    assert rewards(rows).num_orphans == 4


def test_a_score_that_may_be_of_another_trace_keeps_both_out_and_is_attached_to_none():
    """Trace a has a score of its own besides, b has none: neither waits, neither is missing a reward."""
    rows = [
        outcome("a", 1.0, is_ambiguous=True),
        outcome("a", None, num_events=0, is_ambiguous=True, hours=30.0, source="other"),
        outcome("b", None, num_events=0, is_ambiguous=True, hours=30.0),
        outcome(None, 0.0, is_ambiguous=True),
    ]
    for hours in (48.0, 1.0):
        found = rewards(rows, hours=(hours,) * 3)
        assert found.value[0] == 1.0
        assert np.isnan(found.value[1:]).all()
        assert found.num_orphans == 0
        bad = find_bad_rewards(found, REWARD)
        assert bad["ambiguous_join"].tolist() == [True, True, False]
        assert (bad["reward_missing"] | bad["reward_pending"]).tolist() == [False, False, True]


def test_a_doubtful_score_of_another_name_or_kind_keeps_nothing_out():
    """The rule of the reward names what counts."""
    rows = [outcome("a", 1.0, name="csat", is_ambiguous=True), outcome("b", 1.0, source_kind="user", is_ambiguous=True)]
    assert not rewards(rows).is_ambiguous.any()


def test_scores_of_one_name_from_several_kinds_are_never_averaged():
    """Of a program's 1, a judge's 0.5 and a person's 0 the rule takes one."""
    rows = [outcome("a", value, source_kind=kind) for kind, value in (("program", 1.0), ("judge", 0.5), ("human", 0.0))]
    for kind, value in (("program", 1.0), ("judge", 0.5), ("human", 0.0)):
        settings = RewardSettings(name="solved", source_kind=kind)
        assert rewards(rows, settings=settings).value[0] == value


@pytest.mark.parametrize(("minutes", "is_early"), [(5.5, True), (4.5, False), (-1.0, False)])
def test_a_score_that_is_older_than_its_trace_is_refused_beyond_the_skew(minutes, is_early):
    """Traces begin 48 hours and a minute before the clock; clocks may differ by 5 minutes."""
    found = rewards([outcome("a", 1.0, hours=48.0 + (1 + minutes) / 60)])
    assert find_bad_rewards(found, REWARD)["score_precedes_trace"].tolist() == [is_early, False, False]


def test_a_withdrawn_score_is_not_too_early():
    """There is nothing to refuse; the reward is missing."""
    bad = find_bad_rewards(rewards([outcome("a", None, hours=100.0)]), REWARD)
    assert not bad["score_precedes_trace"].any()
    assert bad["reward_missing"].all()


def test_the_wait_is_from_the_end_of_the_trace_to_its_first_word():
    """Ended 48 hours ago and scored 40 hours ago: 8 hours; not scored: 48 so far; scored before its end: 0."""
    found = rewards([outcome("a", 1.0), outcome("c", 1.0, hours=50.0)])
    assert found.wait_hours.tolist() == pytest.approx([8.0, 48.0, 0.0], abs=1e-9)


def test_the_mean_leaves_the_missing_out_and_shows_what_zero_would_make_of_it():
    """Rewards 1 and 0 and one missing: 0.5, and 1/3 if the missing one were 0."""
    found = readings(rewards([outcome("a", 1.0), outcome("b", 0.0)]))
    assert found["reward_mean", "all"].estimate.value == 0.5
    assert found["reward_mean", "all"].estimate.num_observations == 2
    assert found["reward_mean_if_zero", "all"].estimate.value == pytest.approx(1 / 3, abs=1e-12)
    assert found["reward_mean", "version:v1"].estimate.value == 1.0
    assert found["reward_mean", "source:program/checker"].estimate.value == 0.5


def test_what_has_arrived_is_a_share_of_the_mature_traces():
    """One of two mature traces has a reward; the young one is not asked."""
    found = readings(rewards([outcome("a", 1.0)], hours=(48.0, 48.0, 1.0)))
    share = found["reward_arrived_share", "all"].estimate
    assert (share.value, share.num_observations) == (0.5, 2)


def test_spread_and_saturation_are_of_the_admitted_traces():
    """Rewards 1, 1, 0: deviation sqrt(2) / 3 and two thirds of one value; two equal ones have no spread."""
    rows = [outcome("a", 1.0), outcome("b", 1.0), outcome("c", 0.0)]
    found = readings(rewards(rows))
    assert found["reward_std", "all"].estimate.value == pytest.approx(2**0.5 / 3, abs=1e-12)
    assert found["reward_top_share", "all"].estimate.value == pytest.approx(2 / 3, abs=1e-12)
    equal = readings(rewards(rows), admitted=(True, True, False))
    assert equal["reward_std", "all"].estimate.value == 0.0
    assert equal["reward_top_share", "all"].estimate.value == 1.0


def test_a_shift_is_against_the_version_before():
    """v2 has 0 and 1, v1 has 1: -0.5."""
    found = readings(rewards([outcome("a", 1.0), outcome("b", 0.0), outcome("c", 1.0)]))
    assert found["reward_shift", "version:v2"].estimate.value == -0.5
    assert ("reward_shift", "version:v1") not in found


def test_the_arrival_curve_counts_the_waiting():
    """Arrived after 8 hours, out for 48, arrived after 20: by 12 hours 1/3, by 24 hours 2/3, by 72 not known."""
    found = readings(rewards([outcome("a", 1.0, hours=40.0), outcome("c", 1.0, hours=28.0)]))
    assert found["reward_arrived_by", "hours:12"].estimate.value == pytest.approx(1 / 3, abs=1e-12)
    assert found["reward_arrived_by", "hours:24"].estimate.value == pytest.approx(2 / 3, abs=1e-12)
    assert found["reward_arrived_by", "hours:72"].estimate.value is None


def test_faults_of_the_scorer_are_counted():
    """One conflict of three scored traces, one out of range, one revised."""
    rows = [outcome("a", 1.0, is_conflict=True), outcome("b", 7.0), outcome("c", 1.0, num_events=2)]
    found = readings(rewards(rows))
    assert found["reward_conflict_share", "all"].estimate.value == pytest.approx(1 / 3, abs=1e-12)
    assert found["reward_out_of_range_share", "all"].estimate.value == pytest.approx(1 / 3, abs=1e-12)
    assert found["reward_revisions", "all"].estimate.value == 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"maturity_hours": -1},
        {"skew_minutes": -1},
        {"lowest": 1.0, "highest": 1.0},
        {"source_kind": "oracle"},
        {"names": "x"},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(change):
    """A negative window, an empty range, an unknown scorer and an unknown setting."""
    with pytest.raises(ValidationError):
        RewardSettings(**({"name": "solved", "source_kind": "program"} | change))


def test_no_outcome_is_too_early_for_a_trace_without_a_time():
    """The time of reading stands for the trace's, and any score was given before it was read."""
    seen, said = traces(sequence("a", hours=48.0)), outcomes(outcome("a", 1.0, hours=72.0))
    timed, untimed = (
        reward_of(seen, said, REWARD, as_of_us=AS_OF_US, is_timed=np.array([is_timed])) for is_timed in (True, False)
    )
    assert (timed.is_early.tolist(), untimed.is_early.tolist()) == ([True], [False])
