"""What a row carries: the method's advantage, and its divisor where that is not the number of tokens."""

import math
from dataclasses import replace

import numpy as np
import pytest

from schemas.errors import BatchError
from tests.train.handoff.handed import FORKED, SHORT, TWO_TURNS, admitted, three
from train.handoff.carried import carried
from train.methods.baselines import GRPO, Reinforce


def advantages(rows):
    """The advantages in order."""
    return [row.advantage for row in rows]


def test_under_a_token_mean_the_advantage_is_the_reward_less_its_baseline():
    """Rewards 1, 0, 0 around 1/3; both sequences of a trace have that of the trace."""
    found = advantages(carried(three(), Reinforce(), "token_mean"))
    assert found == pytest.approx([2 / 3, -1 / 3, -1 / 3, -1 / 3], abs=1e-15)


def test_a_trace_mean_weighs_a_trace_and_not_its_sequences():
    """A N / (T B) with N = 8, B = 3, T = 3, 4, 1: the two sequences of a trace share the T of the trace."""
    found = advantages(carried(three(), Reinforce(aggregation="trace_mean"), "trace_mean"))
    assert found == pytest.approx([2 / 3 * 8 / 9, -1 / 3 * 8 / 12, -1 / 3 * 8 / 12, -1 / 3 * 8 / 3], abs=1e-15)


def test_a_trace_sum_is_a_token_mean_times_the_tokens_a_trace():
    """A N / B."""
    found = advantages(carried(three(), Reinforce(baseline=0.0, aggregation="trace_sum"), "trace_sum"))
    assert found == pytest.approx([8 / 3, 0, 0, 0], abs=1e-15)


def test_a_group_is_an_ask():
    """Rewards 1 and 0 of one ask deviate by sqrt(1/2) from 1/2."""
    traces = [
        admitted(TWO_TURNS, reward=1.0, ask="refund"),
        admitted(*FORKED, reward=0.0, ask="refund"),
    ]
    rows = carried(traces, GRPO(epsilon=0.0), "token_mean")
    assert advantages(rows) == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5), -math.sqrt(0.5)], abs=1e-15)
    assert [row.group for row in rows] == [0, 0, 0]


def test_a_trace_alone_with_its_ask_is_refused_as_the_method_refuses_it():
    """No other trainer's reading of such a group is put in its place."""
    traces = [admitted(TWO_TURNS, reward=1.0, ask="refund"), admitted(SHORT, reward=0.0, ask="return")]
    with pytest.raises(BatchError, match="alone in its group"):
        carried(traces, GRPO(), "token_mean")


def test_a_missing_log_probability_is_never_filled_in():
    """Whoever wants the trace has to log it."""
    logprobs = TWO_TURNS.behavior_logprobs.copy()
    logprobs[3] = np.nan
    with pytest.raises(BatchError, match="behavior_logprobs nan on an action token"):
        carried([admitted(replace(TWO_TURNS, behavior_logprobs=logprobs), reward=1.0)], Reinforce(), "token_mean")
