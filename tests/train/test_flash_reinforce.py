"""FlashREINFORCE: its invariants, its refusals, its words, and a toy that must climb."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BatchError, SettingsError, TrainingError
from tests.train.strategies import PROPERTY
from tests.train.strategies import rows as random_rows
from tests.train.toy import climbs
from train.batch import Batch
from train.methods import FlashReinforce

OPEN = FlashReinforce(trust=math.inf)
"""No gate: ratios and weights alone."""

EXACT = 1e-12
"""Sums of a few float64 numbers in another order."""


def update(rows, method=OPEN):
    """The update of rows in float64."""
    return method.update(Batch.from_rows(rows, dtype=torch.float64))


def coefficients(rows, method=OPEN):
    """The coefficients by trace."""
    return [trace.coefficients for trace in update(rows, method).per_trace()]


def flat(nested):
    """A list of lists as one list."""
    return [value for part in nested for value in part]


@PROPERTY
@given(random_rows(), st.sampled_from([0.001, 0.01, math.inf]))
def test_the_gradient_is_that_of_the_objective(rows, trust):
    """J = (1/B) sum_i (m A / T) sum_t rho, differentiated by autograd, equals the coefficients."""
    batch = Batch.from_rows(rows, dtype=torch.float64)
    made = FlashReinforce(trust=trust).update(batch)
    logprobs = batch.logprobs.clone().requires_grad_()
    objective = torch.zeros((), dtype=torch.float64)
    start, mean = 0, sum(row["reward"] for row in rows) / len(rows)
    for row, trusted in zip(rows, made.in_trust.tolist(), strict=True):
        mask, count = torch.tensor(row["action_mask"]), sum(row["action_mask"])
        ratio = torch.exp(
            logprobs[start : start + len(mask)] - torch.tensor(row["behavior_logprobs"], dtype=torch.float64)
        )
        objective = objective + trusted * (row["reward"] - mean) / count * ratio[mask].sum() / len(rows)
        start += len(mask)
    objective.backward()
    assert logprobs.grad.tolist() == pytest.approx(made.coefficients.tolist(), abs=EXACT)


@PROPERTY
@given(random_rows(on_policy=True))
def test_equal_policies_open_every_gate(rows):
    """Ratio 1, drift 0, all in trust even at trust 0, and coefficients that add up to 0."""
    made = update(rows, FlashReinforce(trust=0.0))
    assert made.in_trust.all()
    assert made.drift.tolist() == [0.0] * len(rows)
    assert made.stats["mean_ratio"] == made.stats["max_ratio"] == 1.0
    assert float(made.coefficients.sum()) == pytest.approx(0.0, abs=EXACT)


@PROPERTY
@given(random_rows())
def test_traces_weigh_the_same_whatever_their_length(rows):
    """The coefficients of a trace add up to its advantage times its mean ratio over B."""
    for row, of_trace in zip(rows, coefficients(rows), strict=True):
        ratios = [
            math.exp(pi - mu)
            for pi, mu, action in zip(row["logprobs"], row["behavior_logprobs"], row["action_mask"], strict=True)
            if action
        ]
        advantage = row["reward"] - sum(other["reward"] for other in rows) / len(rows)
        expected = advantage * sum(ratios) / len(ratios) / len(rows)
        assert sum(of_trace) == pytest.approx(expected, rel=1e-9, abs=EXACT)


@PROPERTY
@given(random_rows(), st.floats(-10, 10), st.floats(0.1, 10))
def test_rewards_shift_for_nothing_and_scale_in_proportion(rows, shift, scale):
    """Only differences of rewards count."""
    moved = [{**row, "reward": scale * row["reward"] + shift} for row in rows]
    expected = [scale * value for value in flat(coefficients(rows))]
    assert flat(coefficients(moved)) == pytest.approx(expected, abs=1e-10)


@PROPERTY
@given(random_rows(), st.floats(0, 0.05), st.floats(0, 0.05))
def test_a_wider_trust_keeps_a_superset(rows, one, other):
    """In trust if and only if the drift is at most trust."""
    narrow, wide = (update(rows, FlashReinforce(trust=trust)) for trust in sorted((one, other)))
    assert (~narrow.in_trust | wide.in_trust).all()
    assert narrow.in_trust.tolist() == [drift <= min(one, other) for drift in narrow.drift.tolist()]


@PROPERTY
@given(random_rows())
def test_a_trace_out_of_trust_moves_the_mean_and_nothing_else(rows):
    """It stays in B and in the reward mean; it carries no coefficient."""
    far = {"reward": 5.0, "logprobs": [-8.0], "behavior_logprobs": [-0.01]}
    rows = [{name: row[name] for name in (*far, "action_mask")} for row in rows]
    method = FlashReinforce(trust=0.05)
    made = update([*rows, far], method)
    num, total = len(rows) + 1, sum(row["reward"] for row in rows) + 5.0
    assert not made.in_trust[-1]
    assert made.coefficients[-1] == 0.0
    assert made.stats["batch_mean_reward"] == pytest.approx(total / num, abs=EXACT)
    assert made.in_trust[:-1].tolist() == update(rows, method).in_trust.tolist()


@PROPERTY
@given(random_rows(reward=st.just(0.3)))
def test_equal_rewards_move_nothing(rows):
    """Exactly nothing, and the report says so."""
    made = update(rows)
    assert not made.moves
    assert "nothing moves" in str(made)


def test_a_batch_of_one_moves_nothing_and_says_so():
    """Its reward is its own mean."""
    made = update([{"reward": 1.0, "logprobs": [-0.5], "behavior_logprobs": [-0.5]}])
    assert not made.moves
    assert "one trace, whose reward is its own mean" in str(made)


TWO = [
    {"reward": 1.0, "logprobs": [-0.5], "behavior_logprobs": [-0.5]},
    {"reward": 0.0, "logprobs": [-3.0], "behavior_logprobs": [-0.5]},
]
"""One trace of the very same policy, one far away."""


def test_a_gate_that_never_acted_says_so():
    """Such a run does not test the gate."""
    assert "the gate masked nothing: the largest drift is 0, trust 0.003" in str(update(TWO[:1] * 2, FlashReinforce()))


def test_a_batch_all_out_of_trust_says_that_nothing_moves():
    """And names at most five of its traces."""
    made = update(TWO[1:] * 7 + [{**TWO[1], "reward": 1.0}], FlashReinforce())
    assert "8 traces (0, 1, 2, 3, 4 and 3 more) over trust" in str(made)
    assert "no trace is in trust, so nothing moves" in str(made)
    assert math.isnan(made.stats["mean_ratio"])


def test_cut_ratios_and_snapped_logprobs_are_counted_aloud():
    """What was done to a number is said."""
    rows = [{**TWO[0], "behavior_logprobs": [-40.0]}, {**TWO[0], "reward": 0.0, "logprobs": [1e-7]}]
    text = str(update(rows, FlashReinforce(trust=math.inf, overflow="clamp")))
    assert "1 tokens had a log-ratio beyond +-30" in text
    assert "1 log-probabilities just above 0 were read as 0" in text


def test_an_overflow_in_trust_names_trace_and_token():
    """A ratio that float32 cannot hold stops the update; float64 can."""
    rows = [{**TWO[0], "behavior_logprobs": [-100.0]}, {**TWO[0], "reward": 0.0}]
    with pytest.raises(
        TrainingError, match=r"trace 0, token 0: the coefficient overflows torch\.float32.*log-ratio is 99\.5"
    ):
        OPEN.update(Batch.from_rows(rows))
    assert math.isfinite(float(update(rows).coefficients[0]))


def test_an_overflow_out_of_trust_harms_nobody():
    """A masked token is never exponentiated."""
    rows = [{**TWO[0], "behavior_logprobs": [-900.0]}, {**TWO[0], "reward": 0.0}]
    assert FlashReinforce().update(Batch.from_rows(rows)).coefficients.tolist() == [0.0, -0.25]


def test_a_trace_without_an_action_token_is_refused_by_name():
    """Its mean drift would be 0/0."""
    with pytest.raises(BatchError, match="trace 1 has no action token"):
        update([TWO[0], {**TWO[1], "action_mask": [False]}])


def test_a_batch_that_was_not_scored_is_refused():
    """There is no ratio without the current policy."""
    with pytest.raises(BatchError, match="has no logprobs"):
        update([{key: value for key, value in row.items() if key != "logprobs"} for row in TWO])


def test_the_entropy_filter_needs_entropies_and_failures():
    """And finite ones, where it reads them."""
    method = FlashReinforce(negative_token_fraction=0.5)
    with pytest.raises(BatchError, match="no entropies or no failures"):
        update(TWO, method)
    with pytest.raises(BatchError, match="trace 1, token 0: entropy is not finite"):
        update([{**row, "entropies": [math.nan], "failure": row["reward"] == 0.0} for row in TWO], method)


@pytest.mark.parametrize(
    "options",
    [
        {"trust": -0.1},
        {"trust": math.nan},
        {"trust": "0.003"},
        {"trust": True},
        {"overflow": "ignore"},
        {"negative_token_fraction": 1.1},
        {"negative_token_fraction": -0.1},
    ],
    ids=str,
)
def test_a_bad_option_is_refused_where_it_is_set(options):
    """With its name, its value and the bound."""
    (name,) = options
    with pytest.raises(SettingsError, match=rf"FlashReinforce\({name}=.*expected"):
        FlashReinforce(**options)


@pytest.mark.parametrize("lag", [0, 8])
def test_a_toy_policy_climbs_from_chance(lag):
    """A table of probabilities, from 1 in 4 to almost sure, at lag 0 and at eight updates of lag."""
    assert climbs(FlashReinforce(), above=0.9, lag=lag, learning_rate=8.0, num_updates=110)
