"""Closed forms with their intervals, each once, each with its source; an interval is at 95% unless `z` says else.

A rate, a mean or an agreement of nothing is refused with `ValueError`: the caller says NOT MEASURED instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from validate.check import Estimate

Z95 = 1.959963984540054
"""Two-sided 95% point of the normal distribution."""
Z975 = 2.241402727604947
"""Two-sided 97.5% point: two intervals that hold together at 95% (Bonferroni)."""
LEAST_INFORMEDNESS = 1.05
"""TPR + TNR at or under which a pass rate is not corrected. At 1 the correction divides by 0 (Rogan & Gladen 1978;
Lee 2025, arXiv 2511.21140); the margin is convention, untested."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Confusion:
    """Counts of judge against person: `true_pass` traces passed both, `false_pass` passed the judge alone."""

    true_pass: int
    false_pass: int
    false_fail: int
    true_fail: int

    @property
    def num_good(self) -> int:
        """Traces that people pass."""
        return self.true_pass + self.false_fail

    @property
    def num_bad(self) -> int:
        """Traces that people fail."""
        return self.true_fail + self.false_pass

    @property
    def num_labels(self) -> int:
        """All of them."""
        return self.num_good + self.num_bad

    @property
    def agreement(self) -> float:
        """Share on which judge and person agree."""
        return (self.true_pass + self.true_fail) / _some(self.num_labels)

    def cells(self) -> npt.NDArray[np.float64]:
        """The shares as a table, judge down, person across, pass first."""
        table = np.array([[self.true_pass, self.false_pass], [self.false_fail, self.true_fail]], np.float64)
        return table / _some(self.num_labels)


def wilson(num_hits: int, num_trials: int, z: float = Z95) -> Estimate:
    """A share with its score interval. Wilson 1927."""
    n = _some(num_trials)
    share = num_hits / n
    shrunk = 1.0 + z * z / n
    centre = (share + z * z / (2 * n)) / shrunk
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / shrunk
    # At 0 and at n the formula's end is the share itself; rounding must not put it on the other side.
    return Estimate(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)), n)


def mean_interval(values: Numbers, z: float = Z95) -> Estimate:
    """A mean with its normal interval; no interval for a single value."""
    n = _some(values.size)
    mean = float(values.mean())
    if n == 1:
        return Estimate(mean, num_observations=1)
    half = z * float(values.std(ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def difference_of_means(left: Numbers, right: Numbers, z: float = Z95) -> Estimate:
    """Mean of `left` minus mean of `right`, variances unequal (Welch 1947), with the normal interval.

    No interval when either has fewer than two values.
    """
    n = _some(left.size) + _some(right.size)
    gap = float(left.mean() - right.mean())
    if min(left.size, right.size) == 1:
        return Estimate(gap, num_observations=n)
    half = z * math.sqrt(float(left.var(ddof=1)) / left.size + float(right.var(ddof=1)) / right.size)
    return Estimate(gap, gap - half, gap + half, n)


def difference_of_shares(hits: tuple[int, int], trials: tuple[int, int], z: float = Z95) -> Estimate:
    """First share minus second, with the hybrid score interval. Newcombe 1998, method 10."""
    first, second = (wilson(k, n, z) for k, n in zip(hits, trials, strict=True))
    p, q = hits[0] / trials[0], hits[1] / trials[1]
    lower = math.hypot(p - _end(first.lower), _end(second.upper) - q)
    upper = math.hypot(_end(first.upper) - p, q - _end(second.lower))
    return Estimate(p - q, p - q - lower, p - q + upper, sum(trials))


def two_proportion_z(hits: tuple[int, int], trials: tuple[int, int]) -> tuple[float, float]:
    """The pooled z of first share minus second, and its two-sided p. Both shares 0 or both 1: z is 0, p is 1."""
    p, q = hits[0] / _some(trials[0]), hits[1] / _some(trials[1])
    pooled = sum(hits) / sum(trials)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / trials[0] + 1 / trials[1]))
    z = (p - q) / spread if spread > 0 else 0.0
    return z, math.erfc(abs(z) / math.sqrt(2))


def cohen_kappa(confusion: Confusion, z: float = Z95) -> Estimate:
    """Agreement beyond chance, with the large-sample interval. Cohen 1960; Fleiss, Cohen & Everitt 1969, Eq. 13.

    No value when chance alone would agree always: both gave one and the same class to every trace.
    """
    cells = confusion.cells()
    judge, person = cells.sum(axis=1), cells.sum(axis=0)
    observed, chance = float(np.trace(cells)), float(judge @ person)
    if chance >= 1.0:
        return Estimate(None, num_observations=confusion.num_labels)
    kappa = (observed - chance) / (1 - chance)
    agree = float(np.diag(cells) @ ((1 - chance) - (judge + person) * (1 - observed)) ** 2)
    # Row i, column j of the pairs is the person's margin of i plus the judge's margin of j, off the diagonal.
    pairs = (person[:, None] + judge[None, :]) ** 2
    np.fill_diagonal(pairs, 0.0)
    differ = (1 - observed) ** 2 * float((cells * pairs).sum())
    rest = (observed * chance - 2 * chance + observed) ** 2
    variance = max(0.0, agree + differ - rest) / (confusion.num_labels * (1 - chance) ** 4)
    half = z * math.sqrt(variance)
    return Estimate(kappa, max(-1.0, kappa - half), min(1.0, kappa + half), confusion.num_labels)


