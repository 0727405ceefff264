"""The judge against people: who is counted, what is measured, and what is refused."""

import numpy as np
import pytest

from tests.validate.hand_made import AS_OF, AS_OF_US, outcome, outcomes, sequence, traces
from tests.warehouse.rows import outcome as event
from validate.catalog import MEASURES
from validate.check import compare_all
from validate.judge import JudgeSettings, opinions_of, scan_judge
from warehouse.lake import Lake

SETTINGS = JudgeSettings(name="ok")


def said(trace_id, value, kind="judge", source="j", **changes):
    """What a judge or a person said of a trace."""
    return outcome(trace_id, value, name="ok", source_kind=kind, source=source, **changes)


def opinions(rows, ids, settings=SETTINGS):
    """What was said of these traces."""
    seen = traces(*(sequence(name) for name in ids))
    return opinions_of(seen, outcomes(*rows), settings, window=np.ones(seen.num_traces, bool))


def scan(rows, ids, *, lengths=None, is_reward=True, settings=SETTINGS):
    """The findings of the judge scan by name and subject."""
    readings = scan_judge(
        opinions(rows, ids, settings),
        np.ones(len(ids)) if lengths is None else np.array(lengths, float),
        settings,
        is_reward=is_reward,
        as_of_us=AS_OF_US,
    )
    return {(found.name, found.subject): found for found in compare_all(readings, MEASURES, {})}


def table(true_pass, false_pass, false_fail, true_fail):
    """Outcomes and ids of as many labelled traces."""
    cells = [(1, 1)] * true_pass + [(1, 0)] * false_pass + [(0, 1)] * false_fail + [(0, 0)] * true_fail
    ids = [f"t{index:03}" for index in range(len(cells))]
    rows = [said(name, judge) for name, (judge, _) in zip(ids, cells, strict=True)]
    return rows + [said(name, label, "human", "r") for name, (_, label) in zip(ids, cells, strict=True)], ids


def test_rates_are_counted_from_the_table():
    """36 of 40 good pass, 40 of 50 bad fail: TPR 0.9, TNR 0.8, together 1.7, agreement 76 / 90."""
    found = scan(*table(36, 10, 4, 40))
    names = ("judge_tpr", "judge_tnr", "judge_informedness", "judge_accuracy", "judge_labels", "judge_pass_rate")
    values = [found[name, "all"].value for name in names]
    assert values == pytest.approx([0.9, 0.8, 1.7, 76 / 90, 90, 46 / 90], abs=1e-12)
    # The judge passed 46 of 90: (46/90 + 0.8 - 1) / 0.7
    assert found["judge_corrected_pass_rate", "all"].value == pytest.approx((46 / 90 - 0.2) / 0.7, abs=1e-12)


def test_the_lower_end_of_the_agreement_is_compared():
    """76 of 90 is 0.84, above the floor of 0.80; its lower end, 0.756, is not."""
    accuracy = scan(*table(36, 10, 4, 40))["judge_accuracy", "all"]
    assert accuracy.lower == pytest.approx(0.7558, abs=1e-3)
    assert accuracy.status == "warn"


def test_a_judge_that_guesses_stops_training_on_it():
    """TPR and TNR of one half add up to 1."""
    found = scan(*table(20, 20, 20, 20))
    assert found["judge_informedness", "all"].status == "stop"
    assert found["judge_corrected_pass_rate", "all"].status == "not_measured"


def test_a_judge_that_gives_no_reward_warns_at_most():
    """The same table does not stop a night whose rewards come from a program."""
    found = scan(*table(20, 20, 20, 20), is_reward=False)
    assert found["judge_informedness", "all"].status == "warn"
    assert {finding.severity for finding in found.values()} <= {"warn", "info"}


@pytest.mark.parametrize(
    ("rows", "settings", "why"),
    [
        ([], JudgeSettings(), "no judge is named"),
        ([], SETTINGS, "no outcome named ok from a judge"),
        ([said("a", 1)], SETTINGS, "no human outcome named ok"),
        ([said("a", 1, "human", "r")], SETTINGS, "no outcome named ok from a judge"),
    ],
)
def test_without_labels_nothing_is_measured_and_nothing_is_green(rows, settings, why):
    """Each reading that needs labels says why it is missing."""
    found = scan(rows, ["a"], settings=settings)
    needs_labels = [finding for (name, _), finding in found.items() if name != "judge_pass_rate"]
    assert {finding.status for finding in needs_labels} == {"not_measured"}
    assert all(why in finding.sentence for finding in needs_labels)
    assert found["judge_labels", "all"].severity == "hold"


