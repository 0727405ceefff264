"""Rows of `rescored`: figures by hand, logprobs in their places."""

import math

import numpy as np
import pytest
import torch

from tests.train.logged import forked_traces, logged, plain_action_logprobs, plain_model
from train.policy import Policy
from train.scoring import drift_figures, rescored_row, score_packs


def test_figures_of_two_tokens_by_hand():
    """Log-ratios log 2 and -log 2: what each estimator makes of them."""
    sequence = logged([1, 2, 3], [1, 2], behavior=[math.log(0.25), math.log(0.5)])
    figures = drift_figures(sequence, np.log(np.array([0.5, 0.25], dtype=np.float32)))
    log2 = math.log(2)
    # The same two coins each way: KL(1/4 || 1/2) and KL(1/2 || 1/4).
    there = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    back = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    expected = {
        "mean_bernoulli_kl": (there + back) / 2,
        "mean_abs_log_ratio": log2,
        "k1": 0.0,
        "k2": log2**2 / 2,
        "k3": (2 - 1 - log2 + 0.5 - 1 + log2) / 2,
        "m2": log2**2,
        "max_ratio": 2.0,
        "sequence_log_ratio": 0.0,
    }
    # The inputs are float32.
    assert figures == pytest.approx(expected, abs=1e-6)


def test_equal_policies_have_no_drift():
    """The very numbers of the log give 0 everywhere and a ratio of 1."""
    sequence = logged([1, 2, 3], [1, 2], behavior=[-0.25, -0.001])
    figures = drift_figures(sequence, sequence.action_logprobs)
    assert figures.pop("max_ratio") == 1.0
    assert set(figures.values()) == {0.0}


def test_a_ratio_beyond_float64_is_cut():
    """A token that the behavior policy all but excluded gives a figure that can be written."""
    sequence = logged([1, 2], [1], behavior=[-9000.0])
    assert math.isfinite(drift_figures(sequence, np.zeros(1, dtype=np.float32))["max_ratio"])


def test_logprobs_stand_where_the_mask_is_true():
    """One entry a token, null elsewhere."""
    row = rescored_row(logged([1, 2, 3, 4], [1, 3], behavior=-0.5), np.array([-0.5, -0.25], dtype=np.float32))
    assert row["logprobs"] == [None, -0.5, None, -0.25]
    assert row["num_action_tokens"] == 2


def test_every_sequence_gets_its_own_scores(tiny_folder):
    """Scores come back with the sequence that they are of, however the packs were made."""
    traces, plain = forked_traces(), plain_model(tiny_folder)
    num = 0
    for pack, scores in score_packs(Policy.load(tiny_folder), traces, token_budget=80):
        for sequence, scored in zip(pack.sequences, scores, strict=True):
            with torch.no_grad():
                expected = plain_action_logprobs(plain, sequence)
            # float32 through two layers.
            assert scored == pytest.approx(expected.numpy(), abs=2e-5)
            num += 1
    assert num == 12