def gwet_ac1(confusion: Confusion, z: float = Z95) -> Estimate:
    """Agreement beyond chance that is steady when one class is rare. Gwet 2008, for two raters and two classes."""
    cells = confusion.cells()
    shares = (cells.sum(axis=1) + cells.sum(axis=0)) / 2
    observed, chance = float(np.trace(cells)), 2 * float(shares[0] * shares[1])
    ac1 = (observed - chance) / (1 - chance)
    first = 4 * (1 - ac1) * (float(np.diag(cells) @ (1 - shares)) - observed * chance)
    pairs = (1 - (shares[:, None] + shares[None, :]) / 2) ** 2
    second = 4 * (1 - ac1) ** 2 * (float((cells * pairs).sum()) - chance**2)
    variance = max(0.0, observed * (1 - observed) - first + second) / (confusion.num_labels * (1 - chance) ** 2)
    half = z * math.sqrt(variance)
    return Estimate(ac1, max(-1.0, ac1 - half), min(1.0, ac1 + half), confusion.num_labels)


def rogan_gladen(num_passed: int, num_judged: int, confusion: Confusion, z: float = Z95) -> Estimate:
    """The share that people would pass, from the share that the judge passes and from its two error rates.

    Rogan & Gladen 1978; the interval, with the noise of both samples, is that of Lang & Reiczigel 2014 as given by
    Lee 2025 (arXiv 2511.21140). Both are cut to [0, 1]. No value at or under `LEAST_INFORMEDNESS`.
    """
    n, good, bad = _some(num_judged), _some(confusion.num_good), _some(confusion.num_bad)
    tpr, tnr = confusion.true_pass / good, confusion.true_fail / bad
    if tpr + tnr <= LEAST_INFORMEDNESS:
        return Estimate(None, num_observations=n)
    rate = (num_passed / n + tnr - 1) / (tpr + tnr - 1)
    n_plus, good_plus, bad_plus = n + z * z, good + 2, bad + 2
    passed = (num_passed + z * z / 2) / n_plus
    tpr_plus, tnr_plus = (confusion.true_pass + 1) / good_plus, (confusion.true_fail + 1) / bad_plus
    informed = tpr_plus + tnr_plus - 1
    if informed <= 0:
        return Estimate(None, num_observations=n)
    centre = (passed + tnr_plus - 1) / informed
    of_good, of_bad = tpr_plus * (1 - tpr_plus) / good_plus, tnr_plus * (1 - tnr_plus) / bad_plus
    shift = 2 * z * z * (centre * of_good - (1 - centre) * of_bad)
    variance = passed * (1 - passed) / n_plus + centre**2 * of_good + (1 - centre) ** 2 * of_bad
    half = z * math.sqrt(variance) / informed
    return Estimate(_unit(rate), _unit(centre + shift - half), _unit(centre + shift + half), n)


def prediction_powered_mean(unlabelled: Numbers, labelled: Numbers, labels: Numbers, z: float = Z95) -> Estimate:
    """Mean of the judge where nobody labelled, plus the judge's mean error where somebody did.

    Angelopoulos 2023 (arXiv 2301.09633), for a mean. Right when the labelled ones were drawn at random; the two
    samples must be disjoint. Refused below two values in either.
    """
    if min(unlabelled.size, labelled.size) < 2:
        raise ValueError(f"{unlabelled.size} unlabelled and {labelled.size} labelled values; expected two of each")
    errors = labels - labelled
    mean = float(unlabelled.mean() + errors.mean())
    half = z * math.sqrt(float(unlabelled.var(ddof=1)) / unlabelled.size + float(errors.var(ddof=1)) / errors.size)
    return Estimate(mean, mean - half, mean + half, unlabelled.size + labelled.size)


def arrived_by(hours: float, waits: Numbers, has_arrived: npt.NDArray[np.bool_], z: float = Z95) -> Estimate:
    """Share that has arrived within so many hours, when some were not waited for that long.

    `waits` [N] is the hours until arrival, or until now for what has not arrived. Kaplan & Meier 1958 with
    Greenwood's variance on the log-log scale (Kalbfleisch & Prentice 1980). No value when nothing was waited for so
    long and something is still out, because the curve ends before.
    """
    n = _some(waits.size)
    times, arrivals = np.unique(waits[has_arrived & (waits <= hours)], return_counts=True)
    ordered = np.sort(waits)
    at_risk = n - np.searchsorted(ordered, times, side="left")
    still_out = float(np.prod(1.0 - arrivals / at_risk))
    if still_out > 0.0 and ordered[-1] < hours:
        return Estimate(None, num_observations=n)
    if still_out in (0.0, 1.0):
        return Estimate(1.0 - still_out, num_observations=n)
    greenwood = float(np.sum(arrivals / (at_risk * (at_risk - arrivals))))
    spread = z * math.sqrt(greenwood) / abs(math.log(still_out))
    return Estimate(1.0 - still_out, 1.0 - still_out ** math.exp(-spread), 1.0 - still_out ** math.exp(spread), n)


def effective_size(weights: Numbers) -> float:
    """How many equal weights would say as much as these: squared sum over sum of squares. Kish 1965."""
    _some(weights.size)
    return float(weights.sum() ** 2 / np.square(weights).sum())


def _some(count: int) -> int:
    if count <= 0:
        raise ValueError("nothing to measure: expected at least one observation; say NOT MEASURED instead")
    return count


def _end(bound: float | None) -> float:
    assert bound is not None, "a score interval has both ends"  # noqa: S101 - only our own bug could break it
    return bound


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))
