"""KLPO: what it holds in expectation, its refusals, its words, and a toy that must climb."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BatchError, SettingsError, TrainingError
from tests.train.strategies import PROPERTY, recording
from tests.train.strategies import rows as random_rows
from tests.train.toy import climbs
from train.batch import Batch
from train.methods import KLPO
from train.records import Records

KINDS = {"exact": "full", "monte_carlo": "draws", "topk": "top_k", "binary": None}
ROUTES = ("token", "sequence")
ANY_ROUTE = pytest.mark.parametrize("route", ROUTES)

Q = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
"""A behavior policy of three tokens, small enough to go over all that it can draw."""
LOGITS = torch.tensor([0.2, -0.4, 0.9], dtype=torch.float64)
"""The current policy."""
BETA = 0.3
REWARDS = (1.0, 0.25, -0.5)
"""By sampled token, so that the reward depends on it."""


def ascent(method, actions, reward, recorded_ids, kind):
    """Gradient of the ascent by the logits of a trace of these tokens, each with these recorded ids."""
    logits = LOGITS.clone().requires_grad_()
    then, now = Q.log(), torch.log_softmax(logits, -1)
    own = torch.tensor(actions)
    ids = torch.tensor(recorded_ids).reshape(len(actions), -1)
    records = None
    if kind is not None:
        numbers = {"behavior_logprobs": then[ids], "logprobs": now.detach()[ids]}
        records = Records(kind=kind, token_ids=ids, sampled_ids=own, **numbers)
    batch = Batch(
        trace_ids=("t",),
        rewards=torch.tensor([reward]),
        sequence_lengths=torch.tensor([len(own)]),
        sequence_traces=torch.tensor([0]),
        sequence_index=torch.tensor([0]),
        action_mask=torch.ones(len(own), dtype=torch.bool),
        behavior_logprobs=then[own],
        logprobs=now.detach()[own],
        records=records,
    )
    update = method.update(batch)
    update.loss(now[own], None if update.auxiliary_coefficients is None else now[ids]).backward()
    return -logits.grad


def exact(route, actions, reward):
    """The ascent with the whole vocabulary recorded."""
    return ascent(KLPO(beta=BETA, route=route, centering="exact"), actions, reward, [[0, 1, 2]] * len(actions), "full")


def expected_over_draws(route, actions, reward, num_draws):
    """The mean ascent over everything that the behavior policy can draw beside these tokens."""
    method, total = KLPO(beta=BETA, route=route), torch.zeros(3, dtype=torch.float64)
    for drawn in itertools.product(range(3), repeat=num_draws * len(actions)):
        ids = [list(drawn[at * num_draws : (at + 1) * num_draws]) for at in range(len(actions))]
        total += float(Q[list(drawn)].prod()) * ascent(method, actions, reward, ids, "draws")
    return total


def expected_over_actions(method, reward_of, recorded_ids, kind):
    """The mean ascent of a decision over what the behavior policy can sample."""
    parts = (ascent(method, [a], reward_of(a), [recorded_ids or [a]], kind) * Q[a] for a in range(3))
    return sum(parts)


def close(actual, expected, tolerance=1e-12):
    """Whether two gradients are one, up to rounding."""
    return torch.allclose(actual, expected, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("num_draws", [1, 2, 3])
def test_token_draws_are_exact_in_expectation(num_draws):
    """For any number of draws, at a fixed trace of two tokens."""
    num_tokens = 2 if num_draws < 3 else 1
    actions = [0, 2][:num_tokens]
    assert close(expected_over_draws("token", actions, 1.0, num_draws), exact("token", actions, 1.0))


@pytest.mark.parametrize("num_draws", [2, 3])
def test_sequence_draws_are_exact_in_expectation(num_draws):
    """Through the residual of the other draws."""
    actions = [0, 2] if num_draws == 2 else [2]
    assert close(expected_over_draws("sequence", actions, 1.0, num_draws), exact("sequence", actions, 1.0))


def test_the_mean_residual_in_place_of_the_others_would_be_biased(monkeypatch):
    """The plug-in estimate, every draw weighed by the residual that it is part of."""

    def plug_in(residuals):
        return residuals.mean(1, keepdim=True).expand(residuals.shape), torch.zeros(len(residuals))

    monkeypatch.setattr("train.methods.klpo.leave_one_out", plug_in)
    assert not close(expected_over_draws("sequence", [0, 2], 1.0, 2), exact("sequence", [0, 2], 1.0), 1e-3)


@ANY_ROUTE
@pytest.mark.parametrize("head", [[0, 1], [2, 0]])
def test_a_head_of_all_tokens_but_one_is_exact(route, head):
    """The tail is one token, and is modelled as itself."""
    made = ascent(KLPO(beta=BETA, route=route, centering="topk"), [0, 2], 1.0, [head, head], "top_k")
    assert close(made, exact(route, [0, 2], 1.0))


@ANY_ROUTE
def test_a_whole_vocabulary_can_be_read_as_a_head(route):
    """The tail is floored, and its shares add up to no gradient."""
    made = ascent(KLPO(beta=BETA, route=route, centering="topk"), [0, 2], 1.0, [[0, 1, 2]] * 2, "full")
    assert close(made, exact(route, [0, 2], 1.0), 2e-6)


@ANY_ROUTE
def test_a_head_of_the_sampled_token_is_binary(route):
    """Both know the sampled token and the rest."""
    made = ascent(KLPO(beta=BETA, route=route, centering="topk"), [0, 2], 1.0, [[0], [2]], "top_k")
    assert close(made, ascent(KLPO(beta=BETA, route=route, centering="binary"), [0, 2], 1.0, [[0], [2]], None))


@ANY_ROUTE
def test_a_step_lowers_the_variance_of_the_residual(route):
    """E over actions of the ascent is -grad Var_q(h) / (2 beta), by autograd of the variance."""
    method = KLPO(beta=BETA, route=route, centering="exact")
    found = expected_over_actions(method, lambda action: REWARDS[action], [0, 1, 2], "full")
    logits = LOGITS.clone().requires_grad_()
    residual = torch.tensor(REWARDS, dtype=torch.float64) - BETA * (torch.log_softmax(logits, -1) - Q.log())
    variance = (Q * residual**2).sum() - (Q * residual).sum() ** 2
    (variance / (2 * BETA)).backward()
    assert close(found, -logits.grad)


@ANY_ROUTE
@pytest.mark.parametrize("centering", ["exact", "monte_carlo", "binary"])
def test_a_constant_reward_moves_nothing_in_expectation_unless_binary(route, centering):
    """Scores of mean 0 under the behavior policy; binary ones have another mean."""
    method = KLPO(beta=BETA, route=route, centering=centering)

    def mean(reward):
        if centering != "monte_carlo":
            kind = KINDS[centering]
            return expected_over_actions(method, lambda _: reward, [0, 1, 2] if kind else None, kind)
        return sum(Q[action] * expected_over_draws(route, [action], reward, 2) for action in range(3))

    assert close(mean(5.0), mean(0.0), 1e-11) is (centering != "binary")


@ANY_ROUTE
def test_no_reward_pulls_the_policy_back(route):
    """At R = 0 a small step along the expected ascent lowers KL(q || p)."""
    step = expected_over_actions(KLPO(beta=BETA, route=route, centering="exact"), lambda _: 0.0, [0, 1, 2], "full")

    def kl(logits):
        return float((Q * (Q.log() - torch.log_softmax(logits, -1))).sum())

    assert kl(LOGITS + 0.1 * step) < kl(LOGITS)


@PROPERTY
@given(random_rows(on_policy=True), st.sampled_from(ROUTES), st.sampled_from(sorted(KINDS)))
def test_the_policy_itself_has_its_reward_as_residual(rows, route, centering):
    """P = q: log-ratios and divergences are 0, whatever beta is."""
    made = KLPO(beta=7.0, route=route, centering=centering).update(batch_of(rows, centering))
    expected = torch.where(made.batch.action_mask, made.batch.rewards[made.batch.trace_index], 0.0)
    assert made.advantages.tolist() == pytest.approx(expected.tolist(), abs=1e-12)


@PROPERTY
@given(random_rows(), st.sampled_from(ROUTES))
def test_two_sums_are_as_good_as_the_whole_vocabulary(rows, route):
    """Records of kind "expected": the same coefficients, the same gradient by every logprob of the vocabulary."""
    full = batch_of(rows, "exact")
    shares = full.records.behavior_logprobs.exp()
    current = full.records.logprobs.clone().requires_grad_()
    sums = [(shares * numbers).sum(1, keepdim=True) for numbers in (full.records.behavior_logprobs, current)]
    short = Batch(
        **{name: getattr(full, name) for name in FIELDS},
        records=Records(kind="expected", behavior_logprobs=sums[0], logprobs=sums[1]),
    )
    method = KLPO(route=route, centering="exact")
    one, other = method.update(full), method.update(short)
    assert other.coefficients.tolist() == pytest.approx(one.coefficients.tolist(), abs=1e-12)
    (gradient,) = torch.autograd.grad(other.loss(short.logprobs, sums[1]), current)
    assert (-gradient).flatten().tolist() == pytest.approx(one.auxiliary_coefficients.flatten().tolist(), abs=1e-12)


FIELDS = (
    "trace_ids",
    "rewards",
    "sequence_lengths",
    "sequence_traces",
    "sequence_index",
    "action_mask",
    "behavior_logprobs",
    "logprobs",
)


@PROPERTY
@given(random_rows(), st.floats(1e-3, 1.0))
def test_a_coefficient_is_bounded_whatever_the_age(rows, beta):
    """|c| <= (|R| + beta |log-ratio|) / B: no ratio grows without bound."""
    made = KLPO(beta=beta).update(batch_of(rows, "monte_carlo"))
    rewards = made.batch.rewards[made.batch.trace_index].abs()
    bound = (rewards + beta * made.log_ratios.abs()) / len(rows)
    assert (made.coefficients.abs() <= bound + 1e-12).all()


def batch_of(rows, centering):
    """The batch of rows with what the centering reads; binary refuses a certain token."""
    if centering == "binary":
        rows = [row | {"logprobs": [min(x, -1e-6) for x in row["logprobs"]]} for row in rows]
    return Batch.from_rows(recording(rows, KINDS[centering]), dtype=torch.float64)


def draws(reward=1.0, now=(-0.5,), then=(-0.5,), drawn=((-0.5, -1.0),), **more):
    """A trace with draws that both policies give the same probabilities."""
    records = {"kind": "draws", "behavior_logprobs": list(drawn), "logprobs": list(drawn)}
    return {"reward": reward, "logprobs": list(now), "behavior_logprobs": list(then), "records": records} | more


def update(rows, method=None):
    """The update of rows in float64."""
    return (method or KLPO()).update(Batch.from_rows(rows, dtype=torch.float64))


@ANY_ROUTE
def test_length_is_not_divided_by(route):
    """Four tokens weigh as much as four traces of one: 1/B each."""
    made = update([draws(now=[-0.5] * 4, then=[-0.5] * 4, drawn=[(-0.5, -1.0)] * 4), draws()], KLPO(route=route))
    assert made.coefficients.tolist() == [0.5] * 5
    assert made.auxiliary_coefficients.tolist() == [[-0.25, -0.25]] * 5


def test_a_sequence_residual_by_hand():
    """Log-ratios 0.5 and -0.25, draws without divergence: D = 1 - 0.1 * 0.25, on both tokens."""
    made = update([draws(now=[-0.5, -0.5], then=[-1.0, -0.25], drawn=[(-0.5, -1.0)] * 2)], KLPO(route="sequence"))
    assert made.advantages.tolist() == pytest.approx([0.975, 0.975])
    assert made.stats["regression_loss"] == pytest.approx(0.975**2 / 0.2)


def test_a_trace_of_several_sequences_has_one_residual():
    """Its log-ratios of 0.5 and 0.25 add up; another trace has its own."""
    rows = [
        draws(trace_id="a", now=[-0.5], then=[-1.0]),
        draws(trace_id="b", reward=0.0),
        draws(trace_id="a", now=[-0.5], then=[-0.75]),
    ]
    made = update(rows, KLPO(route="sequence", beta=1.0))
    assert made.advantages.tolist() == pytest.approx([0.25, 0.0, 0.25])


def test_the_lists_hold_the_recorded_tokens_too():
    """By trace, beside the coefficients."""
    first = update([draws(), draws(reward=0.0)]).per_trace()[0]
    assert first.coefficients == [0.5]
    assert first.auxiliary_coefficients == [[-0.25, -0.25]]


@pytest.mark.parametrize("recorded", [None, torch.zeros(1, 3)], ids=["none", "another shape"])
def test_a_loss_without_the_recorded_logprobs_is_refused(recorded):
    """It would train scores that are not centred, in silence."""
    with pytest.raises(TrainingError, match=r"klpo: auxiliary_logprobs: .*; expected \(1, 2\)"):
        update([draws()]).loss(torch.tensor([-0.5]), recorded)


def test_draws_alone_can_move_the_policy():
    """Residuals of 0.5 and -0.5 by draw, 0 in the mean: the sampled token stays, the drawn ones do not."""
    row = draws(reward=0.0)
    row["records"] = {"kind": "draws", "behavior_logprobs": [[-1.0, -1.0]], "logprobs": [[-0.5, -1.5]]}
    made = update([row], KLPO(route="sequence", beta=1.0))
    assert made.coefficients.tolist() == [0.0]
    assert made.auxiliary_coefficients.tolist() == [[0.25, -0.25]]
    assert made.moves


@pytest.mark.parametrize(
    ("centering", "said"),
    [
        ("exact", "centred exactly, over all 4 tokens"),
        ("monte_carlo", "centred by Monte Carlo over 3 draws a token: a surrogate once the policy has trained on them"),
        ("binary", "binary, an approximation: not centred, only the sampled token's logprob was read"),
    ],
)
@PROPERTY
@given(rows=random_rows())
def test_the_report_says_how_the_scores_were_centred(centering, said, rows):
    """And that nothing is gated."""
    told = str(KLPO(centering=centering).update(batch_of(rows, centering)))
    assert said in told
    assert "no ratio, clip or gate: all" in told


def test_a_head_prints_what_it_holds():
    """0.75 and 0.5 of the probability, in the mean 0.625; a tail that the current policy has left is told."""
    heads = [([0.5, 0.25], [0.5, 0.25]), ([0.5, 1e-9], [0.9, 0.1])]
    rows = [
        {"reward": 1.0, "logprobs": [-0.5], "behavior_logprobs": [-0.5]}
        | {"records": dict(zip(("behavior_logprobs", "logprobs"), map(logs, head), strict=True)) | {"kind": "top_k"}}
        for head in heads
    ]
    made = update(rows, KLPO(centering="topk"))
    said = (
        "over a head of 2 tokens that holds 62.5000% of the behavior policy, at the least 50.0000%, the tail modelled"
    )
    assert f"centred {said}: an approximation" in str(made)
    assert "1 of 2 tokens leave less than 1e-06 to the tail" in str(made)
    assert made.stats["mean_head_mass"] == pytest.approx(0.625)
    assert made.stats["min_head_mass"] == pytest.approx(0.5)


def logs(probabilities):
    """Their logarithms, for one token."""
    return [[math.log(probability) for probability in probabilities]]


def test_a_trace_that_several_versions_wrote_is_told():
    """Its tokens have several lags: the reward given its first half came from another policy."""
    two = {"now": [-0.5, -0.5], "then": [-0.5, -0.5], "drawn": [(-0.5, -1.0)] * 2}
    made = update([draws(**two, policy_lag=[3, 2]), draws(**two, policy_lag=[3, 3])])
    assert "1 trace (0) written by several versions, which is an approximation" in str(made)


def test_binary_needs_no_records():
    """The fallback of a log that has none: at p = q it is the plain reward."""
    made = update([{"reward": 1.0, "logprobs": [-0.5], "behavior_logprobs": [-0.5]}], KLPO(centering="binary"))
    assert made.coefficients.tolist() == [1.0]
    assert made.auxiliary_coefficients is None


def test_a_logged_certain_token_is_refused_by_binary():
    """As one of the current policy is."""
    with pytest.raises(BatchError, match=r"klpo binary: trace 0, token 0: behavior_logprobs of exactly 0"):
        update([{"reward": 1.0, "logprobs": [-0.5], "behavior_logprobs": [0.0]}], KLPO(centering="binary"))


def test_a_trace_without_an_action_token_is_refused():
    """It has no residual."""
    with pytest.raises(BatchError, match="klpo: trace 1 has no action token"):
        update([draws(), draws(action_mask=[False])])


def test_another_number_of_records_than_was_stated_is_refused():
    """16 draws are no 128."""
    with pytest.raises(BatchError, match=r"klpo: 2 recorded tokens at each token of trace 0 .* expected 16"):
        update([draws()], KLPO(num_records=16))
    assert update([draws()], KLPO(num_records=2)).moves


@pytest.mark.parametrize(
    "options",
    [
        {"beta": 0.0},
        {"beta": -0.1},
        {"beta": True},
        {"route": "trace"},
        {"centering": "full"},
        {"num_records": 0},
        {"num_records": 1.5},
        {"num_records": 4, "centering": "binary"},
        {"certain": "floor", "centering": "exact"},
    ],
    ids=str,
)
def test_a_bad_option_is_refused_where_it_is_set(options):
    """With its name, its value and the bound."""
    with pytest.raises(SettingsError, match=rf"KLPO\({next(iter(options))}=.*expected"):
        KLPO(**options)


@pytest.mark.parametrize("lag", [0, 8])
@pytest.mark.parametrize("centering", KINDS)
@ANY_ROUTE
def test_a_toy_policy_climbs_from_chance(route, centering, lag):
    """Under every route, at lag 0 and at eight updates of lag."""
    method = KLPO(route=route, centering=centering)
    assert climbs(method, above=0.9, lag=lag, learning_rate=4.0, num_updates=60, kind=KINDS[centering])


def test_exact_centering_tells_how_far_what_was_logged_is_from_what_was_computed_again():
    """By the record of the whole vocabulary at the sampled token, or by a number of its own beside two sums."""
    logged, again = math.log(0.5), math.log(0.5) + 4e-5
    row = {"reward": 1.0, "logprobs": [logged], "behavior_logprobs": [logged]}
    full = {"kind": "full", "behavior_logprobs": [[again, math.log(0.5)]], "logprobs": [[logged, logged]]}
    said = "logged and recomputed log-probabilities of the sampled tokens are up to 4e-05 nats apart"
    batch = Batch.from_rows([row | {"records": full | {"sampled_ids": [0]}}], dtype=torch.float64)
    assert said in KLPO(centering="exact").update(batch).notes
    assert not [note for note in KLPO(centering="exact").update(batch_with(row, full)).notes if "apart" in note]
    sums = Records(kind="expected", behavior_logprobs=torch.tensor([[-0.7]]), logprobs=torch.tensor([[-0.7]]))
    own = replace(sums, sampled_logprobs=torch.tensor([again]))
    assert said in KLPO(centering="exact").update(replace(Batch.from_rows([row]), records=own)).notes


def batch_with(row, records):
    """A batch of one row with records that do not say which token was sampled."""
    return Batch.from_rows([row | {"records": records}], dtype=torch.float64)


def test_a_certain_token_is_refused_or_floored_and_counted():
    """Logged and scored at exactly 0 it has weight 1 and no log-ratio: its coefficient is the reward over B."""
    rows = [{"reward": 0.5, "logprobs": [0.0, -1.0], "behavior_logprobs": [0.0, -1.0]}]
    batch = Batch.from_rows(rows)
    with pytest.raises(BatchError, match=r'logprobs of exactly 0; .*or set certain="floor"'):
        KLPO(centering="binary").update(batch)
    update = KLPO(centering="binary", certain="floor").update(batch)
    assert update.coefficients.tolist() == pytest.approx([0.5, 0.5])
    assert "1 of 2 tokens had a log-probability above -6.0e-08, read as that" in str(update)


def test_a_floored_token_that_became_certain_stays_finite():
    """From 0.999 to rounding: (1 - q)/(1 - p) is 0.001 / 6e-8, which its own gradient, 1 - p, takes back."""
    rows = [{"reward": 1.0, "logprobs": [0.0], "behavior_logprobs": [math.log(0.999)]}]
    update = KLPO(centering="binary", certain="floor").update(Batch.from_rows(rows))
    assert float(update.coefficients[0]) == pytest.approx(0.001 / 2**-24, rel=1e-3)
