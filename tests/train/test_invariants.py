"""What holds for every method, whatever it computes."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.strategies import EVERY_METHOD, IN_RANGE, cut, garbled, padded, recorded, recording
from tests.train.strategies import rows as random_rows
from train.batch import Batch
from train.methods import BPCO, BPO, GRPO, KLPO, RAE, SAO, FlashReinforce, Reinforce
from train.methods.correction_catalog import CORRECTIONS
from train.methods.corrections import PPO

METHODS = [
    FlashReinforce(trust=0.01),
    FlashReinforce(trust=math.inf, overflow="clamp"),
    SAO(),
    SAO(band=(0.9, 1.1), gamma=0.9, aggregation="trace_mean"),
    BPCO(),
    BPCO(clip=0.01, mask_rule="ratio", lambda_floor=False),
    Reinforce(baseline=0.3, aggregation="trace_mean"),
    GRPO(singleton="zero", correction=PPO(low=0.05, high=0.05)),
    GRPO(singleton="raw", scaled=False, aggregation="trace_sum"),
    RAE(correction="tis"),
    *(Reinforce(correction=name) for name in CORRECTIONS),
    *(
        KLPO(beta=beta, route=route, centering=centering)
        for beta, route in ((0.1, "token"), (0.02, "sequence"))
        for centering in ("exact", "monte_carlo", "topk", "binary")
    ),
    GRPO(singleton="raw", correction={"name": "score_centering", "cap": 1.1}),
    RAE(correction="score_centering", aggregation="trace_mean"),
    BPO(singleton="zero"),
    BPO(singleton="zero", scaled=False, correction={"name": "bpo_weight", "epsilon": 0.3, "cap": 1.1, "high": 0.05}),
    BPO(form="exact_residual", baseline="critic"),
]
"""Each at settings at which it masks something and at which it masks little; every correction."""

ANY_METHOD = pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method!r:.90}")
SPLITTING = pytest.mark.parametrize("method", [m for m in METHODS if m.splits], ids=lambda method: f"{method!r:.90}")

ROWS = random_rows(reward=IN_RANGE)

EXACT = 1e-12
"""Sums of a few float64 numbers in another order."""


RECORDS = {"exact": "full", "monte_carlo": "draws", "topk": "top_k"}


def kind_of(method):
    """The kind of records that a method reads; None for most."""
    if method.name == "klpo":
        return RECORDS.get(method.centering)
    return "top_k" if "score_centering" in str(getattr(method, "correction", "")) else None


def batch_of(method, rows, dtype=torch.float64):
    """The batch of rows, with the records that the method reads."""
    if "binary" in str(method) or "exact_residual" in str(method):  # It refuses a token that is certain.
        rows = [row | {"logprobs": [-1e-6 if x == 0.0 else x for x in row["logprobs"]]} for row in rows]
    return Batch.from_rows(recording(rows, kind_of(method)), dtype=dtype)


def update(method, rows):
    """The update of rows in float64."""
    return method.update(batch_of(method, rows))


def loss_of(made, logprobs):
    """The loss, over the records as they were scored if the method reads any."""
    return made.loss(logprobs, None if made.auxiliary_coefficients is None else made.batch.records.logprobs)


def flat(nested):
    """A list of lists as one list."""
    return [value for part in nested for value in part]


def coefficients(method, rows):
    """The coefficients by trace."""
    return [trace.coefficients for trace in update(method, rows).per_trace()]


@ANY_METHOD
@EVERY_METHOD
@given(st.data(), ROWS)
def test_what_lies_under_the_mask_changes_nothing(method, data, rows):
    """NaN, infinities and placeholders there: same coefficients, same gradient."""
    spoilt = data.draw(garbled(rows))
    clean, dirty = update(method, rows), update(method, spoilt)
    assert torch.equal(clean.coefficients, dirty.coefficients)
    assert torch.equal(clean.advantages, dirty.advantages)
    logprobs = torch.tensor(flat(row["logprobs"] for row in spoilt), dtype=torch.float64, requires_grad=True)
    loss_of(dirty, logprobs).backward()
    assert torch.equal(logprobs.grad, torch.where(dirty.batch.action_mask, -clean.coefficients, 0.0))


@ANY_METHOD
@EVERY_METHOD
@given(ROWS)
def test_no_coefficient_and_no_advantage_off_the_mask(method, rows):
    """A tool token never moves the policy."""
    made = update(method, rows)
    off = ~made.batch.action_mask
    assert not made.coefficients[off].any()
    assert not made.advantages[off].any()
    assert not made.coefficients.requires_grad


@ANY_METHOD
@EVERY_METHOD
@given(ROWS, st.integers(0, 3), st.integers(0, 3))
def test_padding_changes_nothing(method, rows, left, right):
    """Masked tokens before and after every sequence."""
    longer = [padded(row, left, right) for row in rows]
    expected = [[0.0] * left + of_trace + [0.0] * right for of_trace in coefficients(method, rows)]
    assert flat(coefficients(method, longer)) == pytest.approx(flat(expected), abs=EXACT)


@SPLITTING
@EVERY_METHOD
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_traces_changes_nothing(method, rows, random):
    """A permutation of the rows permutes the coefficients."""
    order = list(range(len(rows)))
    random.shuffle(order)
    expected = [coefficients(method, rows)[index] for index in order]
    assert flat(coefficients(method, [rows[index] for index in order])) == pytest.approx(flat(expected), abs=EXACT)


@SPLITTING
@EVERY_METHOD
@given(random_rows(min_traces=2, reward=IN_RANGE), st.integers(1, 4))
def test_any_split_by_traces_gives_the_same_coefficients(method, rows, num_parts):
    """Micro-batches of a batch: what the whole fixed holds in each part, bit for bit."""
    whole = batch_of(method, rows)
    expected = method.update(whole)
    for first in range(num_parts):
        traces = list(range(len(rows)))[first::num_parts]
        if traces:
            tokens = whole.token_index(traces)
            part = method.update(whole.select(traces))
            assert torch.equal(part.coefficients, expected.coefficients[tokens])
            if part.auxiliary_coefficients is not None:
                assert torch.equal(part.auxiliary_coefficients, expected.auxiliary_coefficients[tokens])


@ANY_METHOD
@EVERY_METHOD
@given(random_rows(min_traces=2, reward=IN_RANGE), st.data())
def test_a_trace_cut_into_sequences_is_the_same_trace(method, rows, data):
    """One length, one gate decision, one reward, credit in time order across its sequences."""
    parts = data.draw(cut(rows))
    assert flat(coefficients(method, parts)) == pytest.approx(flat(coefficients(method, rows)), abs=EXACT)
    assert update(method, parts).in_trust.tolist() == update(method, rows).in_trust.tolist()


@ANY_METHOD
@EVERY_METHOD
@given(random_rows(min_traces=2, reward=IN_RANGE), st.data())
def test_sequences_need_not_be_neighbours(method, rows, data):
    """All first sequences, then all second ones: the same by trace."""
    parts = data.draw(cut(rows))
    first = [part for place, part in enumerate(parts) if part["trace_id"] not in {p["trace_id"] for p in parts[:place]}]
    apart = first + [part for part in parts if not any(part is other for other in first)]
    assert flat(coefficients(method, apart)) == pytest.approx(flat(coefficients(method, parts)), abs=EXACT)


@ANY_METHOD
@EVERY_METHOD
@given(random_rows(reward=IN_RANGE, on_policy=True))
def test_equal_policies_open_every_gate(method, rows):
    """Ratio 1, drift 0, nothing masked."""
    made = update(method, rows)
    assert made.in_trust.all()
    assert made.drift.tolist() == [0.0] * len(rows)
    assert made.stats["mean_ratio"] == made.stats["max_ratio"] == 1.0
    assert not (made.coefficients[made.batch.action_mask & (made.advantages.abs() > EXACT)] == 0).any()


@ANY_METHOD
@EVERY_METHOD
@given(ROWS)
def test_out_of_trust_means_no_coefficient(method, rows):
    """And the loss is a number."""
    made = update(method, rows)
    assert not made.coefficients[~made.in_trust[made.batch.trace_index]].any()
    assert math.isfinite(loss_of(made, made.batch.logprobs))


@ANY_METHOD
@EVERY_METHOD
@given(ROWS)
def test_float32_agrees_with_float64(method, rows):
    """To the tolerance of the shared vectors, where no mask or gate flips."""
    exact, single = update(method, rows), method.update(batch_of(method, rows, torch.float32))
    assert single.coefficients.dtype == torch.float32
    if torch.equal(exact.coefficients != 0, single.coefficients != 0):
        assert single.coefficients.tolist() == pytest.approx(exact.coefficients.tolist(), rel=2e-5, abs=2e-5)


@ANY_METHOD
def test_an_update_prints_what_it_did(method):
    """Header, figures, at least one note."""
    more = {"behavior_logprobs": [-0.5], "prox_logprobs": [-0.5], "values": [0.5], "group": 0, "policy_lag": 1}
    rows = [
        more | {"reward": reward, "logprobs": [now], "recorded": recorded([-0.5], [now], seed=0)}
        for reward, now in ((1.0, -0.5), (0.0, -0.6))
    ]
    lines = str(update(method, rows)).splitlines()
    assert lines[0].startswith(f"{method.name} update: ")
    assert all(line.startswith("  ") for line in lines[1:])
    assert update(method, rows).notes
