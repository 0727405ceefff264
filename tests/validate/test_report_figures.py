"""The training curves of the page: axes, the mark of a warm-up, and the words for who cannot see them."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.validate.report_night import night_report
from validate.report.figures import figures_of
from validate.report.scores import TrainingCurve


def drawn(values, *, unit="", num_warmup_updates=0, first=0):
    """The chart of these values, one an update."""
    report = night_report()
    report = replace(report, updates=replace(report.updates, num_warmup_updates=num_warmup_updates))
    points = tuple((float(first + n), value) for n, value in enumerate(values))
    curve = TrainingCurve(name="x", title="loss", meaning="m", unit=unit, num_updates=len(values), points=points)
    return ElementTree.fromstring(str(figures_of(report).training(curve)))  # noqa: S314 - our own figure


def texts(chart):
    """What is written in the chart."""
    return [text.text for text in chart.iter("text")]


def line_of(chart):
    """The places of the curve's points."""
    d = next(path.get("d") for path in chart.iter("path") if path.get("class") == "line look0").split()
    return [(float(x[1:]), float(y)) for x, y in zip(d[::2], d[1::2], strict=True)]


def test_a_falling_loss_below_zero_falls_on_the_page():
    """From -1 over -2 to -4: lower on the page each time, twice as far the second time."""
    (_, first), (_, second), (_, third) = line_of(drawn([-1.0, -2.0, -4.0]))
    assert first < second < third
    assert third - second == pytest.approx(2 * (second - first), abs=0.3)  # places are rounded to a tenth


def test_the_axis_of_few_updates_has_whole_numbers_alone():
    """There is no update between 0 and 1."""
    assert [text for text in texts(drawn([0.5, 0.75, 1.0], unit="share")) if text in {"0", "1", "2", "0.5", "1.5"}] == [
        "0",
        "1",
        "2",
    ]


def test_a_share_is_drawn_between_nothing_and_everything():
    """A share that never moves is not blown up to fill its chart."""
    chart = drawn([0.9, 0.9], unit="share")
    assert "100%" in texts(chart)
    assert "0%" in texts(chart)


def test_the_end_of_a_warm_up_is_marked():
    """The upright line stands where the policy's first point is; without a warm-up there is none."""
    chart = drawn([1.0, 2.0, 3.0], num_warmup_updates=2, first=2)
    mark = next(path.get("d") for path in chart.iter("path") if path.get("class") == "marker").split()
    assert float(mark[0][1:]) == line_of(chart)[0][0]
    assert "policy moves" in texts(chart)
    assert "policy moves" not in texts(drawn([1.0, 2.0, 3.0]))


def test_the_curve_is_told_in_words():
    """Title and description say of what, over how many updates, from where to where."""
    chart = drawn([0.25, 0.5], unit="nats")
    assert chart.find("title").text == "loss by update"
    assert chart.find("desc").text == "loss, nats over update. loss (2): 0.25 at 0, 0.5 at 1."


def test_a_constant_curve_is_no_division_by_zero():
    """All values 0 draw a line along the foot."""
    assert {y for _, y in line_of(drawn([0.0, 0.0, 0.0]))} == {224.0}
