"""What `bench/lag.py --write` writes: the tables of docs/lag.md, between its marks, and the curves of docs/lag.svg."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from lag import Curve

DOCS = Path(__file__).resolve().parents[1] / "docs"

PANELS: Mapping[str, tuple[str, ...]] = {
    "REINFORCE with a correction": ("reinforce, tis", "reinforce, dppo_tv", "reinforce, ppo"),
    "FlashREINFORCE, by trust": ("flash_reinforce, open", "flash_reinforce, 0.05", "flash_reinforce, 0.003"),
    "Another baseline": ("grpo, ppo", "bpo, practical", "sao, coding band", "bpco", "rae, none"),
    "A pull back in place of a ratio": ("klpo, exact", "klpo, binary", "bpo, exact residual"),
}
"""Which curves are drawn together; the uncorrected one is in every panel."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b")
"""Told apart by colour-blind readers too (Okabe and Ito), on light and on dark; the last one is darkened for light."""

WIDTH, HEIGHT, COLUMNS = 440, 300, 2
LEFT, RIGHT, TOP, BOTTOM, HEAD = 46, 12, 82, 40, 30

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 13px }
.axis, .grid { stroke: #24292f; fill: none }
.grid { stroke-opacity: .15 }
.base { stroke: #57606a; stroke-dasharray: 5 3 }
.basefill { fill: #57606a }
.line { fill: none; stroke-width: 2 }
.band { fill-opacity: .18; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .axis, .grid { stroke: #e6edf3 }
  .base { stroke: #9da7b1 }
  .basefill { fill: #9da7b1 }
}
"""


def write(curves: Sequence[Curve], source: str) -> None:
    """Both files; `source` is the command, the date and the seeds, in a sentence."""
    parts = {"source": source, "rewards": _rewards(curves), "differences": _differences(curves)}
    page = DOCS / "lag.md"
    text = page.read_text("utf-8")
    for name, part in parts.items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = mark.sub(lambda found, part=part: f"{found[1]}\n{part}\n\n{found[2]}", text)  # type: ignore[misc]  # a default
    page.write_text(text, "utf-8")
    (DOCS / "lag.svg").write_text(drawing(curves), "utf-8")


def _rewards(curves: Sequence[Curve]) -> str:
    return _table(
        {curve.name: [f"{mean:.3f} ±{half:.3f}" for mean, half in curve.rewards.values()] for curve in curves}, curves
    )


def _differences(curves: Sequence[Curve]) -> str:
    """Bold where the interval leaves out 0."""
    cells = {}
    for curve in curves[1:]:
        told = [(f"{mean:+.3f} ±{half:.3f}", abs(mean) > half) for mean, half in curve.differences.values()]
        cells[curve.name] = [f"**{cell}**" if apart else cell for cell, apart in told]
    return _table(cells, curves)


def _table(cells: Mapping[str, Sequence[str]], curves: Sequence[Curve]) -> str:
    lags = list(curves[0].rewards)
    rows = [["method", *(f"lag {lag}" for lag in lags)], ["---"] * (len(lags) + 1)]
    rows += [[name, *told] for name, told in cells.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def drawing(curves: Sequence[Curve]) -> str:
    """The panels as one SVG, which carries its own colours for light and for dark."""
    by_name = {curve.name: curve for curve in curves}
    base = curves[0]
    panels = [
        _panel(number, title, base, [by_name[name] for name in names])
        for number, (title, names) in enumerate(PANELS.items())
    ]
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * WIDTH, rows * HEIGHT + HEAD
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    title = "Expected share of right words by the age of the traces, with bands of 95% over seeds (scales differ)"
    panels.insert(0, f'<text class="title" x="{LEFT}" y="20">{title}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{title}</title><style>{_STYLE}</style>\n'
        + "\n".join([*panels, "</svg>\n"])
    )


def _panel(number: int, title: str, base: Curve, curves: Sequence[Curve]) -> str:
    """Axes, a legend above them, and a band and a line for each curve."""
    lags = list(base.rewards)
    parts = [f'<text class="title" x="{LEFT}" y="18">{escape(title)}</text>']
    highest = max(mean + half for curve in (base, *curves) for mean, half in curve.rewards.values())
    full = 0.5 if highest < 0.5 else 1.0
    for tick in range(6):
        y = _height(tick / 5)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{full * tick / 5:.1f}</text>')
    for place, lag in enumerate(lags):
        parts.append(
            f'<text x="{_across(place, lags):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{lag}</text>'
        )
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    under = "lag of the traces, in updates"
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{under}</text>')
    drawn = [(base, 'class="line base"', 'class="band basefill"')]
    drawn += [
        (curve, f'class="line" stroke="{colour}"', f'class="band" fill="{colour}"')
        for curve, colour in zip(curves, COLOURS, strict=False)
    ]
    for place, (curve, line, band) in enumerate(drawn):
        parts += _curve(curve, full, line, band)
        x, y = LEFT + (place % 2) * 200, 34 + 15 * (place // 2)
        parts.append(f'<path {line} d="M{x} {y - 4}h22"/><text x="{x + 28}" y="{y}">{escape(curve.name)}</text>')
    corner = f"{number % COLUMNS * WIDTH} {number // COLUMNS * HEIGHT + HEAD}"
    return f'<g transform="translate({corner})">{"".join(parts)}</g>'


def _curve(curve: Curve, full: float, line: str, band: str) -> list[str]:
    """The band and the line; `full` is the share at the top of the panel."""
    lags, told = list(curve.rewards), list(curve.rewards.values())
    upper, middle, lower = (
        [
            f"{_across(place, lags):.1f} {_height((mean + sign * half) / full):.1f}"
            for place, (mean, half) in enumerate(told)
        ]
        for sign in (1, 0, -1)
    )
    return [
        f'<path {band} d="M{"L".join([*upper, *reversed(lower)])}Z"/>',
        f'<path {line} d="M{"L".join(middle)}"><title>{escape(curve.name)}</title></path>',
    ]


def _across(place: int, lags: Sequence[int]) -> float:
    """Lags stand at equal distances, as they double."""
    return LEFT + 14 + place * (WIDTH - RIGHT - LEFT - 28) / max(1, len(lags) - 1)


def _height(share: float) -> float:
    return TOP + (1.0 - min(max(share, 0.0), 1.0)) * (HEIGHT - BOTTOM - TOP)
