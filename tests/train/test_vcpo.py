"""VCPO: a learning rate scaled by the effective sample size, and the baseline of least variance."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import SettingsError
from tests.train.shared_vectors import DTYPES, assert_close, cases, read
from tests.train.strategies import PROPERTY
from train.batch import Batch
from train.methods import gates

LOG_WEIGHTS = st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=8)


def double(values):
    """A tensor in float64."""
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vcpo_equals_its_vectors(dtype):
    """The scale by its root, by itself with products cut at 8, and OPOB with gradient norms 1, 2, 3...; 80 cases."""
    settings, seen = read("stale_corrections")["settings"]["sequence_rules"], 0
    plain, clipped = settings["vcpo"], settings["vcpo_clipped"]
    for name, rows, expect in cases("stale_corrections", "sequence_rules", dtype):
        batch = Batch.from_rows(rows, dtype=dtype)
        logs = gates.sequence_log_ratios(batch, "test")
        ours = [
            gates.learning_rate_scale(logs, form=plain["rule"], base_ratio=plain["base_ratio"]),
            gates.learning_rate_scale(logs, form=clipped["rule"], high=clipped["threshold"]),
            gates.optimal_baseline(batch.rewards, torch.exp(logs), double(range(1, len(rows) + 1))),
        ]
        theirs = [expect["vcpo"]["lr_scale"], expect["vcpo_clipped"]["lr_scale"], expect["opob"]]
        assert_close(ours, theirs, dtype, name)
        seen += 1
    assert seen == 80 if dtype == torch.float64 else seen > 0


@PROPERTY
@given(LOG_WEIGHTS)
def test_an_effective_sample_size_is_between_one_and_the_number_of_traces(logs):
    """To the 1e-8 that the release adds to a denominator of at least e^-10."""
    size = gates.effective_sample_size(torch.exp(double(logs)))
    assert 1.0 - 1e-3 <= size <= len(logs) + 1e-9


@PROPERTY
@given(LOG_WEIGHTS, st.floats(0.0, 5.0))
def test_an_effective_sample_size_does_not_depend_on_the_scale(logs, up):
    """All weights times one factor: the same, but for the release's 1e-8."""
    sizes = [gates.effective_sample_size(torch.exp(double(logs) + 5.0 + more)) for more in (0.0, up)]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-7)


@PROPERTY
@given(st.integers(1, 500))
def test_a_batch_of_the_policy_itself_is_worth_all_its_traces(num_traces):
    """ESS = B and the learning rate stays."""
    logs = torch.zeros(num_traces, dtype=torch.float64)
    assert gates.effective_sample_size(torch.exp(logs)) == pytest.approx(num_traces, rel=1e-7)
    assert gates.learning_rate_scale(logs) == pytest.approx(1.0, abs=1e-7)


def test_one_trace_that_carries_all_weight_is_worth_one():
    """Of four: (1/4) by itself, 1/2 by the root, 1 against a base of 1/4; a product of e^2000 overflows nothing."""
    logs = double([2000.0, 0.0, 0.0, 0.0])
    assert gates.learning_rate_scale(logs, form="linear") == pytest.approx(0.25)
    assert gates.learning_rate_scale(logs) == pytest.approx(0.5)
    assert gates.learning_rate_scale(logs, base_ratio=0.25) == pytest.approx(1.0)


def test_a_cut_product_overflows_nothing_either():
    """Weights 8 and 1: 81 / 65 of 2."""
    assert gates.learning_rate_scale(double([2000.0, 0.0]), form="linear", high=8.0) == pytest.approx(81 / 65 / 2)


def test_the_baseline_of_least_variance_by_hand():
    """Squared weights 4 and 1, squared norms 1 and 9: (4 x 1 + 9 x 0) / 13."""
    assert gates.optimal_baseline(double([1.0, 0.0]), double([2.0, 1.0]), double([1.0, 3.0])) == pytest.approx(4 / 13)


@pytest.mark.parametrize("options", [{"form": "log"}, {"base_ratio": 0.0}], ids=str)
def test_a_bad_option_is_refused(options):
    """With its name and its value."""
    (name,) = options
    with pytest.raises(SettingsError, match=rf"learning_rate_scale\(.*{name}=.*expected"):
        gates.learning_rate_scale(double([0.0]), **options)
