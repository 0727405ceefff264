"""One decision from many findings, and one sentence that says why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validate.catalog import MEASURES
from validate.check import Bounds, Estimate, Finding, Reading, compare
from validate.decision import decide_night
from validate.waterfall import StageCount

STAGES = (StageCount("reward", "has a mature reward", 300, 40, 0, {"reward_missing": 40}),)


def finding(name="usable_logprob_share", status="ok", severity="stop", **changes):
    """A finding of 150 usable traces among 300."""
    row = {
        "section": "logprobs",
        "name": name,
        "subject": "all",
        "value": 0.5,
        "lower": None,
        "upper": None,
        "num_observations": 300,
        "threshold": 0.8,
        "comparison": "below",
        "severity": severity,
        "status": status,
        "unit": "share",
        "sentence": "150 of 300 traces are usable",
        "fix": "Turn it on.",
    }
    return Finding(**(row | changes))


def decide(*findings, num_admitted=260, min_admitted=200):
    """The decision over a night of 300 traces."""
    return decide_night(findings, STAGES, num_admitted=num_admitted, min_admitted=min_admitted)


def test_nothing_wrong_is_go():
    """Enough traces, no finding that stops or holds; a warning is said."""
    assert decide(finding()) == ("go", "260 of 300 traces are admitted; nothing stops or holds, nothing warns.")
    assert decide(finding(status="warn"))[1].endswith("one check warns.")


def test_a_stop_is_no_go_and_says_what_would_change_it():
    """The figures, the bound, and the fix."""
    decision, sentence = decide(finding(status="stop"))
    assert decision == "no_go"
    assert sentence == ("Usable for ratio methods is 0.5, below 0.8: 150 of 300 traces are usable. Turn it on.")


def test_too_few_traces_are_skipped_and_say_where_they_left():
    """The reason that took most, with its fix; too few alone is no NO-GO."""
    decision, sentence = decide(finding("admitted_traces", "stop"), num_admitted=12)
    assert decision == "skipped"
    assert "12 traces are admitted, 200 are needed; most, 40, left at reward" in sentence


def test_a_stop_counts_before_too_few():
    """Bad data is told before little data."""
    assert decide(finding(status="stop"), num_admitted=0)[0] == "no_go"


def test_too_few_traces_with_nothing_kept_out_ask_for_more():
    """An empty night has no reason to name."""
    stages = (StageCount("structure", "is whole", 0, 0, 0, {}),)
    decision, sentence = decide_night([], stages, num_admitted=0, min_admitted=1)
    assert decision == "skipped"
    assert "Ingest more logs" in sentence


@pytest.mark.parametrize("grave", ["hold", "stop"])
def test_what_promotion_rests_on_and_was_not_measured_holds(grave):
    """NOT MEASURED is never green; for information it holds nothing."""
    missing = {"status": "not_measured", "value": None, "threshold": None, "sentence": "nobody looked"}
    decision, sentence = decide(finding(severity=grave, **missing))
    assert decision == "hold"
    assert sentence == "Usable for ratio methods is not measured: nobody looked. Turn it on."
    assert decide(finding(severity="info", **missing))[0] == "go"


@given(st.permutations(["ok", "warn", "hold", "stop", "not_measured"]), st.integers(0, 5))
def test_any_order_of_findings_gives_the_gravest_decision(statuses, number):
    """The first few of a shuffled list: a stop wins over a hold, a hold over a warning."""
    chosen = statuses[:number]
    expected = "no_go" if "stop" in chosen else "hold" if {"hold", "not_measured"} & set(chosen) else "go"
    findings = [finding(status=status, severity="hold") for status in chosen]
    assert decide(*findings)[0] == expected


def test_too_few_admitted_traces_are_a_finding_too():
    """The report shows the bound that skipped the night."""
    reading = Reading(name="admitted_traces", estimate=Estimate(12.0, num_observations=300), sentence="12 of 300")
    found = compare(reading, MEASURES["admitted_traces"], Bounds(stop=200.0, warn=1000.0))
    assert (found.status, found.threshold) == ("stop", 200.0)
