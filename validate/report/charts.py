"""Charts with axes, on top of the small figures: curves, intervals and histograms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from validate.report.evidence import Curve, Estimate
from validate.report.svg import WIDTH, element, figure, path, text, words
from validate.report.words import clipped

_LABEL_GAP = 15.0
"""Least distance between two labels at the ends of lines, in units of the chart."""
_NUM_LOOKS = 6
"""Looks of a line that the page's CSS knows: colour and dash."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """One axis: the numbers at its ends, the marked ones, and how they are written."""

    label: str
    ticks: tuple[float, ...]
    show: Callable[[float], str]
    is_log: bool = False

    def place(self, value: float) -> float:
        """Where the number lies between the first tick (0) and the last (1), held within them."""
        low, high, here = self.ticks[0], self.ticks[-1], value
        if self.is_log:
            low, high, here = math.log10(low), math.log10(high), math.log10(max(value, self.ticks[0]))
        return min(1.0, max(0.0, (here - low) / (high - low)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Marker:
    """A line across the chart at one x."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class _Frame:
    x: Axis
    y: Axis
    left: float
    right: float
    top: float
    bottom: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (
            self.left + (self.right - self.left) * self.x.place(x),
            self.bottom - (self.bottom - self.top) * self.y.place(y),
        )

    def axes(self) -> list[Markup]:
        drawn = []
        for tick in self.y.ticks:
            _, y = self.at(self.x.ticks[0], tick)
            drawn.append(element("path", class_="grid", d=path([(self.left, y), (self.right, y)])))
            drawn.append(words(self.y.show(tick), x=self.left - 7, y=y + 4, text_anchor="end"))
        for tick in self.x.ticks:
            x, _ = self.at(tick, self.y.ticks[0])
            drawn.append(element("path", class_="tick", d=path([(x, self.bottom), (x, self.bottom + 4)])))
            drawn.append(words(self.x.show(tick), x=x, y=self.bottom + 18, text_anchor="middle"))
        drawn.append(element("path", class_="base", d=path([(self.left, self.bottom), (self.right, self.bottom)])))
        drawn.append(words(self.x.label, x=self.right, y=self.bottom + 36, text_anchor="end", class_="axis-label"))
        drawn.append(words(self.y.label, x=2, y=14, class_="axis-label"))
        return drawn


def curves(title: str, lines: Sequence[Curve], *, x: Axis, y: Axis, marker: Marker | None = None) -> Markup:
    """Lines over one pair of axes, each labelled at its end, with a mark at one x."""
    height = 268.0
    label_width = max((7.2 * len(_end_label(line)) for line in lines), default=0.0)
    left = 12.0 + 7.4 * max(len(y.show(tick)) for tick in y.ticks)
    frame = _Frame(x, y, left, WIDTH - 38 - label_width, 34, height - 44)
    drawn = frame.axes()
    if marker is not None:
        drawn += _marker(frame, marker)
    drawn += [
        element("path", class_=f"line look{index % _NUM_LOOKS}", d=path(frame.at(*point) for point in line.points))
        for index, line in enumerate(lines)
    ]
    ends = _spread([frame.at(*line.points[-1])[1] if line.points else frame.bottom for line in lines], frame)
    for index, (line, end) in enumerate(zip(lines, ends, strict=True)):
        look = f"look{index % _NUM_LOOKS}"
        drawn.append(element("path", class_=f"line {look}", d=path([(frame.right + 8, end), (frame.right + 30, end)])))
        drawn.append(words(_end_label(line), x=frame.right + 35, y=end + 4, class_=f"end {look}"))
    said = "; ".join(_said(line, x, y) for line in lines)
    return figure(title, f"{y.label} over {x.label}. {said}.", *drawn, size=(WIDTH, height))


def intervals(title: str, rows: Sequence[tuple[str, Estimate]], *, x: Axis) -> Markup:
    """One dot with its 95% interval per row; a row without a number says so in words."""
    left = 18.0 + 6.6 * max((len(_clip(label)) for label, _ in rows), default=0)
    step, top = 26.0, 14.0
    bottom = top + step * len(rows)
    frame = _Frame(x, Axis(label="", ticks=(0.0, 1.0), show=str), left, WIDTH - 58.0, top, bottom)
    drawn = []
    for tick in x.ticks:
        place, _ = frame.at(tick, 0)
        drawn.append(element("path", class_="grid", d=path([(place, top), (place, bottom)])))
        drawn.append(words(x.show(tick), x=place, y=bottom + 18, text_anchor="middle"))
    for index, (label, estimate) in enumerate(rows):
        drawn += _interval_row(frame, label, estimate, y=top + step * (index + 0.5))
    drawn.append(words(x.label, x=frame.right, y=bottom + 36, text_anchor="end", class_="axis-label"))
    said = "; ".join(f"{label}: {_estimate_said(estimate)}" for label, estimate in rows)
    return figure(title, f"{x.label}. {said}.", *drawn, size=(WIDTH, bottom + 42))


def histogram(
    title: str, bins: Sequence[tuple[float, float, int]], *, label: str, show: Callable[[float], str]
) -> Markup:
    """Bars of counts over neighbouring classes, each count written on its bar."""
    height, left, right, top = 200.0, 12.0, WIDTH - 12.0, 26.0
    bottom = height - 44.0
    most = max((number for _, _, number in bins), default=0)
    slot = (right - left) / max(1, len(bins))
    drawn = []
    for index, (low, high, number) in enumerate(bins):
        tall = (bottom - top) * number / most if most else 0.0
        x = left + slot * index
        tip = element("title", text(f"{show(low)} to {show(high)}: {number:,}"))
        drawn.append(
            element("rect", tip, class_="column", x=x + 1, y=bottom - tall, width=max(1.0, slot - 2), height=tall)
        )
        if number:
            drawn.append(words(f"{number:,}", x=x + slot / 2, y=bottom - tall - 6, text_anchor="middle"))
    for index, edge in enumerate([low for low, _, _ in bins] + [high for _, high, _ in bins[-1:]]):
        if index % max(1, len(bins) // 5) == 0:
            drawn.append(words(show(edge), x=left + slot * index, y=bottom + 18, text_anchor="middle"))
    drawn.append(element("path", class_="base", d=path([(left, bottom), (right, bottom)])))
    drawn.append(words(label, x=right, y=bottom + 36, text_anchor="end", class_="axis-label"))
    said = "; ".join(f"{show(low)} to {show(high)}: {number:,}" for low, high, number in bins)
    return figure(title, f"{label}. {said}.", *drawn, size=(WIDTH, height))


def _marker(frame: _Frame, marker: Marker) -> list[Markup]:
    x, _ = frame.at(marker.x, frame.y.ticks[0])
    on_left = x > (frame.left + frame.right) / 2
    return [
        element("path", class_="marker", d=path([(x, frame.top - 5), (x, frame.bottom)])),
        words(
            marker.label,
            x=x - 5 if on_left else x + 5,
            y=frame.top - 9,
            text_anchor="end" if on_left else "start",
            class_="marker-label",
        ),
    ]


def _interval_row(frame: _Frame, label: str, estimate: Estimate, *, y: float) -> list[Markup]:
    drawn = [words(_clip(label), x=frame.left - 10, y=y + 4, text_anchor="end")]
    if estimate.value is None:
        drawn.append(words("not measured", x=frame.left + 4, y=y + 4, class_="unmeasured"))
        return drawn
    x, _ = frame.at(estimate.value, 0)
    if estimate.lower is not None and estimate.upper is not None:
        low, _ = frame.at(estimate.lower, 0)
        high, _ = frame.at(estimate.upper, 0)
        drawn.append(element("path", class_="whisker", d=path([(low, y), (high, y)])))
    drawn.append(element("circle", class_="point", cx=x, cy=y, r=4))
    drawn.append(words(frame.x.show(estimate.value), x=frame.right + 10, y=y + 4, class_="value"))
    return drawn


def _spread(places: Sequence[float], frame: _Frame) -> list[float]:
    """The places moved apart until no two labels overlap, in their order, within the frame where there is room."""
    order = sorted(range(len(places)), key=lambda index: (places[index], index))
    moved = list(places)
    lowest = frame.top
    for index in order:
        moved[index] = lowest = max(places[index], lowest)
        lowest += _LABEL_GAP
    highest = frame.bottom
    for index in reversed(order):
        moved[index] = min(moved[index], highest)
        highest = moved[index] - _LABEL_GAP
    return moved


def _clip(label: str) -> str:
    return clipped(label, 22)


def _end_label(line: Curve) -> str:
    return clipped(line.label, 14)


def _said(line: Curve, x: Axis, y: Axis) -> str:
    if not line.points:
        return f"{line.label}: no data"
    first, last = line.points[0], line.points[-1]
    return (
        f"{line.label} ({line.num_observations:,}): {y.show(first[1])} at {x.show(first[0])}, "
        f"{y.show(last[1])} at {x.show(last[0])}"
    )


def _estimate_said(estimate: Estimate) -> str:
    if estimate.value is None:
        return "not measured"
    if estimate.lower is None or estimate.upper is None:
        return f"{estimate.value:.3g}"
    return f"{estimate.value:.3g}, from {estimate.lower:.3g} to {estimate.upper:.3g}"
