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
