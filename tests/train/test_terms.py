"""Each equation against hand arithmetic and plain-float oracles."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.strategies import PROPERTY
from train.methods import terms

LOGPROB = st.floats(-20.0, 0.0)


def plain_bernoulli_kl(log_mu, log_pi):
    """The definition in plain floats, clamped as the equation says."""
    p, q = (min(max(math.exp(x), 1e-6), 1 - 1e-6) for x in (log_mu, log_pi))
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def test_the_kl_of_two_coins_by_hand():
    """A fair coin read as 1 in 4: (1/2) ln 2 + (1/2) ln (2/3)."""
    kl = terms.bernoulli_kl(torch.tensor([math.log(0.5)], dtype=torch.float64), torch.tensor([math.log(0.25)]).double())
    assert float(kl) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3), abs=1e-7)  # float32 ln 0.25


@PROPERTY
@given(LOGPROB, LOGPROB)
def test_the_kl_equals_its_definition(log_mu, log_pi):
    """To 1e-9: the plain definition loses ten digits of 1 - p near 1."""
    kl = terms.bernoulli_kl(*(torch.tensor([x], dtype=torch.float64) for x in (log_mu, log_pi)))
    assert float(kl) == pytest.approx(plain_bernoulli_kl(log_mu, log_pi), abs=1e-9)


@PROPERTY
@given(LOGPROB)
def test_the_kl_of_a_policy_with_itself_is_exactly_zero(logprob):
    """So that a gate of 0 admits the very same policy."""
    value = torch.tensor([logprob])
    assert float(terms.bernoulli_kl(value, value)) == 0.0


def test_the_kl_keeps_its_digits_in_float32():
    """1 - p of a nearly certain token would have one digit left in float32 arithmetic."""
    log_mu, log_pi = torch.tensor([-2e-6]), torch.tensor([-4e-6])
    expected = plain_bernoulli_kl(float(log_mu), float(log_pi))
    assert float(terms.bernoulli_kl(log_mu, log_pi)) == pytest.approx(expected, rel=1e-4)


def test_a_ratio_is_formed_on_masked_in_tokens_only():
    """e^1000 and NaN off the mask are never computed; on it overflow is infinite."""
    mask = torch.tensor([True, False, False, True])
    log_ratios = torch.tensor([math.log(1.4), 1000.0, math.nan, 1000.0])
    assert terms.importance_ratios(log_ratios, mask).tolist() == pytest.approx([1.4, 0.0, 0.0, math.inf])


def test_sums_keep_small_tokens_of_a_long_trace():
    """Adding 1e-4 a million times to 10,000 in float32 would lose most of it."""
    values = torch.cat([torch.tensor([1e4]), torch.full((1_000_000,), 1e-4)])
    total = float(terms.trace_sums(values, torch.zeros(len(values), dtype=torch.int64), 1))
    assert total == pytest.approx(10_100.0, rel=1e-6)  # 1e-4 itself is a rounded float32


def test_means_and_maxima_by_trace():
    """Means are over all action tokens, whatever the mask leaves out; an empty trace has none."""
    values = torch.tensor([1.0, 2.0, 6.0, math.nan])
    mask, index = torch.tensor([True, True, True, False]), torch.tensor([0, 0, 1, 2])
    means = terms.trace_means(values, mask, index, torch.tensor([4, 1, 0]))
    assert means.tolist() == pytest.approx([0.75, 6.0, math.nan], nan_ok=True)
    assert terms.trace_maxima(values, mask, index, 3).tolist() == [2.0, 6.0, -math.inf]


def test_the_highest_entropies_are_kept_the_earlier_of_a_tie():
    """Two tokens of the first trace, none of the second, whatever lies off the mask."""
    entropies = torch.tensor([0.5, 9.0, 0.5, 0.1, 0.5, 0.7])
    mask = torch.tensor([True, False, True, True, True, True])
    index = torch.tensor([0, 0, 0, 0, 0, 1])
    kept = terms.top_entropy_tokens(entropies, mask, index, torch.tensor([2, 0]))
    assert kept.tolist() == [True, False, True, False, False, False]


def _many(num):
    """Log-probabilities of two policies, more than are taken at a time."""
    generator = torch.Generator().manual_seed(3)
    return [-torch.rand(num, generator=generator) for _ in range(2)]


BY_TOKEN = {
    "move": terms.probability_moves,
    "kl": lambda pi, mu: terms.guarded_kl(mu, pi, 1e-8),
    "weight": lambda pi, mu: terms.bpo_weights(pi, mu, 0.1),
}


@pytest.mark.parametrize("name", BY_TOKEN)
def test_a_long_axis_taken_by_parts_gives_the_same_numbers(name):
    """Three parts, the last one short: each token has the number that it has by itself."""
    behavior, current = _many(2 * terms.PART + 5)
    whole = BY_TOKEN[name](current, behavior)
    for part in (slice(0, 7), slice(terms.PART - 3, terms.PART + 3), slice(-5, None)):
        torch.testing.assert_close(whole[part], BY_TOKEN[name](current[part], behavior[part]))


@PROPERTY
@given(LOGPROB, LOGPROB)
def test_a_guarded_kl_in_float32_is_right_to_a_millionth_of_a_nat(log_mu, log_pi):
    """So that a bound of 0.05 on it decides as it would in float64, but for numbers that stand on it."""
    narrow = [torch.tensor([value], dtype=torch.float32) for value in (log_mu, log_pi)]
    exact = terms.guarded_kl(*(value.double() for value in narrow), 1e-8)
    assert float(terms.guarded_kl(*narrow, 1e-8)) == pytest.approx(float(exact), rel=1e-6, abs=1e-6)


def test_the_drift_of_a_trace_longer_than_a_part_is_its_mean_kl():
    """One trace over two parts and another in the second: means of the Bernoulli KL over action tokens."""
    behavior, current = _many(terms.PART + 100)
    index = (torch.arange(len(current)) >= terms.PART + 50).long()
    drift = terms.mean_drift(behavior, current, index, torch.bincount(index))
    own = [terms.bernoulli_kl(behavior[index == trace], current[index == trace]) for trace in (0, 1)]
    assert drift.tolist() == pytest.approx([float(each.mean()) for each in own], rel=1e-12)


def test_a_mean_over_a_long_axis_keeps_its_digits():
    """Of as many tenths as fill three parts, all that float32 has, and all that float64 has."""
    tenths = torch.full((3 * terms.PART + 1,), 0.1)
    assert terms.mean_over(tenths, len(tenths)) == pytest.approx(float(tenths[0]), rel=2e-7)
    assert terms.mean_over(tenths.double(), len(tenths)) == pytest.approx(float(tenths[0]), rel=1e-13)
    assert math.isnan(terms.mean_over(tenths, 0))


def test_traces_with_a_token_are_those_where_one_is_true():
    """Traces 0 and 2 of three, whose tokens are not neighbours."""
    found = terms.traces_with(torch.tensor([False, False, True, True]), torch.tensor([2, 1, 0, 2]), 3)
    assert found.tolist() == [True, False, True]
