"""Centred scores by hand, and the correction that is made of them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BatchError, SettingsError
from tests.train.strategies import PROPERTY, recording
from tests.train.strategies import rows as random_rows
from tests.train.toy import climbs
from train.batch import Batch
from train.methods import GRPO, RAE, Reinforce, centering
from train.methods.centering import ScoreCentering
from train.records import Records

FLOOR = 1e-6


def logs(*probabilities):
    """Their logarithms, as records of one token."""
    return torch.tensor([probabilities], dtype=torch.float64).log()


def records(kind, behavior, current):
    """Records of one token."""
    return Records(kind=kind, behavior_logprobs=logs(*behavior), logprobs=logs(*current))


def test_exact_shares_are_the_behavior_policy():
    """W = q; KL of (0.5, 0.5) to (0.25, 0.75) is half of log 2 plus half of log 2/3."""
    made = centering.exact(records("full", (0.5, 0.5), (0.25, 0.75)))
    assert made.shares.tolist() == [pytest.approx([0.5, 0.5])]
    assert made.divergences.tolist() == pytest.approx([0.5 * math.log(2) + 0.5 * math.log(2 / 3)])


def test_what_cannot_be_sampled_has_no_share():
    """0 log 0 is 0."""
    made = centering.exact(records("full", (1.0, 0.0), (0.5, 0.5)))
    assert made.shares.tolist() == [[1.0, 0.0]]
    assert made.divergences.tolist() == pytest.approx([math.log(2)])


def test_every_draw_has_the_same_share():
    """1/M, duplicates too; the divergence is a mean that may be negative."""
    made = centering.monte_carlo(records("draws", (0.5, 0.5, 0.2), (0.8, 0.8, 0.1)))
    assert made.shares.tolist() == [pytest.approx([1 / 3] * 3)]
    assert made.columns.tolist() == [pytest.approx([math.log(0.625), math.log(0.625), math.log(2)])]
    assert made.divergences.tolist() == pytest.approx([math.log(0.625 * 0.625 * 2) / 3])


@pytest.mark.parametrize("literal", [True, False])
def test_the_tail_is_the_current_policy_rescaled(literal):
    """Tails 0.2 and 0.4: rho = 0.5, so w = q - p/2."""
    made = centering.top_k(records("top_k", (0.5, 0.3), (0.4, 0.2)), literal=literal)
    assert made.shares.tolist() == [pytest.approx([0.3, 0.2])]
    expected = 0.5 * math.log(0.5 / 0.4) + 0.3 * math.log(0.3 / 0.2) + 0.2 * math.log(0.5)
    assert made.divergences.tolist() == pytest.approx([expected])
    assert made.head_masses.tolist() == pytest.approx([0.8])
    assert not made.floored.any()


@pytest.mark.parametrize(("literal", "first"), [(True, 0.5), (False, 0.5 - 0.2 / FLOOR * 0.75)])
def test_a_floored_tail_passes_nothing_or_is_divided_by(literal, first):
    """The literal derivative is q there; the other has a ratio of 200,000."""
    made = centering.top_k(records("top_k", (0.5, 0.3), (0.75, 0.25)), literal=literal)
    assert made.shares[0, 0].item() == pytest.approx(first, rel=1e-9)
    assert made.floored.tolist() == [True]


def test_binary_takes_the_other_tokens_as_one():
    """(1 - 0.5)/(1 - 0.75) = 2, and the KL of two coins."""
    made = centering.binary(logs(0.5)[0], logs(0.75)[0])
    assert made.factors.tolist() == pytest.approx([2.0])
    assert made.divergences.tolist() == pytest.approx([0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(2)])
    assert made.shares is None


def oracle(row, advantage, scale, cap):
    """Coefficients of a trace's tokens and recorded tokens under score centering, in plain floats."""
    own, recorded = [], []
    told = row["records"]
    for at, acts in enumerate(row["action_mask"]):
        then, now = told["behavior_logprobs"][at], told["logprobs"][at]
        if not acts:
            own.append(0.0)
            recorded.extend([0.0] * len(now))
            continue
        tails = [max(1.0 - math.fsum(map(math.exp, head)), FLOOR) for head in (then, now)]
        modelled = min(1.0, cap * tails[0] / tails[1])
        ratio = math.exp(row["logprobs"][at] - row["behavior_logprobs"][at])
        own.append(advantage * scale * min(ratio, cap))
        for q, p in zip(map(math.exp, then), map(math.exp, now), strict=True):
            recorded.append(-advantage * scale * (min(p, cap * q) - modelled * p))
    return own, recorded


