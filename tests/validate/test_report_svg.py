"""The figures: where a number lands, and that what a figure says is text."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validate.report import charts, svg
from validate.report.charts import Axis, Marker
from validate.report.evidence import Curve, Estimate

_UNIT = Axis(label="share", ticks=(0.0, 0.5, 1.0), show=str)
_DECADES = Axis(label="trust", ticks=(1e-6, 1e-3, 1.0), show=str, is_log=True)


def parsed(drawing):
    """The drawing as a tree of elements."""
    return ET.fromstring(str(drawing))  # noqa: S314 - our own drawing


def test_a_stacked_bar_is_cut_where_the_counts_say():
    """Of a bar 100 wide, 1 of 4 is 25, and an empty part is not drawn."""
    bar = parsed(svg.stacked_bar("t", [svg.Part("a", 1, "x"), svg.Part("b", 0, "y"), svg.Part("c", 3, "z")]))
    assert [(r.get("x"), r.get("width"), r.get("class")) for r in bar.iter("rect")] == [
        ("0", "25", "x"),
        ("25", "75", "z"),
    ]
    assert bar.find("desc").text == "a 1, b 0, c 3; the full width is 4."


def test_a_waterfall_bar_shows_what_goes_on_and_what_leaves():
    """From 6 of 8 to 2 of 8: a quarter stays, half of the width leaves."""
    bar = parsed(svg.floating_bar("t", before=6, after=2, whole=8, kind="lost"))
    assert [(r.get("x"), r.get("width")) for r in bar.iter("rect")] == [("0", "25"), ("25", "50")]


def test_a_signed_bar_has_zero_in_the_middle():
    """-2 and 1 of at most 4: 25 to the left, 12.5 to the right of 50."""
    bar = parsed(svg.signed_bar("t", negative=-2.0, positive=1.0, largest=4.0))
    assert [(r.get("x"), r.get("width")) for r in bar.iter("rect")][:2] == [("25", "25"), ("50", "12.5")]


@pytest.mark.parametrize("counts", [(0, 0, 0), (0, 5, 0)])
def test_an_empty_bar_is_no_division_by_zero(counts):
    """A night without traces has bars too."""
    before, whole, after = counts
    assert "NaN" not in svg.floating_bar("t", before=before, after=after, whole=whole, kind="lost")
    assert "NaN" not in svg.stacked_bar("t", [svg.Part("a", 0, "x")])
    assert "NaN" not in svg.signed_bar("t", negative=0.0, positive=0.0, largest=0.0)


def test_a_sparkline_leaves_a_gap_where_nothing_was_measured():
    """Two runs of two nights around a gap are two lines; the last night has a dot in the colour of its status."""
    points = [(1.0, "ok"), (2.0, "ok"), (None, "not_measured"), (2.0, "ok"), (3.0, "warn")]
    spark = parsed(svg.sparkline("t", points, bound=2.0))
    assert [p.get("class") for p in spark.iter("path")] == ["bound", "spark", "spark"]
    assert [c.get("class") for c in spark.iter("circle")] == ["dot warn"]
    assert "not measured" in spark.find("desc").text


def test_a_logarithmic_axis_places_a_power_of_ten_where_it_belongs():
    """1e-3 is in the middle of 1e-6 to 1, and what lies outside is held at the end."""
    assert _DECADES.place(1e-3) == pytest.approx(0.5)
    assert _DECADES.place(0.0) == 0.0
    assert _DECADES.place(10.0) == 1.0


def test_the_gate_is_marked_where_it_stands():
    """The upright line of a chart is at its x: halfway between the axis' ends."""
    line = Curve(label="v1", num_observations=4, points=((1e-6, 0.0), (1.0, 1.0)))
    chart = parsed(charts.curves("t", [line], x=_DECADES, y=_UNIT, marker=Marker(x=1e-3, label="gate")))
    base = next(p for p in chart.iter("path") if p.get("class") == "base").get("d").split()
    mark = next(p for p in chart.iter("path") if p.get("class") == "marker").get("d").split()
    assert float(mark[0][1:]) == pytest.approx((float(base[0][1:]) + float(base[2][1:])) / 2, abs=0.1)


def test_lines_differ_in_more_than_colour():
    """Each line of a chart has a look of its own, dash included, and a label in the same look."""
    lines = [Curve(label=f"v{i}", num_observations=1, points=((0.0, 0.1 * i), (1.0, 1.0))) for i in range(4)]
    chart = parsed(charts.curves("t", lines, x=_UNIT, y=_UNIT))
    assert [t.text for t in chart.iter("text") if (t.get("class") or "").startswith("end")] == ["v0", "v1", "v2", "v3"]
    assert len({p.get("class") for p in chart.iter("path") if (p.get("class") or "").startswith("line")}) == 4


def test_no_two_labels_of_a_chart_overlap():
    """Lines that end at one height have labels at different heights."""
    lines = [Curve(label=f"v{i}", num_observations=1, points=((0.0, 0.0), (1.0, 1.0))) for i in range(10)]
    chart = parsed(charts.curves("t", lines, x=_UNIT, y=_UNIT))
    places = [float(t.get("y")) for t in chart.iter("text") if (t.get("class") or "").startswith("end")]
    assert min(after - before for before, after in pairwise(places)) >= 12.0


def test_an_unmeasured_row_says_so_and_has_no_dot():
    """A gap among intervals is words, not a point at zero."""
    rows = [("known", Estimate(value=0.5, lower=0.25, upper=0.75)), ("blank", Estimate(value=None))]
    chart = parsed(charts.intervals("t", rows, x=_UNIT))
    assert len(list(chart.iter("circle"))) == 1
    assert "not measured" in [t.text for t in chart.iter("text")]


def test_a_histogram_writes_each_count_on_its_bar():
    """The tallest bar is the largest count; an empty class has no number."""
    chart = parsed(charts.histogram("t", [(0.0, 0.5, 3), (0.5, 1.0, 0), (1.0, 1.5, 6)], label="reward", show=str))
    heights = [float(r.get("height")) for r in chart.iter("rect")]
    assert heights[0] == pytest.approx(heights[2] / 2, abs=0.1)
    assert [t.text for t in chart.iter("text")][:2] == ["3", "6"]


@given(st.text(max_size=40))
def test_foreign_text_in_a_figure_stays_text(foreign):
    """A label with markup in it is one text node of a well-formed figure."""
    line = Curve(label=foreign, num_observations=1, points=((0.0, 0.0), (1.0, 1.0)))
    for drawing in (
        charts.curves(foreign, [line], x=_UNIT, y=_UNIT),
        charts.intervals(foreign, [(foreign, Estimate(value=0.5))], x=_UNIT),
        svg.stacked_bar(foreign, [svg.Part(foreign, 1, "x")]),
        svg.sparkline(foreign, [(1.0, "ok")]),
    ):
        assert {e.tag for e in parsed(drawing).iter()} <= {"svg", "title", "desc", "text", "path", "circle", "rect"}
