"""The shared vectors of the methods with a critic, and of the critic's own equations."""

import math

import pytest
import torch

from schemas.errors import BatchError
from tests.train.shared_vectors import DTYPES, assert_close, cases, edge_cases, flat, read
from train.action_axis import ActionAxis
from train.batch import Batch
from train.methods import BPCO, SAO, values

AGGREGATIONS = {
    "token-mean": "token_mean",
    "seq-mean-token-mean": "trace_mean",
    "seq-mean-token-sum": "trace_sum",
}
STATS = {
    "admitted_share": "in_trust_share",
    "action_tokens": "num_action_tokens",
    "masked_token_share": "masked_token_share",
    "clipped_token_share": "clipped_token_share",
    "mean_ratio": "mean_ratio",
    "mean_advantage": "mean_advantage",
    "lambda_mean": "mean_lambda",
    "mean_lambda": "mean_lambda",
    "mean_clip_range": "mean_clip_range",
    "explained_variance": "explained_variance",
}


def sao(params):
    """SAO under the option names of the vectors."""
    named = {"alpha": "gae_alpha"}
    options = {named.get(name, name): tuple(value) if name == "band" else value for name, value in params.items()}
    if "aggregation" in options:
        options["aggregation"] = AGGREGATIONS[options["aggregation"]]
    return SAO(**options)


def bpco(params):
    """BPCO under the option names of the vectors; it has one aggregation, 1/B."""
    named = {"alpha": "gae_alpha"}
    return BPCO(**{named.get(name, name): value for name, value in params.items() if name != "aggregation"})


def compare(update, expect, dtype, what, scale=1.0):
    """Coefficients, loss, targets, trust and figures against an expectation; `scale` undoes a normaliser."""
    coefficients = [scale * value for value in update.coefficients.tolist()]
    assert_close(coefficients, flat(expect.get("c") or expect["coefficients"]), dtype, what)
    assert_close([scale * update.loss(update.batch.logprobs).item()], [expect["loss"]], dtype, what)
    assert update.in_trust.tolist() == [bool(admitted) for admitted in expect["admitted"]], what
    for ours, theirs in (("advantages", ("A", "advantages")), ("value_targets", ("targets", "value_targets"))):
        expected = next((expect[name] for name in theirs if name in expect), None)
        if expected is not None:
            assert_close(getattr(update, ours).tolist(), flat(expected), dtype, f"{what} {ours}")
    stats = dict(expect["stats"])
    if not any(expect["admitted"]):
        stats["mean_ratio"] = math.nan  # A mean over no token: the vectors say 0, we say that there is none.
    assert_close([update.stats[STATS[name]] for name in stats], list(stats.values()), dtype, f"{what} stats")
    assert ("explained_variance" in update.stats) == ("explained_variance" in stats), what


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("setting", "num_cases"), [("reasoning", 240), ("coding", 40), ("seqmean", 40)])
def test_sao_equals_its_vectors(setting, num_cases, dtype):
    """Coefficients, loss, band, advantages, targets and figures of all 320 cases."""
    method, seen = sao(read("sao")["settings"][setting]), 0
    for name, rows, expect in cases("sao", setting, dtype):
        compare(method.update(Batch.from_rows(rows, dtype=dtype)), expect, dtype, name)
        seen += 1
    assert seen == num_cases


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("setting", "num_cases"), [("default", 240), ("whileai_scale", 40), ("no_lambda_floor", 40)])
def test_bpco_equals_its_vectors(setting, num_cases, dtype):
    """Coefficients, loss, clip, advantages, targets and figures of all 320 cases; whileai leaves out the 1/B."""
    method, seen = bpco(read("bpco")["settings"][setting]), 0
    for name, rows, expect in cases("bpco", setting, dtype):
        scale = len(rows) if setting == "whileai_scale" else 1.0
        compare(method.update(Batch.from_rows(rows, dtype=dtype)), expect, dtype, name, scale)
        seen += 1
    assert seen == num_cases


EDGES = edge_cases("sao") | edge_cases("bpco")
NOT_OURS = {
    "bpco_observation_end_release": "the release loses the reward there; no option of ours does",
    "bpco_reward_outside_range": "a reward beyond the range is refused; tested below",
}
RESTORED = {
    "sao_band_edges": [-1.0 + math.log(0.7), -3.0 + math.log(6.0), -1.0],
    "sao_band_edge_exact": [-1.0 + math.log(2.0), -2.0 + math.log(0.5)],
}
"""Logprobs that put a ratio exactly on a bound: the file's fifteen digits put it a hair to one side."""

