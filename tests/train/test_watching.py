"""What is told of an update, whatever its method."""

import math
from datetime import UTC, datetime

import pytest
import torch

from schemas.update import UPDATES
from train.batch import Batch
from train.methods import KLPO, SAO, FlashReinforce
from train.watching import common_figures, progress_line, update_row

NOW = datetime(2026, 12, 1, tzinfo=UTC)
FIGURES = {
    "update": 3,
    "moved": True,
    "num_in_trust": 3,
    "num_traces": 4,
    "loss": -0.1234,
    "grad_norm": 2.5,
    "learning_rate": 1e-5,
    "mean_entropy": 0.5,
    "mean_surprise": 0.4,
    "mean_drift": 0.00123,
    "masked_token_share": 0.25,
    "num_tokens": 200,
    "num_slots": 50,
    "tokens_per_second": 1234.5,
    "mfu": 0.31,
    "is_critic_warming_up": False,
    "account": "in words",
}


def row(**changes):
    """The row of these figures."""
    return update_row(3, FIGURES | changes, run_id="r", method="sao", replayed_at=NOW)


def batch(logprobs, behavior):
    """Two traces of two action tokens each, behind a token of the prompt whose numbers are NaN."""
    rows = [
        {
            "reward": float(number),
            "logprobs": [math.nan, *logprobs[number]],
            "behavior_logprobs": [math.nan, *behavior[number]],
            "action_mask": [False, True, True],
            "values": [math.nan, 0.5, 0.5],
        }
        for number in range(2)
    ]
    return Batch.from_rows(rows, dtype=torch.float64)


def test_equal_policies_have_no_drift_and_lose_no_token():
    """Surprise is minus the mean of what was logged: (1 + 2 + 3 + 4) / 4."""
    same = [[-1.0, -2.0], [-3.0, -4.0]]
    figures = common_figures(FlashReinforce().update(batch(same, same)))
    assert figures == {"mean_drift": 0.0, "masked_token_share": 0.0, "mean_surprise": 2.5}


def test_drift_is_the_mean_over_traces_of_the_mean_over_tokens():
    """One of two traces moved from 1/2 to 1/4 on both tokens: 1/2 ln 2 + 1/2 ln (2/3), halved."""
    half, quarter = math.log(0.5), math.log(0.25)
    made = SAO(band=(0.1, 10.0)).update(batch([[half, half], [quarter, quarter]], [[half, half]] * 2))
    assert common_figures(made)["mean_drift"] == pytest.approx((0.5 * math.log(2) + 0.5 * math.log(2 / 3)) / 2)


def test_masked_tokens_are_counted_among_action_tokens():
    """A trace over the trust loses both of its tokens, two of four; one over SAO's band loses one."""
    moved = batch([[-1.0, -1.0], [-1.0, -3.0]], [[-1.0, -1.0]] * 2)
    assert common_figures(FlashReinforce(trust=0.003).update(moved))["masked_token_share"] == 0.5
    assert common_figures(SAO(band=(0.5, 2.0)).update(moved))["masked_token_share"] == 0.25


def test_a_token_without_advantage_is_not_masked():
    """Equal rewards make every coefficient 0, and the method gave every token its weight."""
    same = [[-1.0, -2.0], [-3.0, -4.0]]
    made = FlashReinforce().update(batch(same, same))
    equal = Batch.from_rows([{"reward": 1.0, "logprobs": [-1.0], "behavior_logprobs": [-1.0]}] * 2)
    assert not FlashReinforce().update(equal).moves
    assert common_figures(FlashReinforce().update(equal))["masked_token_share"] == 0.0
    assert made.moves


def test_a_method_that_weighs_no_token_masks_none_that_could_be_counted():
    """KLPO has no weights: the share is no number, and the row says null."""
    same = [[-1.0, -2.0], [-3.0, -4.0]]
    figures = common_figures(KLPO(centering="binary").update(batch(same, same)))
    assert math.isnan(figures["masked_token_share"])
    assert row(**figures)["masked_token_share"] is None


def test_a_row_has_every_column_of_the_table():
    """In order, and nothing else, such as the account in words."""
    made = row()
    assert list(made) == [column.name for column in UPDATES.columns]
    assert (made["run_id"], made["step"], made["method"], made["replayed_at"]) == ("r", 3, "sao", NOW)
    assert (made["in_trust_share"], made["loss"], made["mfu"]) == (0.75, -0.1234, 0.31)


def test_what_a_warm_up_does_not_have_is_null():
    """No trace was in trust because none was asked: the share is unknown, not 0."""
    made = row(is_critic_warming_up=True, moved=False, num_in_trust=0, loss=math.nan, grad_norm=0.0)
    assert (made["in_trust_share"], made["loss"], made["grad_norm"]) == (None, None, None)
    assert made["num_in_trust"] == 0


def test_an_older_figures_line_without_a_critic_or_a_peak_makes_a_row():
    """Metrics of a version before this table lack some names."""
    old = {name: FIGURES[name] for name in FIGURES if name not in {"mfu", "mean_drift", "is_critic_warming_up"}}
    made = update_row(0, old, run_id="r", method="sao", replayed_at=NOW)
    assert (made["mfu"], made["mean_drift"], made["is_critic_warming_up"]) == (None, None, False)


def test_a_row_goes_into_the_lake(lake):
    """Its nulls are where the table has room for them, of a warm-up too."""
    waits = row(is_critic_warming_up=True, moved=False, num_in_trust=0, loss=math.nan) | {"step": 0}
    with lake.transaction() as transaction:
        transaction.append("updates", [waits, row()])
    assert lake.read("updates", order_by=["step"])["loss"].to_pylist() == [None, -0.1234]


def test_the_progress_line_tells_all_of_an_update():
    """Loss, drift, trust, masked tokens, gradient, speed, use of the device."""
    assert progress_line(FIGURES) == (
        "loss -0.123, drift 0.00123, 3/4 in trust, masked 25%, gradient 2.5, 1,234 tokens/s, MFU 31%"
    )


def test_the_progress_line_leaves_out_what_is_not_there():
    """A warm-up has no loss; a method without ratios no drift; a device of unknown peak no MFU."""
    changes = {"moved": False, "is_critic_warming_up": True, "loss": math.nan, "mfu": None, "mean_drift": math.nan}
    said = progress_line(FIGURES | changes | {"critic_explained_variance": 0.125})
    assert said == "the critic warms up, masked 25%, explained 0.125, 1,234 tokens/s"
