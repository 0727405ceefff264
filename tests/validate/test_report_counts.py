"""Counts that do not add up are refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import LakeError
from tests.validate.report_night import night_report, waterfall
from validate.report.counts import LineCounts
from validate.report.evidence import Coverage
from validate.report.scores import RewardLedger

_few = st.integers(0, 9)


@given(_few, _few, _few, _few, st.integers(-3, 3))
def test_lines_are_accepted_only_when_each_ended_in_one_state(landed, twice, bad, blank, error):
    """Any surplus or lack of lines is refused, whatever the states hold."""
    states = {"num_landed": landed, "num_duplicates": twice, "num_rejects": bad, "num_blank": blank}
    total = landed + twice + bad + blank
    if error:
        with pytest.raises(LakeError, match="do not add up"):
            LineCounts(num_lines=total + error, **states)
    else:
        assert LineCounts(num_lines=total, **states).num_lines == total


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("num_lines_with_calls", 1595, "landed lines"),
        ("num_traces", 801, "traces"),
        ("num_judged", 799, "traces"),
        ("num_admitted", 147, "after the last stage"),
        ("num_trained", 149, "admitted traces"),
    ],
)
def test_a_waterfall_that_loses_or_invents_one_is_refused(field, value, what):
    """One line or trace too many or too few at any step is enough."""
    with pytest.raises(LakeError, match=what):
        replace(waterfall(), **{field: value})


def test_a_stage_that_loses_a_trace_is_refused():
    """What enters a stage leaves it: kept out, waiting or going on."""
    stages = list(waterfall().stages)
    stages[3] = replace(stages[3], num_pending=stages[3].num_pending + 1)
    with pytest.raises(LakeError, match="traces at 'reward'"):
        replace(waterfall(), stages=tuple(stages))


def test_the_message_says_both_numbers_and_what_to_do():
    """A refusal can be acted on."""
    with pytest.raises(LakeError, match=r"3 went in and 1 \+ 1 \+ 0 \+ 0 = 2 are accounted for.*tracemill doctor"):
        LineCounts(num_lines=3, num_landed=1, num_duplicates=1, num_rejects=0, num_blank=0)


def test_sections_that_disagree_about_the_number_of_traces_are_refused():
    """A reason that covers one trace less than was kept out is a trace that vanished."""
    report = night_report()
    fewer = replace(report.quarantine.traces[0], num_traces=244)
    with pytest.raises(LakeError, match="reasons of traces that were not admitted"):
        replace(report, quarantine=replace(report.quarantine, traces=(fewer, *report.quarantine.traces[1:])))


def test_a_reward_in_no_place_is_refused():
    """Every trace's reward is mature, immature, pending, missing or refused."""
    with pytest.raises(LakeError, match="rewards"):
        RewardLedger(num_traces=5, num_mature=1, num_pending=1, num_immature=1, num_missing=1, num_refused=0)


def test_more_usable_than_aligned_traces_are_refused():
    """A coverage above its whole is a bug, not a good night."""
    with pytest.raises(LakeError, match="aligned traces of 'v1'"):
        Coverage(label="v1", num_traces=9, num_present=8, num_aligned=3, num_usable=4)
