"""Where age costs a method that ignores it: the claim of `bench/lag.py`, at two ages."""

import pytest

from bench.lag import CONTESTANTS, difference

pytestmark = pytest.mark.soak

SEEDS = range(2000, 2008)
"""On which neither the world nor the page with the curves was made."""

BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}
CORRECTED = ("flash_reinforce, 0.05", "reinforce, tis", "reinforce, dppo_tv")


@pytest.mark.parametrize("name", CORRECTED)
def test_at_eight_updates_of_age_the_uncorrected_baseline_learns_less(name):
    """By 0.05 in expected reward at least, over 8 seeds, the 95% interval of the paired difference included."""
    mean, half = difference(BY_NAME[name], lag=8, seeds=SEEDS)
    assert mean - half > 0.05


@pytest.mark.parametrize("name", CORRECTED)
def test_at_no_age_a_correction_changes_nothing(name):
    """Ratios are 1 there: the same policy, to rounding, on each seed."""
    mean, half = difference(BY_NAME[name], lag=0, seeds=SEEDS)
    assert abs(mean) + half < 1e-5


def test_a_clip_that_binds_is_no_correction():
    """PPO's clip drops what has moved its advantage's way: at that age it learns less than the baseline, not more."""
    mean, half = difference(BY_NAME["reinforce, ppo"], lag=8, seeds=SEEDS)
    assert mean + half < 0.0
