"""Each closed form against hand arithmetic, a published example, or an oracle in plain floats."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from validate.statistics import (
    Z95,
    Confusion,
    arrived_by,
    cohen_kappa,
    difference_of_means,
    difference_of_shares,
    effective_size,
    gwet_ac1,
    mean_interval,
    prediction_powered_mean,
    rogan_gladen,
    two_proportion_z,
    wilson,
)

COUNTS = Confusion(true_pass=20, false_pass=5, false_fail=10, true_fail=15)


def test_wilson_of_eight_in_ten():
    """Centre (0.8 + 0.19207) / 1.38415 = 0.71674, half width 0.22658."""
    share = wilson(8, 10)
    assert (share.value, share.num_observations) == (0.8, 10)
    assert (share.lower, share.upper) == pytest.approx((0.490162, 0.943318), abs=1e-6)


def test_wilson_of_none_and_of_all_is_not_certain():
    """0 of 10: from 0 to z^2 / (10 + z^2) = 3.84146 / 13.84146; 10 of 10 mirrors it."""
    assert (wilson(0, 10).lower, wilson(0, 10).upper) == pytest.approx((0.0, 0.277533), abs=1e-6)
    assert (wilson(10, 10).lower, wilson(10, 10).upper) == pytest.approx((0.722467, 1.0), abs=1e-6)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_any_wilson_interval_holds_its_share_and_stays_within_zero_and_one(counts):
    """However few, 0 <= lower <= share <= upper <= 1."""
    share = wilson(*counts)
    assert 0.0 <= share.lower <= share.value <= share.upper <= 1.0


def test_a_share_of_nothing_is_refused():
    """The caller has to say NOT MEASURED."""
    with pytest.raises(ValueError, match="NOT MEASURED"):
        wilson(0, 0)


def test_mean_of_one_to_four():
    """Mean 2.5, standard deviation 1.29099, half width 1.95996 * 1.29099 / 2 = 1.26515."""
    mean = mean_interval(np.array([1.0, 2.0, 3.0, 4.0]))
    assert (mean.value, mean.lower, mean.upper) == pytest.approx((2.5, 1.234849, 3.765151), abs=1e-6)


def test_a_single_value_has_no_interval():
    """One observation says nothing about its spread."""
    mean = mean_interval(np.array([7.0]))
    assert (mean.value, mean.lower, mean.upper) == (7.0, None, None)


def test_difference_of_means_with_unequal_spread():
    """Means 2 and 3; variances 1/3 and 1 of the means; half width 1.95996 * sqrt(4/3) = 2.26317."""
    gap = difference_of_means(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0]))
    assert (gap.value, gap.lower, gap.upper) == pytest.approx((-1.0, -3.263171, 1.263171), abs=1e-6)


def test_difference_of_shares_is_newcombes_example():
    """56/70 - 48/80: 0.2000, from 0.0524 to 0.3339 by method 10. Newcombe 1998, Table II."""
    gap = difference_of_shares((56, 48), (70, 80))
    assert (gap.value, gap.lower, gap.upper) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


def test_pooled_z_of_two_shares():
    """56/70 against 48/80: 0.2 / sqrt(0.69333 * 0.30667 * (1/70 + 1/80)) = 2.65017, p 0.008045."""
    assert two_proportion_z((56, 48), (70, 80)) == pytest.approx((2.650172, 0.008045), abs=1e-6)
    assert two_proportion_z((5, 7), (5, 7)) == (0.0, 1.0)


def test_kappa_of_a_textbook_table():
    """Agreement 35/50 = 0.7, chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5, kappa 0.2 / 0.5 = 0.4."""
    assert cohen_kappa(COUNTS).value == pytest.approx(0.4, abs=1e-12)


def test_ac1_of_the_same_table():
    """Mean pass share 0.55, chance 2 * 0.55 * 0.45 = 0.495, AC1 0.205 / 0.505 = 0.405941."""
    assert gwet_ac1(COUNTS).value == pytest.approx(0.405941, abs=1e-6)


def kappa_of(p):
    """Kappa from the shares of the four cells."""
    observed, judge, person = p[0] + p[3], p[0] + p[1], p[0] + p[2]
    chance = judge * person + (1 - judge) * (1 - person)
    return (observed - chance) / (1 - chance)


def ac1_of(p):
    """AC1 from the shares of the four cells."""
    share = (2 * p[0] + p[1] + p[2]) / 2
    chance = 2 * share * (1 - share)
    return (p[0] + p[3] - chance) / (1 - chance)


def delta_spread(statistic, counts):
    """Standard error by the delta method: numeric slopes in the four cells, multinomial covariance."""
    n = sum(counts)
    p = [count / n for count in counts]
    step = 1e-6
    slopes = [
        (
            statistic([x + step * (i == j) for j, x in enumerate(p)])
            - statistic([x - step * (i == j) for j, x in enumerate(p)])
        )
        / (2 * step)
        for i in range(4)
    ]
    mean = sum(s * x for s, x in zip(slopes, p, strict=True))
    return math.sqrt((sum(s * s * x for s, x in zip(slopes, p, strict=True)) - mean**2) / n)


@pytest.mark.parametrize("counts", [(20, 5, 10, 15), (70, 9, 4, 7), (30, 12, 3, 45)])
@pytest.mark.parametrize(("ours", "oracle"), [(cohen_kappa, kappa_of), (gwet_ac1, ac1_of)])
def test_intervals_of_agreement_are_those_of_the_delta_method(ours, oracle, counts):
    """The closed variances equal numeric slopes times the multinomial covariance; 1e-6 is the slopes' error."""
    names = ("true_pass", "false_pass", "false_fail", "true_fail")
    estimate = ours(Confusion(**dict(zip(names, counts, strict=True))))
    assert estimate.value - estimate.lower == pytest.approx(Z95 * delta_spread(oracle, counts), abs=1e-6)