def test_labels_of_one_class_give_no_rate_of_the_other():
    """With good traces alone, TNR and all that rests on it are not measured."""
    found = scan(*table(8, 0, 2, 0))
    assert found["judge_tpr", "all"].value == 0.8
    names = ("judge_tnr", "judge_informedness", "judge_corrected_pass_rate")
    assert {found[name, "all"].status for name in names} == {"not_measured"}


def test_the_majority_of_people_counts_and_a_tie_for_nobody():
    """Two of three pass a; b is split; c has no judge."""
    rows = [said("a", 0), said("b", 1)]
    rows += [said("a", value, "human", f"r{number}") for number, value in enumerate([1, 1, 0])]
    rows += [said("b", 1, "human", "r0"), said("b", 0, "human", "r1"), said("c", 1, "human", "r0")]
    found = opinions(rows, ["a", "b", "c"])
    assert (found.confusion().false_fail, found.confusion().num_labels, found.num_ties) == (1, 1, 1)


def test_a_withdrawn_label_is_no_label():
    """A label revised to none leaves the trace without one."""
    assert opinions([said("a", 1), said("a", None, "human", "r")], ["a"]).confusion().num_labels == 0


def test_length_bias_is_a_gap_within_one_label():
    """Of 40 bad traces the judge passes 18 of 20 long ones and 2 of 20 short ones: 0.8."""
    rows, ids, lengths = [], [], []
    for index in range(40):
        name, is_long = f"t{index:02}", index < 20
        passes = index < 18 or index in (20, 21)
        rows += [said(name, float(passes)), said(name, 0, "human", "r")]
        ids.append(name)
        lengths.append(100 if is_long else 10)
    gap = scan(rows, ids, lengths=lengths)["judge_length_gap", "label:0"]
    assert gap.value == pytest.approx(0.8, abs=1e-12)
    assert gap.status == "warn"


def test_length_bias_needs_six_of_each():
    """Five long traces are too few to say anything."""
    rows = [row for index in range(11) for row in (said(f"t{index:02}", 1), said(f"t{index:02}", 1, "human", "r"))]
    lengths = [100] * 5 + [10] * 6
    found = scan(rows, [f"t{index:02}" for index in range(11)], lengths=lengths)
    assert found["judge_length_gap", "label:1"].status == "not_measured"


def test_the_age_of_the_newest_label_is_in_days():
    """Given 40 hours and 60 hours before the clock: 40 / 24 days."""
    rows = [said("a", 1), said("a", 1, "human", "r", hours=40.0), said("b", 1), said("b", 1, "human", "r", hours=60.0)]
    assert scan(rows, ["a", "b"])["judge_label_age", "all"].value == pytest.approx(40 / 24, abs=1e-9)


def test_the_saved_question_and_the_gate_pass_the_same_scores(tmp_path):
    """A score of just 0.5 passes in both: TPR 2/3, TNR 2/3, kappa (4/6 - 1/2) / (1/2)."""
    pairs = [(0.5, 1.0), (1.0, 0.5), (0.5, 0.0), (0.0, 0.5), (0.0, 0.0), (0.25, 0.0)]
    ids = [f"t{index}" for index in range(len(pairs))]
    kinds = (("judge", "j"), ("human", "r"))
    rows = [
        event(f"{source}-{name}", name, value, name="ok", source_kind=kind, source=source)
        for name, values in zip(ids, pairs, strict=True)
        for value, (kind, source) in zip(values, kinds, strict=True)
    ]
    with Lake.create(tmp_path / "lake") as lake:
        with lake.transaction() as transaction:
            transaction.append("outcomes", rows)
        (asked,) = lake.query("judge_agreement").to_pylist()
        tables = {"events": lake.read("joined_outcomes"), "shared": lake.read("shared_keys")}
        known = lake.query("validate/outcomes_as_of", tables, as_of=AS_OF)
    found = scan(known.to_pylist(), ids)
    for name in ("tpr", "tnr", "kappa"):
        expected = pytest.approx({"tpr": 2 / 3, "tnr": 2 / 3, "kappa": 1 / 3}[name], abs=1e-12)
        assert (asked[name], found[f"judge_{name}", "all"].value) == (expected, expected)
