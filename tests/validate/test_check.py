"""How a reading becomes a finding, and what the catalog promises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import SettingsError
from schemas.reasons import REASONS
from validate.catalog import CATALOG, MEASURES, check_bounds, measure
from validate.check import SECTIONS, Bounds, Estimate, Measure, Reading, compare, compare_all, subject_order, unmeasured
from validate.waterfall import REASON_ORDER

BELOW = Measure(
    name="share",
    section="logprobs",
    title="Share",
    unit="share",
    meaning="A share.",
    subjects="all",
    fix="Mend it.",
    comparison="below",
    bounds=Bounds(stop=0.5, warn=0.9),
)


def found(value, measure=BELOW, *, lower=None, upper=None, subject="all", advisory=False):
    """The finding of one value under the bounds of a measure."""
    reading = Reading(
        name=measure.name,
        estimate=Estimate(value, lower, upper, 10),
        sentence="so much",
        subject=subject,
        advisory=advisory,
    )
    return compare(reading, measure, measure.bounds)


def changed(**changes):
    """The measure with some fields changed."""
    names = (field for field in Measure.__dataclass_fields__)
    return Measure(**({name: getattr(BELOW, name) for name in names} | changes))


@pytest.mark.parametrize(
    ("value", "status", "threshold"),
    [(0.4, "stop", 0.5), (0.5, "warn", 0.9), (0.8, "warn", 0.9), (0.9, "ok", 0.9), (1.0, "ok", 0.9)],
)
def test_the_gravest_bound_that_is_crossed_counts(value, status, threshold):
    """Below 0.5 stops, below 0.9 warns; a value on its bound is on the good side."""
    finding = found(value)
    assert (finding.status, finding.threshold, finding.comparison) == (status, threshold, "below")


def test_above_is_the_other_side():
    """A measure that is bad above its bound."""
    above = changed(comparison="above", bounds=Bounds(hold=0.5))
    assert found(0.6, above).status == "hold"
    assert found(0.5, above).status == "ok"


def test_a_reading_for_information_is_never_bad():
    """Without a bad side there is no threshold."""
    finding = found(0.0, changed(comparison=None))
    assert (finding.status, finding.severity, finding.threshold) == ("ok", "info", None)


def test_the_lower_end_is_compared_where_the_measure_says_so():
    """The share is good, its lower end is not."""
    assert found(0.95, changed(compared="lower"), lower=0.85, upper=0.99).status == "warn"


def test_a_magnitude_is_bad_on_both_sides_and_only_when_it_is_significant():
    """-0.2 with an interval that leaves out zero is bad; with one that covers it, it is not."""
    gap = changed(comparison="above", compared="magnitude", significant=True, bounds=Bounds(warn=0.1))
    assert found(-0.2, gap, lower=-0.3, upper=-0.1).status == "warn"
    assert found(-0.2, gap, lower=-0.5, upper=0.1).status == "ok"
    assert found(-0.2, gap).status == "ok"


def test_only_the_whole_night_is_bounded_unless_each_subject_is():
    """A bad share of one version is for information."""
    assert found(0.1, subject="version:v1").status == "ok"
    assert found(0.1, changed(bounded="each"), subject="version:v1").status == "stop"


def test_an_advisory_reading_warns_at_most():
    """What training does not rest on cannot stop it."""
    finding = found(0.1, advisory=True)
    assert (finding.status, finding.severity) == ("warn", "warn")


def test_what_was_not_measured_is_never_ok_and_says_why():
    """No value, no threshold, the reason in the sentence, the gravity of the measure."""
    grave = changed(unmeasured="hold")
    finding = compare(unmeasured("share", "nobody looked"), grave, grave.bounds)
    assert (finding.status, finding.severity, finding.value) == ("not_measured", "hold", None)
    assert (finding.sentence, finding.threshold) == ("nobody looked", None)


@given(st.floats(allow_nan=False), st.booleans())
def test_any_value_gives_a_status_that_is_as_grave_as_its_severity(value, advisory):
    """A crossed bound shows the same word as status and severity; else the status is ok."""
    finding = found(value, advisory=advisory)
    assert finding.status in {"ok", finding.severity}


def test_overrides_replace_all_steps_of_a_measure():
    """A warning alone leaves no bound that stops."""
    reading = Reading(name="share", estimate=Estimate(0.1), sentence="")
    finding, *_ = compare_all([reading], {"share": BELOW}, {"share": Bounds(warn=0.9)})
    assert finding.status == "warn"


def test_subjects_are_ordered_as_a_reader_counts():
    """All first, then numbers by size."""
    subjects = ["version:v10", "hours:12", "version:v9", "all", "hours:3"]
    assert sorted(subjects, key=subject_order) == ["all", "hours:3", "hours:12", "version:v9", "version:v10"]


def test_the_catalog_names_each_measure_once_and_in_order():
    """Names are unique, sections are known and in the order of the report."""
    assert len(MEASURES) == len(CATALOG)
    positions = [SECTIONS.index(entry.section) for entry in CATALOG]
    assert positions == sorted(positions)


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.name)
def test_every_bound_has_a_bad_side_and_a_source(entry):
    """A number without a father is refused in review and here; every measure says what to do."""
    assert entry.title
    assert entry.meaning.endswith(".")
    assert entry.fix.endswith((".", "?"))
    steps = [step for step in (entry.bounds.stop, entry.bounds.hold, entry.bounds.warn) if step is not None]
    assert bool(steps) == (entry.comparison is not None) == bool(entry.source)
    assert steps == sorted(steps, reverse=entry.comparison == "above"), "stop lies beyond hold, hold beyond warn"


def test_bounds_of_nothing_are_refused():
    """A name that no measure has, and a measure without a bad side."""
    with pytest.raises(SettingsError, match="no such measure"):
        check_bounds({"nonsense": Bounds(stop=1.0)})
    with pytest.raises(SettingsError, match="for information"):
        check_bounds({"judge_ac1": Bounds(stop=1.0)})
    with pytest.raises(KeyError, match="catalog"):
        measure("nonsense")


def test_the_gate_knows_every_reason_that_a_trace_can_have():
    """Each reason of a trace has a place in the order; text for a judge is looked for elsewhere."""
    known = {code for code, reason in REASONS.items() if reason.scope in {"trace", "pending"}}
    assert known - {"judge_directed_text"} == set(REASON_ORDER)
    assert len(REASON_ORDER) == len(set(REASON_ORDER))


def test_every_fault_of_a_trace_has_its_stage():
    """A reason that no stage knows would let its traces through; one is the judge scan's, which finds it later."""
    faults = {code for code, reason in REASONS.items() if reason.scope == "trace"}
    assert faults - set(REASON_ORDER) == {"judge_directed_text"}
