"""Small figures as inline SVG: themable by the page's CSS, readable aloud, the same bytes for the same numbers.

Every figure has a `<title>` and a `<desc>`. Lines differ in dash and label as well as in colour. Coordinates are
rounded to a tenth of a pixel. Text goes through one escaping function; nothing here is marked safe before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from validate.report.words import visible

WIDTH = 460
"""Width of a chart in its own units; it is shown at this many pixels, or narrower on a narrow screen."""

Attribute = str | int | float


def text(value: str) -> Markup:
    """Foreign text made safe for markup, invisible characters spelled out."""
    return escape(visible(value))


def element(tag: str, *children: Markup, **attributes: Attribute) -> Markup:
    """One element; a trailing underscore is dropped from a name, others become hyphens; values are escaped."""
    names = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    rendered = Markup("").join(Markup(' {}="{}"').format(key, text(_shown(value))) for key, value in names)
    inner = Markup("").join(children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), rendered, inner)  # noqa: S704 - tag is ours, not input


def words(value: str, **attributes: Attribute) -> Markup:
    """A `<text>` element."""
    return element("text", text(value), **attributes)


def figure(title: str, description: str, *children: Markup, size: tuple[float, float], class_: str = "chart") -> Markup:
    """The outer `<svg>` with its title and description, scaled to its box."""
    width, height = size
    return element(
        "svg",
        element("title", text(title)),
        element("desc", text(description)),
        *children,
        role="img",
        class_=class_,
        viewBox=f"0 0 {_shown(width)} {_shown(height)}",
    )


def path(points: Iterable[tuple[float, float]]) -> str:
    """The `d` of a polyline through the points."""
    return " ".join(f"{'L' if i else 'M'}{_shown(x)} {_shown(y)}" for i, (x, y) in enumerate(points))


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a stacked bar."""

    label: str
    number: int
    kind: str
    """Class name of its colour."""


def stacked_bar(title: str, parts: Sequence[Part], *, whole: int | None = None) -> Markup:
    """A bar cut into parts; `whole` is what the full width stands for, the sum of the parts if not given."""
    total = whole if whole is not None else sum(part.number for part in parts)
    bars, start = [], 0.0
    for part in parts:
        width = 100.0 * part.number / total if total else 0.0
        if part.number:
            label = element("title", text(f"{part.label}: {part.number:,}"))
            bars.append(element("rect", label, class_=part.kind, x=start, y=0, width=width, height=10))
        start += width
    said = ", ".join(f"{part.label} {part.number:,}" for part in parts)
    return _stretched(title, f"{said}; the full width is {total:,}.", bars)


def floating_bar(title: str, *, before: int, after: int, whole: int, kind: str) -> Markup:
    """One stage of a waterfall: what goes on, then what leaves here, out of `whole`."""
    scale = 100.0 / whole if whole else 0.0
    rest = element("rect", class_="rest", x=0, y=0, width=after * scale, height=10)
    lost = element("rect", class_=kind, x=after * scale, y=0, width=(before - after) * scale, height=10)
    return _stretched(title, f"{before - after:,} of {before:,} leave; {after:,} go on.", [rest, lost])


def signed_bar(title: str, *, negative: float, positive: float, largest: float) -> Markup:
    """A bar to the left for a negative and one to the right for a positive number, zero in the middle."""
    scale = 50.0 / largest if largest > 0 else 0.0
    left = element("rect", class_="minus", x=50 + negative * scale, y=0, width=-negative * scale, height=10)
    right = element("rect", class_="plus", x=50, y=0, width=positive * scale, height=10)
    axis = element("rect", class_="axis", x=49.8, y=0, width=0.4, height=10)
    return _stretched(title, f"negative {negative:.3g}, positive {positive:.3g}.", [left, right, axis])


def _stretched(title: str, description: str, children: Sequence[Markup]) -> Markup:
    return element(
        "svg",
        element("title", text(title)),
        element("desc", text(description)),
        *children,
        role="img",
        class_="bar",
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
    )


Mark = Literal["ok", "info", "warn", "hold", "stop", "not_measured"]


def sparkline(title: str, points: Sequence[tuple[float | None, Mark]], *, bound: float | None = None) -> Markup:
    """The last nights as a line with gaps where nothing was measured; the bound dotted, tonight a dot."""
    width, height, pad = 96.0, 24.0, 3.0
    known = [value for value, _ in points if value is not None]
    reach = [*known, bound] if bound is not None and known else known
    low, high = (min(reach), max(reach)) if reach else (0.0, 0.0)
    step = (width - 2 * pad) / max(1, len(points) - 1)
    offset = width - pad - step * (len(points) - 1)

    def place(value: float) -> float:
        return height / 2 if high == low else height - pad - (height - 2 * pad) * (value - low) / (high - low)

    drawn: list[Markup] = []
    if bound is not None and known:
        drawn.append(element("path", class_="bound", d=path([(pad, place(bound)), (width - pad, place(bound))])))
    runs: list[list[tuple[float, float]]] = [[]]
    for index, (value, _) in enumerate(points):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((offset + index * step, place(value)))
    drawn += [element("path", class_="spark", d=path(run)) for run in runs if len(run) > 1]
    drawn += [element("circle", class_="spark-dot", cx=run[0][0], cy=run[0][1], r=1.2) for run in runs if len(run) == 1]
    if points and points[-1][0] is not None:
        value, mark = points[-1]
        drawn.append(element("circle", class_=f"dot {mark}", cx=width - pad, cy=place(value or 0.0), r=2.6))
    said = ", ".join("not measured" if value is None else f"{value:.4g}" for value, _ in points)
    return figure(title, f"Oldest first: {said}.", *drawn, size=(width, height), class_="sparkline")


def _shown(value: Attribute) -> str:
    """The attribute as text: a fraction to a tenth, without a trailing zero or a negative zero."""
    if not isinstance(value, float):
        return str(value)
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")
