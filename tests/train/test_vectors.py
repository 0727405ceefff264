"""The shared vectors: every case of every method, in float64 and in float32."""

import pytest
import torch

from schemas.errors import BatchError, TrainingError
from tests.train.shared_vectors import DTYPES, assert_close, cases, edge_cases, flat, read
from train.batch import Batch
from train.methods import FlashReinforce

FLASH_STATS = {
    "batch_mean_reward": "batch_mean_reward",
    "admitted_share": "in_trust_share",
    "mean_sequence_kl": "mean_drift",
    "max_sequence_kl": "max_drift",
    "mean_ratio": "mean_ratio",
    "clamped_tokens": "num_clamped_tokens",
    "retained_tokens": "num_retained_tokens",
}


def flash(params):
    """The method under the option names of the vectors."""
    names = {"delta": "trust"}
    return FlashReinforce(**{names.get(name, name): value for name, value in params.items()})


def literal_loss(update):
    """The loss with the coefficients held constant, as one float."""
    return float(update.loss(update.batch.logprobs))


def compare_stats(update, expected, names, dtype, what):
    """The figures of the update against those of the vectors, under our names."""
    assert_close([update.stats[names[name]] for name in expected], list(expected.values()), dtype, f"{what} stats")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("setting", ["default", "loose", "open"])
def test_flash_reinforce_equals_its_vectors(setting, dtype):
    """Coefficients, loss, gate and figures of all 400 cases."""
    method = flash(read("flash_reinforce")["settings"][setting])
    num_cases = 0
    for name, rows, expect in cases("flash_reinforce", setting, dtype):
        update = method.update(Batch.from_rows(rows, dtype=dtype))
        assert update.coefficients.dtype == dtype
        assert_close(update.coefficients.tolist(), flat(expect["c"]), dtype, name)
        assert_close([literal_loss(update)], [expect["loss"]], dtype, name)
        assert update.in_trust.tolist() == [bool(admitted) for admitted in expect["admitted"]], name
        compare_stats(update, expect["stats"], FLASH_STATS, dtype, name)
        num_cases += 1
    assert num_cases == {"default": 240, "loose": 80, "open": 80}[setting]


FLASH_EDGES = edge_cases("flash_reinforce")
FLASH_ANSWERED = [name for name, case in FLASH_EDGES.items() if "expect" in case]
FLASH_REFUSED = [name for name, case in FLASH_EDGES.items() if "error" in case]


def test_the_flash_edge_cases_are_all_run():
    """22 cases, each either answered or refused."""
    assert (len(FLASH_ANSWERED), len(FLASH_REFUSED)) == (16, 6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FLASH_ANSWERED)
def test_flash_reinforce_answers_its_edge_cases(name, dtype):
    """Coefficients, advantages, gate, drift and figures of each named case."""
    case = FLASH_EDGES[name]
    if name == "flash_gate_equal" and dtype == torch.float32:
        pytest.skip("the gate stands exactly on the drift, which float32 logprobs move")
    params = {key: value for key, value in case["params"].items() if key != "on_missing"}
    rows = case["rows"]
    if "on_missing" in case["params"]:  # We have no such option: who wants it writes the numbers into the row.
        rows = [{"behavior_logprobs": row["logprobs"], **row} for row in rows]
    update, expect = flash(params).update(Batch.from_rows(rows, dtype=dtype)), case["expect"]
    assert_close(update.coefficients.tolist(), flat(expect["coefficients"]), dtype, name)
    assert_close(update.advantages.tolist(), flat(expect["advantages"]), dtype, name)
    assert_close(update.drift.tolist(), expect["sequence_kl"], dtype, name)
    assert_close([literal_loss(update)], [expect["loss"]], dtype, name)
    assert update.in_trust.tolist() == expect["admitted"]
    compare_stats(update, expect["stats"], FLASH_STATS, dtype, name)


@pytest.mark.parametrize("name", FLASH_REFUSED)
def test_flash_reinforce_refuses_its_edge_cases(name):
    """A batch that the reference refuses is refused, an overflow as a failure of training."""
    case = FLASH_EDGES[name]
    error = {"BatchError": BatchError, "OverflowError": TrainingError}[case["error"]]
    with pytest.raises(error, match="trace 0"):
        flash(case["params"]).update(Batch.from_rows(case["rows"], dtype=torch.float64))


def test_a_missing_behavior_logprob_is_never_taken_as_on_policy():
    """Where the reference has an opt-in we have none: the trace is refused."""
    rows = FLASH_EDGES["flash_missing_behavior_on_policy"]["rows"]
    with pytest.raises(BatchError, match="trace 0: no behavior_logprobs"):
        FlashReinforce().update(Batch.from_rows(rows))
