"""Lag, age, drift, the canary, whom the trust keeps out, and what the correction would do."""

import math

import numpy as np
import pytest

from tests.validate.hand_made import AS_OF_US, drift, drifts, policies, policy, scored, sequence, traces
from validate.catalog import MEASURES
from validate.check import compare_all
from validate.regime import admitted_ratios, scan_regime
from validate.staleness import Staleness, drift_of, find_stale, scan_canary, scan_selection, scan_staleness
from validate.versions import writers_of

EVERYONE = np.ones(3, bool)


def stale(lag=(1.0, 1.0, 3.0), age=(24.0, 48.0, 96.0), kl=(0.001, 0.002, 0.01), ratio=(0.1, 0.2, 0.3)):
    """Three traces: two near the current policy, one far."""
    return Staleness(lag=np.array(lag), age_hours=np.array(age), drift=np.array(kl), abs_log_ratio=np.array(ratio))


def by_key(readings):
    """The readings by name and subject."""
    return {(reading.name, reading.subject): reading for reading in readings}


def test_lag_is_counted_in_updates_from_the_oldest_version():
    """v1 at step 1, v2 at step 3, current at step 4; an unregistered version has no lag."""
    rows = [sequence("a", version="v1"), sequence("b"), sequence("c", version="v3"), sequence("d", version="v9")]
    mixed = [{"policy_version": "v3", "start": 2, "end": 3}, {"policy_version": "v1", "start": 3, "end": 5}]
    found = writers_of(traces(*rows, sequence("e", version_spans=mixed)), policies())
    assert found.lag[:3].tolist() == [3.0, 1.0, 0.0]
    assert math.isnan(found.lag[3])
    assert found.lag[4] == 3.0
    assert found.name.tolist() == ["v1", "v2", "v3", "v9", None]


def test_age_is_from_the_last_known_time_of_any_sequence():
    """A trace of two sequences, the later of which ended 10 hours before the clock."""
    rows = [sequence("a", num_sequences=2), sequence("a", num_sequences=2, sequence_index=1, hours=10.0)]
    assert traces(*rows).age_hours(AS_OF_US).tolist() == pytest.approx([10.0], abs=1e-9)


def test_drift_is_that_under_the_current_policy():
    """A complete score by v3 counts; one by v1, one of a trace that is not here and an incomplete one do not."""
    rows = [
        drift("a", 0.2),
        drift("a", 0.9, policy_version="v1"),
        drift("b", 0.3, is_complete=False),
        drift("elsewhere", 0.4),
    ]
    found, _ = drift_of(traces(sequence("a"), sequence("b")), drifts(*rows), "v3")
    assert found[0] == 0.2
    assert math.isnan(found[1])


def test_a_limit_admits_its_own_value_and_an_open_one_admits_all():
    """Drift 0.003, lag 8 and age 336 are within; without limits, only the trust keeps out."""
    here = stale(lag=(8.0, 9.0, -9.0), age=(336.0, 337.0, math.inf), kl=(0.003, 0.0031, math.nan))
    found = find_stale(here, max_drift=0.003, max_lag=8, max_age_hours=336.0)
    assert found["drift_over_trust"].tolist() == [False, True, False]
    assert found["lag_over_limit"].tolist() == [False, True, True]
    assert found["too_old"].tolist() == [False, True, True]
    unlimited = find_stale(here, max_drift=0.003, max_lag=None, max_age_hours=None)
    assert not unlimited["lag_over_limit"].any()
    assert not unlimited["too_old"].any()


def test_staleness_is_told_by_version():
    """Two traces of v2 with drifts 0.001 and 0.002 are within the trust; v1 with 0.01 is not."""
    groups = {"all": EVERYONE, "version:v1": np.array([0, 0, 1], bool), "version:v2": np.array([1, 1, 0], bool)}
    admitted = np.array([True, True, False])
    found = by_key(scan_staleness(stale(), groups, is_usable=EVERYONE, is_admitted=admitted, max_drift=0.003))
    assert found["policy_lag", "version:v1"].estimate.value == 3.0
    assert found["policy_lag", "all"].estimate.value == 1.0
    assert found["age_hours", "version:v2"].estimate.value == 36.0
    assert found["drift", "version:v2"].estimate.value == pytest.approx(0.0015, abs=1e-12)
    assert found["within_trust_share", "all"].estimate.value == pytest.approx(2 / 3, abs=1e-12)
    assert found["within_trust_share", "version:v1"].estimate.value == 0.0


def test_whom_the_trust_keeps_out_is_told_by_length_and_reward():
    """Kept: 10 and 20 tokens, rewards 1 and 0; dropped: 60 tokens, reward 1."""
    rewards = np.array([1.0, 0.0, 1.0])
    found = by_key(scan_selection(stale(), np.array([10.0, 20, 60]), rewards, members=EVERYONE, max_drift=0.003))
    assert found["trust_length_gap", "all"].estimate.value == -45.0
    assert found["trust_reward_gap", "all"].estimate.value == -0.5


def test_a_trust_that_keeps_everyone_has_nobody_to_compare():
    """No trace is dropped: not measured."""
    found = by_key(scan_selection(stale(), np.ones(3), np.ones(3), members=EVERYONE, max_drift=0.1))
    assert found["trust_length_gap", "all"].estimate.value is None