@PROPERTY
@given(random_rows(), st.sampled_from([1.0, 1.1, 2.0]))
def test_score_centering_equals_a_plain_float_oracle(rows, cap):
    """For the batch mean, over the tokens of the batch."""
    rows = recording(rows, "top_k")
    made = Reinforce(correction=ScoreCentering(cap=cap)).update(Batch.from_rows(rows, dtype=torch.float64))
    num_tokens, mean = (
        sum(sum(row["action_mask"]) for row in rows),
        math.fsum(row["reward"] for row in rows) / len(rows),
    )
    expected = [oracle(row, row["reward"] - mean, 1 / num_tokens, cap) for row in rows]
    assert made.coefficients.tolist() == pytest.approx([c for own, _ in expected for c in own], rel=1e-9, abs=1e-12)
    recorded = [c for _, own in expected for c in own]
    assert made.auxiliary_coefficients.flatten().tolist() == pytest.approx(recorded, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "method",
    [
        Reinforce(correction="score_centering", aggregation="trace_sum"),
        GRPO(correction={"name": "score_centering", "cap": 1.2}, singleton="zero"),
        RAE(correction="score_centering"),
    ],
    ids=lambda method: method.name,
)
@PROPERTY
@given(random_rows())
def test_the_gradient_is_that_of_the_literal_loss(method, rows):
    """-A (min(rho, C) log p(a) - sum_H (min(p, C q) - min(1, C rho_tail) p) log p), the weights held constant."""
    batch = Batch.from_rows(recording(rows, "top_k"), dtype=torch.float64)
    made = method.update(batch)
    cap = 1.2 if method.name == "grpo" else 2.0
    p, head = (numbers.clone().requires_grad_() for numbers in (batch.logprobs, batch.records.logprobs))
    q, then = batch.behavior_logprobs, batch.records.behavior_logprobs
    tails = [(1 - numbers.exp().sum(1)).clamp(min=FLOOR) for numbers in (then, head)]
    shares = (
        torch.minimum(head.exp(), cap * then.exp()) - (cap * tails[0] / tails[1]).clamp(max=1)[:, None] * head.exp()
    )
    score = (p - q).exp().clamp(max=cap).detach() * p - (shares.detach() * head).sum(1)
    num = len(rows) if method.name == "reinforce" else int(batch.action_mask.sum())
    loss = -(made.advantages * score)[batch.action_mask].sum() / num
    loss.backward()
    assert made.loss(batch.logprobs, batch.records.logprobs).item() == pytest.approx(loss.item(), abs=1e-12)
    assert (-p.grad).tolist() == pytest.approx(made.coefficients.tolist(), abs=1e-12)
    assert (-head.grad).flatten().tolist() == pytest.approx(made.auxiliary_coefficients.flatten().tolist(), abs=1e-12)


Q, LOGITS = (torch.tensor(values, dtype=torch.float64) for values in ([0.6, 0.3, 0.1], [0.2, -0.4, 0.9]))


def mean_score(correction):
    """The mean ascent by the logits of a decision whose advantage is 1 whatever is sampled from Q."""
    total = torch.zeros(3, dtype=torch.float64)
    for action in range(3):
        logits = LOGITS.clone().requires_grad_()
        now, then = torch.log_softmax(logits, -1), Q.log()
        told = {"kind": "top_k", "behavior_logprobs": [then[:2].tolist()], "logprobs": [now[:2].tolist()]}
        row = {"reward": 1.0, "behavior_logprobs": [then[action].item()], "logprobs": [now[action].item()]}
        batch = Batch.from_rows([row | {"records": told}], dtype=torch.float64)
        update = Reinforce(baseline=0.0, correction=correction).update(batch)
        centred = update.auxiliary_coefficients is not None
        update.loss(now[[action]], now[None, :2] if centred else None).backward()
        total -= Q[action] * logits.grad
    return total


@pytest.mark.parametrize("cap", [1.0, 2.0, 50.0])
def test_an_advantage_of_every_token_moves_nothing_in_expectation(cap):
    """A head of all tokens but one centres exactly, whatever the cap; the cap alone leaves a drift."""
    assert mean_score(ScoreCentering(cap=cap)).abs().max() < 1e-12
    if cap < 50:
        assert mean_score({"name": "tis", "high": cap}).abs().max() > 1e-3


@PROPERTY
@given(random_rows(on_policy=True))
def test_traces_of_the_policy_itself_are_plain_policy_gradient(rows):
    """Ratio 1 and nothing to centre."""
    batch = Batch.from_rows(recording(rows, "top_k"), dtype=torch.float64)
    made = Reinforce(correction="score_centering").update(batch)
    assert torch.equal(made.coefficients, Reinforce().update(batch).coefficients)
    assert made.auxiliary_coefficients.abs().max() < 1e-12


def test_the_report_says_what_was_centred():
    """A head of one token that went from 0.8 to 0.2: its share is 0.1."""
    told = {"kind": "top_k", "behavior_logprobs": [[math.log(0.8)]], "logprobs": [[math.log(0.2)]]}
    row = {"reward": 1.0, "behavior_logprobs": [-1.0], "logprobs": [-1.0], "records": told}
    made = Reinforce(baseline=0.0, correction="score_centering").update(Batch.from_rows([row], dtype=torch.float64))
    # Tails 0.2 and 0.8, so the modelled tail weighs min(1, 2 * 0.25): 0.2 - 0.5 * 0.2.
    assert made.auxiliary_coefficients.tolist() == [pytest.approx([-0.1])]
    assert "scores centred by 0.1 a token over a head of K = 1, the tail modelled: an approximation" in str(made)


def test_score_centering_without_records_is_refused():
    """With the way out."""
    batch = Batch.from_rows([{"reward": 1.0, "behavior_logprobs": [-1.0], "logprobs": [-1.0]}])
    with pytest.raises(BatchError, match=r"score_centering: .* no records; expected top_k .* such as tis"):
        Reinforce(correction="score_centering").update(batch)


@pytest.mark.parametrize("cap", [0.5, -1.0, math.inf, "2"])
def test_a_cap_below_one_or_without_end_is_refused(cap):
    """It would weigh down the policy's own traces, or multiply 0 by infinity."""
    with pytest.raises(SettingsError, match=r"ScoreCentering\(cap=.*expected a number from 1"):
        ScoreCentering(cap=cap)


@pytest.mark.parametrize("lag", [0, 8])
def test_a_toy_policy_climbs_from_chance(lag):
    """With a head of two of four tokens."""
    method = Reinforce(correction="score_centering")
    assert climbs(method, above=0.6, lag=lag, learning_rate=12.0, num_updates=40, kind="top_k")