def test_kappa_of_one_class_alone_has_no_value():
    """Chance agrees always, so nothing is beyond it."""
    assert cohen_kappa(Confusion(true_pass=9, false_pass=0, false_fail=0, true_fail=0)).value is None


def test_corrected_pass_rate_and_its_interval():
    """(0.6 + 0.8 - 1) / (0.9 + 0.8 - 1) = 0.571429; the interval is what the code published with Lee 2025 prints."""
    counts = Confusion(true_pass=36, false_pass=10, false_fail=4, true_fail=40)
    rate = rogan_gladen(600, 1000, counts)
    assert (rate.value, rate.lower, rate.upper) == pytest.approx((0.571429, 0.461747, 0.699242), abs=1e-6)


def test_a_judge_that_guesses_corrects_nothing():
    """TPR 0.55 and TNR 0.5 are at the least that is corrected; 0.56 is above it."""
    guessing = Confusion(true_pass=55, false_pass=50, false_fail=45, true_fail=50)
    assert rogan_gladen(60, 100, guessing).value is None
    better = Confusion(true_pass=56, false_pass=50, false_fail=44, true_fail=50)
    assert rogan_gladen(60, 100, better).value is not None


def test_a_corrected_rate_is_cut_to_zero_and_one():
    """A judge that passes fewer than its false passes alone would make corrects to below 0."""
    counts = Confusion(true_pass=40, false_pass=20, false_fail=10, true_fail=30)
    rate = rogan_gladen(1, 100, counts)
    assert rate.value == 0.0
    assert rate.lower == 0.0


def test_prediction_powered_mean_by_hand():
    """0.75 without labels, mean error -0.5 with: 0.25; half width 1.95996 * sqrt(0.0625 + 0.25) = 1.095653."""
    mean = prediction_powered_mean(np.array([1.0, 0, 1, 1]), np.array([1.0, 0]), np.array([0.0, 0]))
    assert (mean.value, mean.lower, mean.upper) == pytest.approx((0.25, -0.845653, 1.345653), abs=1e-6)


def test_arrival_with_some_still_out():
    """Arrived at 1 and 3 hours, out since 2 and 4: by 3 hours 1 - 3/4 * 1/2 = 0.625; Greenwood 1/12 + 1/2."""
    waits, arrived = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, False])
    share = arrived_by(3.0, waits, arrived)
    assert (share.value, share.lower, share.upper) == pytest.approx((0.625, 0.191999, 0.989029), abs=1e-6)


def test_arrival_beyond_the_longest_wait_is_not_known():
    """Nobody has waited five hours, and something is still out."""
    assert arrived_by(5.0, np.array([1.0, 4.0]), np.array([True, False])).value is None
    assert arrived_by(5.0, np.array([1.0, 4.0]), np.array([True, True])).value == 1.0


@given(st.lists(st.tuples(st.floats(0, 100), st.just(True)), min_size=1, max_size=20), st.floats(0, 100))
def test_any_arrival_without_censoring_is_the_plain_share(rows, hours):
    """When everything has arrived, the curve is the share that took no longer."""
    waits, arrived = (np.array(column) for column in zip(*rows, strict=True))
    plain = float(np.mean(waits <= hours))
    assert arrived_by(hours, waits, arrived).value == pytest.approx(plain, abs=1e-12)


def test_effective_size_of_unequal_weights():
    """(1 + 1 + 2)^2 / (1 + 1 + 4) = 16 / 6."""
    assert effective_size(np.array([1.0, 1.0, 2.0])) == pytest.approx(16 / 6, abs=1e-12)