def test_the_canary_is_each_version_under_its_own_weights():
    """v2 under v2 twice: mean of 1e-9 and 3e-9; v2 under v3 is drift, not canary; v3 has no trace of its own."""
    rows = [
        drift("a", 1e-9, policy_version="v2"),
        drift("b", 3e-9, policy_version="v2"),
        drift("a", 0.01),
    ]
    readings = scan_canary(drifts(*rows), policies(), served=["v2"])
    found = {(f.name, f.subject): f for f in compare_all(readings, MEASURES, {})}
    kl = found["canary_bernoulli_kl", "version:v2"]
    assert (kl.value, kl.num_observations, kl.status) == (pytest.approx(2e-9, abs=1e-18), 2, "ok")
    current = found["canary_bernoulli_kl", "version:v3"]
    assert (current.status, current.severity) == ("not_measured", "hold")
    assert ("canary_bernoulli_kl", "version:v1") not in found


def test_a_half_scored_trace_is_no_canary():
    """What is known of its tokens says nothing of the whole trace."""
    own = {"policy_version": "v3", "behavior_version": "v3"}
    rows = [drift("a", 1e-9, **own), drift("b", 9.0, **own, is_complete=False)]
    found = by_key(scan_canary(drifts(*rows), policies(), served=["v3"]))
    kl = found["canary_bernoulli_kl", "version:v3"].estimate
    assert (kl.value, kl.num_observations) == (1e-9, 1)


@pytest.mark.parametrize(("kl", "status"), [(0.0016, "stop"), (0.0014, "warn"), (0.0002, "ok")])
def test_a_canary_off_the_floor_says_that_the_log_is_wrong(kl, status):
    """Half the trust of 0.003 stops the night, a tenth of it warns."""
    rows = [drift("a", kl, policy_version="v3", behavior_version="v3")]
    found = compare_all(scan_canary(drifts(*rows), policies(), served=["v3"]), MEASURES, {})
    assert [f.status for f in found if f.name == "canary_bernoulli_kl"] == [status]


def test_the_lineage_of_the_current_policy_goes_through_its_parents():
    """v3 came from v2 and v2 from v1; v4 is a candidate that v3 knows nothing of; a ring ends."""
    rows = [policy("v1", 1, parent_version="v2"), policy("v2", 2, parent_version="v1")]
    rows += [policy("v3", 3, parent_version="v2", state="current"), policy("v4", 4, parent_version="v3")]
    assert policies(*rows).lineage() == ["v3", "v2", "v1"]


def ratio_night():
    """Two traces of three action tokens each; log ratios 0.1, 0.1, 0.1 and 0, 0, -0.2."""
    seen = traces(sequence("a"), sequence("b"))
    rows = scored(("a", [None, None, -0.4, -0.15, -1.4]), ("b", [math.nan, None, -0.5, -0.25, -1.7]))
    return seen, rows


def test_ratios_are_of_action_tokens_of_admitted_traces():
    """Trace b alone: e^0, e^0 and e^-0.2; the numbers under the mask are not looked at. 1e-6: float32 in the lake."""
    ratios = admitted_ratios(*ratio_night(), np.array([False, True]))
    assert ratios.tolist() == pytest.approx([1.0, 1.0, math.exp(-0.2)], abs=1e-6)


def test_ratios_are_matched_by_trace_and_sequence_whatever_their_order():
    """The rows of the other table lie the other way round."""
    seen, rows = ratio_night()
    both = np.array([True, True])
    assert admitted_ratios(seen, rows.take([1, 0]), both).tolist() == admitted_ratios(seen, rows, both).tolist()


def test_a_run_that_would_equal_plain_policy_gradient_is_told_before():
    """All ratios 1 and nobody beyond the trust."""
    seen = traces(sequence("a"))
    rows = scored(("a", [None, None, -0.5, -0.25, -1.5]))
    yes, no = np.array([True]), np.array([False])
    found = by_key(scan_regime(seen, rows, beyond=no, asked=yes, admitted=yes))
    assert found["ratio_departure", "all"].estimate.value == 0.0
    assert found["ratio_departure", "all"].estimate.lower is None  # tokens of one trace are not independent
    assert "would equal plain policy gradient" in found["ratio_departure", "all"].sentence
    assert found["effective_token_share", "all"].estimate.value == 1.0


def test_the_effective_tokens_and_the_mean_ratio_by_hand():
    """Ratios e^0.1 three times, 1, 1 and e^-0.2: mean 1.022374; (sum)^2 / (6 * sum of squares) = 0.990049."""
    seen, rows = ratio_night()
    both, nobody = np.array([True, True]), np.array([False, False])
    found = by_key(scan_regime(seen, rows, beyond=nobody, asked=both, admitted=both))
    assert found["mean_ratio_factor", "all"].estimate.value == pytest.approx(1.022374, abs=1e-5)
    assert found["effective_token_share", "all"].estimate.value == pytest.approx(0.990049, abs=1e-5)
    assert "plain" not in found["ratio_departure", "all"].sentence