ON_THE_EDGE = {"sao_band_edges", "sao_band_edge_exact", "bpco_rare_token_cap_probability"}
"""Cases whose ratio stands exactly on a bound, or whose expectation float32 cannot hold."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name, case in EDGES.items() if "expect" in case and name not in NOT_OURS])
def test_critic_methods_answer_their_edge_cases(name, dtype):
    """Each named case, in its own words."""
    if dtype == torch.float32 and name in ON_THE_EDGE:
        pytest.skip("float32 cannot hold the bound it stands on")
    case = EDGES[name]
    rows = case["rows"]
    if name in RESTORED:
        assert rows[0]["logprobs"] == pytest.approx(RESTORED[name], rel=1e-14)
        rows = [rows[0] | {"logprobs": RESTORED[name]}]
    method = {"sao": sao, "bpco": bpco}[case["method"]](case["params"])
    compare(method.update(Batch.from_rows(rows, dtype=dtype)), case["expect"], dtype, name)


@pytest.mark.parametrize("name", [name for name, case in EDGES.items() if "error" in case])
def test_critic_methods_refuse_their_edge_cases(name):
    """Bad numbers, missing values, missing behavior_logprobs, a value out of range."""
    case = EDGES[name]
    method = {"sao": sao, "bpco": bpco}[case["method"]](case["params"])
    with pytest.raises(BatchError, match="trace 0"):
        method.update(Batch.from_rows(case["rows"], dtype=torch.float64))


def test_a_reward_out_of_range_is_refused_until_the_range_says_otherwise():
    """The bounded critic could never follow it; with the range widened the numbers are those of the vectors."""
    case = EDGES["bpco_reward_outside_range"]
    batch = Batch.from_rows(case["rows"], dtype=torch.float64)
    with pytest.raises(BatchError, match=r"trace 0: reward 3\.0; expected within \[0, 1\]"):
        BPCO().update(batch)
    compare(BPCO(reward_range=(0.0, 3.0)).update(batch), case["expect"], torch.float64, "widened")


def test_the_bounded_head_equals_its_vectors():
    """Value and derivative at 36 points, from -1e6 to 1e6; and back, where there are digits left to go back."""
    for case in read("critic")["bound"]:
        raw = torch.tensor(case["z"], dtype=torch.float64, requires_grad=True)
        value = values.bounded_values(raw, case["lo"], case["hi"])
        value.backward()
        assert_close([value.item(), raw.grad.item()], [case["v"], case["dv_dz"]], torch.float64, case)
        if abs(case["z"]) < 100:
            back = values.raw_values(value.detach(), case["lo"], case["hi"]).item()
            assert back == pytest.approx(case["z"], rel=1e-9, abs=1e-12)


def test_the_length_adaptive_lambda_equals_its_vectors():
    """Floored and not, from 1 token to 10,000."""
    for case in read("critic")["lam"]:
        length = torch.tensor([case["length"]])
        for floored in (True, False):
            got = values.length_adaptive_lambdas(length, case["alpha"], floored=floored)
            assert_close(got.tolist(), [case["floored" if floored else "raw"]], torch.float64, case)


def test_advantages_and_targets_equal_their_vectors():
    """40 traces, observations anywhere, any gamma and lambda."""
    for case in read("critic")["gae"]:
        mask = torch.tensor(case["mask"], dtype=torch.bool)
        index, rewards = torch.zeros(len(mask), dtype=torch.int64), torch.tensor([case["reward"]], dtype=torch.float64)
        own, lambdas = (torch.tensor(x, dtype=torch.float64) for x in (case["values"], [case["lam"]]))
        actions = ActionAxis(mask, index, 1)
        got = values.skip_observation_advantages(actions.pack(own), rewards, actions, case["gamma"], lambdas)
        assert_close(actions.spread(got).tolist(), case["adv"], torch.float64, case)
        targets = values.value_targets(rewards, mask, index, actions.counts, case["gamma"])
        assert_close(targets.tolist(), case["targets"], torch.float64, case)


def test_the_value_loss_equals_its_vectors():
    """Loss and gradient, plain and clipped; the vectors state the weight 1/2 that is ours."""
    for case in read("critic")["value_loss"]:
        assert case["weight"] == 0.5
        own, old, targets = (
            torch.tensor(flat(case[name]), dtype=torch.float64) for name in ("values", "old_values", "targets")
        )
        own.requires_grad_()
        mask = torch.tensor(flat(case["mask"]), dtype=torch.bool)
        loss = values.value_loss(own, targets, mask, old_values=old, clip=case["clip"])
        loss.backward()
        assert_close([loss.item()], [case["loss"]], torch.float64, case)
        assert_close(own.grad.tolist(), flat(case["grad"]), torch.float64, case)


def test_the_explained_variance_equals_its_vectors():
    """And there is none when all returns are equal."""
    for case in read("critic")["explained_variance"]:
        returns, own = (torch.tensor(case[name], dtype=torch.float64) for name in ("returns", "values"))
        got = values.explained_variance(returns, own, torch.ones(len(own), dtype=torch.bool))
        assert_close([got], [math.nan if case["ev"] is None else case["ev"]], torch.float64, case)
