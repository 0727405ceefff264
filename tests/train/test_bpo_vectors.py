"""The shared vectors of BPO's practical form: every case, in float64 and in float32."""

import pytest
import torch

from tests.train.shared_vectors import DTYPES, assert_close, cases, edge_cases, flat, read
from train.batch import Batch
from train.methods import BPO
from train.methods.bpo import DEVIATION_GUARD

WEIGHT = {"eps": "epsilon", "cap": "cap", "eps_low": "low", "eps_high": "high"}


def bpo(params):
    """BPO under our names; the vectors let a group of one pass."""
    params = dict(params)
    assert params.pop("adv_eps", DEVIATION_GUARD) == DEVIATION_GUARD
    assert params.pop("ddof", 1) == 1
    scaled = params.pop("scale", True)
    weight = {WEIGHT[name]: value for name, value in params.items()}
    return BPO(scaled=scaled, singleton="zero", correction={"name": "bpo_weight", **weight})


NUM_CASES = {
    ("default", torch.float64): 240,
    ("default", torch.float32): 240,
    ("dapo_bounds", torch.float64): 60,
    ("dapo_bounds", torch.float32): 60,
}
"""How many there are, the fragile ones left out below float64."""


def compare(update, expect, dtype, what):
    """Coefficients, loss, trust and dropped share."""
    assert update.coefficients.dtype == dtype
    assert_close(update.coefficients.tolist(), flat(expect.get("c") or expect["coefficients"]), dtype, what)
    assert_close([update.loss(update.batch.logprobs).item()], [expect["loss"]], dtype, what)
    assert update.in_trust.tolist() == [bool(admitted) for admitted in expect["admitted"]], what
    ours = [update.stats["dropped_token_share"], update.stats["in_trust_share"]]
    theirs = [expect["stats"][name] for name in ("dropped_token_share", "admitted_share")]
    assert_close(ours, theirs, dtype, what)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("setting", read("bpo")["settings"])
def test_bpo_equals_its_vectors(setting, dtype):
    """Coefficients, loss, trust and advantages of all cases of a setting."""
    method, seen = bpo(read("bpo")["settings"][setting]), 0
    for name, rows, expect in cases("bpo", setting, dtype):
        update = method.update(Batch.from_rows(rows, dtype=dtype))
        compare(update, expect, dtype, name)
        first = [trace.advantages for trace in update.per_trace()]
        acted = [row["action_mask"].index(1) for row in rows]
        assert_close([own[at] for own, at in zip(first, acted, strict=True)], expect["A"], dtype, name)
        seen += 1
    assert seen == NUM_CASES[setting, dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", edge_cases("bpo"))
def test_bpo_answers_its_edge_cases(name, dtype):
    """A group of one, the cap, the largest weight, the mask below 1, tokens rare under both policies."""
    case = edge_cases("bpo")[name]
    update = bpo(case["params"]).update(Batch.from_rows(case["rows"], dtype=dtype))
    compare(update, case["expect"], dtype, name)
    assert_close(update.advantages.tolist(), flat(case["expect"]["advantages"]), dtype, name)


def test_the_edge_cases_are_all_run():
    """Five of them."""
    assert len(edge_cases("bpo")) == 5
