"""The recording in which every ask was tried several times."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from flows.settings import load_settings
from ingest.assemble import assemble
from ingest.land import land_calls, land_outcomes
from schemas.errors import UsageError
from tests.train.logged import NOW
from train.plan import Admitted, make_plan
from warehouse.lake import Lake

pytestmark = pytest.mark.soak

EXAMPLES = Path(__file__).parents[2] / "examples"
RECORDING = EXAMPLES / "refund_groups"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A lake that has read the recording, and what landing its calls and outcomes came to."""
    settings = load_settings(RECORDING / "tracemill.toml")
    about = {"settings": settings.logs, "now": NOW}
    with Lake.create(tmp_path_factory.mktemp("recording") / "lake") as lake:
        calls = land_calls(lake, settings.logs.paths, deployments=settings.deployments, **about)
        outcomes = land_outcomes(lake, settings.logs.outcomes, **about)
        assemble(lake, deployments=settings.deployments, **about)
        yield lake, calls, outcomes


@pytest.fixture(scope="module")
def admitted(recording):
    """Every trace with its ask and the checker's verdict, as a gate that lets all through would have it."""
    lake, _, _ = recording
    with (RECORDING / "outcomes.csv").open() as file:
        rewards = {row["trace_id"]: float(row["value"]) for row in csv.DictReader(file)}
    rows = lake.read("current_traces", columns=["trace_id", "ask_id"]).to_pylist()
    asks = {row["trace_id"]: row["ask_id"] for row in rows}
    return [Admitted(trace, 0, rewards[trace], ask) for trace, ask in asks.items()]


def plan_of(admitted):
    """The plan of a method that compares the tries of an ask."""
    about = {"batch_size": 32, "max_updates": 64, "seed": 0, "parent": "v109", "settings_sha256": "s"}
    about["began_at"] = "2026-11-29T00:00:00+00:00"
    return make_plan(admitted, by_ask=True, **about)


def test_every_line_of_the_recording_lands(recording):
    """768 traces of two calls and one verdict each; nothing is rejected."""
    _, calls, outcomes = recording
    assert (calls.num_landed, calls.num_rejects) == (1536, 0)
    assert (outcomes.num_landed, outcomes.num_rejects) == (768, 0)


def test_every_trace_has_token_ids_and_logprobs_of_both_calls(recording):
    """A fork makes a second sequence, and never loses a call."""
    lake, _, _ = recording
    rows = lake.read("current_traces", columns=["trace_id", "token_logprobs", "action_mask"]).to_pylist()
    assert len({row["trace_id"] for row in rows}) == 768
    assert all(
        (logprob is not None) == is_action
        for row in rows
        for logprob, is_action in zip(row["token_logprobs"], row["action_mask"], strict=True)
    )


def test_every_ask_was_tried_four_times_and_half_of_them_disagree(admitted):
    """192 asks; where all tries agree there is nothing to compare."""
    passed = dict.fromkeys((trace.ask_id for trace in admitted), 0)
    for trace in admitted:
        passed[trace.ask_id] += int(trace.reward)
    assert Counter(trace.ask_id for trace in admitted) == dict.fromkeys(passed, 4)
    assert Counter(passed.values()) == {0: 34, 1: 28, 2: 30, 3: 41, 4: 59}


def test_a_method_that_compares_tries_gets_24_updates_of_whole_asks(admitted):
    """Eight asks to an update of 32, and no ask in two of them."""
    plan = plan_of(admitted)
    tries = [Counter(trace.ask_id for trace in batch) for batch in plan.batches]
    assert len(tries) == 24
    assert all(set(one.values()) == {4} and len(one) == 8 for one in tries)


def test_the_same_method_is_refused_one_try_of_each_ask(admitted):
    """As in examples/refund_desk: a trace that is alone with its ask has nothing to be compared with."""
    first = {trace.ask_id: trace for trace in admitted}
    with pytest.raises(UsageError, match="each alone with its ask"):
        plan_of(first.values())
