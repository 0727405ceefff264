"""The figures of the page, each made from one part of the report."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from validate.report import charts, svg
from validate.report.charts import Axis, Marker
from validate.report.counts import LineCounts, Stage
from validate.report.data import Check, Report
from validate.report.evidence import Coverage, Curve, Estimate
from validate.report.scores import ReplayedVersion, RewardLedger, TrainingCurve, UpdateRow
from validate.report.words import bound, count

_FEW = 5
"""Updates up to which each has its tick; from there on a step of `_steps` is a whole number."""
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Figures:
    """What the template asks for: charts made once, and small bars made row by row."""

    report: Report

    def lines(self, counts: LineCounts) -> Markup:
        """What became of the lines."""
        parts = (
            svg.Part("landed", counts.num_landed, "rest"),
            svg.Part("duplicates", counts.num_duplicates, "pending"),
            svg.Part("blank", counts.num_blank, "absent"),
            svg.Part("rejects", counts.num_rejects, "quarantined"),
        )
        return svg.stacked_bar("What became of the lines", parts)

    def stage(self, stage: Stage) -> Markup:
        """What leaves at one stage of the gate."""
        left = stage.num_quarantined + stage.num_pending
        kind = "pending" if stage.num_pending > stage.num_quarantined else "quarantined"
        whole = self.report.waterfall.num_judged
        return svg.floating_bar(stage.title, before=stage.num_left + left, after=stage.num_left, whole=whole, kind=kind)

    def admitted(self) -> Markup:
        """The traces that are left at the end."""
        water = self.report.waterfall
        return svg.stacked_bar("Admitted", (svg.Part("admitted", water.num_admitted, "good"),), whole=water.num_judged)

    def coverage(self, row: Coverage) -> Markup:
        """How far the log-probabilities of one version or day can be used."""
        parts = (
            svg.Part("usable", row.num_usable, "good"),
            svg.Part("aligned, not usable", row.num_aligned - row.num_usable, "half"),
            svg.Part("present, not aligned", row.num_present - row.num_aligned, "pending"),
            svg.Part("absent", row.num_traces - row.num_present, "absent"),
        )
        return svg.stacked_bar(f"Coverage of {row.label}", parts)

    def ledger(self, ledger: RewardLedger) -> Markup:
        """Where the rewards stand."""
        parts = (
            svg.Part("mature", ledger.num_mature, "good"),
            svg.Part("may be revised", ledger.num_immature, "half"),
            svg.Part("pending", ledger.num_pending, "pending"),
            svg.Part("never came", ledger.num_missing, "absent"),
            svg.Part("refused", ledger.num_refused, "quarantined"),
        )
        return svg.stacked_bar("Where the rewards stand", parts)

    def trend(self, check: Check) -> Markup:
        """The last nights of one measurement."""
        points = [(point.value, point.status) for point in check.trend]
        return svg.sparkline(f"{check.title}, last {len(points)} nights", points, bound=check.threshold)

    def mass(self, row: ReplayedVersion | UpdateRow) -> Markup:
        """The coefficient mass of one row by its sign."""
        rows = self.report.updates.versions if isinstance(row, ReplayedVersion) else self.report.updates.updates
        largest = max((max(abs(r.negative_mass), r.positive_mass) for r in rows), default=0.0)
        return svg.signed_bar(
            "Coefficient mass", negative=row.negative_mass, positive=row.positive_mass, largest=largest
        )

    def admission(self) -> Markup:
        """What a trust of x would admit."""
        stale = self.report.staleness
        marker = None if stale.trust is None else Marker(x=stale.trust, label=f"tonight {stale.trust:g}")
        axis = Axis(label="trust, nats per token", ticks=_decades(stale.admission), show=_power, is_log=True)
        y = Axis(label="share admitted", ticks=_QUARTERS, show=_percent)
        return charts.curves("What each trust would admit", stale.admission, x=axis, y=y, marker=marker)

    def lengths(self) -> Markup:
        """How long the traces are, by reward."""
        lines = self.report.masks.curves
        axis = Axis(label="action tokens of a trace", ticks=_round_ticks(lines), show=bound)
        y = Axis(label="share of traces at most so long", ticks=_QUARTERS, show=_percent)
        return charts.curves("Length by reward", lines, x=axis, y=y)

    def arrival(self) -> Markup:
        """When rewards arrive."""
        section = self.report.rewards
        hours = section.maturity_hours
        marker = None if hours is None else Marker(x=hours, label=f"mature at {hours:g} h")
        axis = Axis(label="hours since the trace ended", ticks=_round_ticks(section.arrival), show=bound)
        y = Axis(label="share arrived", ticks=_QUARTERS, show=_percent)
        return charts.curves("Arrival of rewards", section.arrival, x=axis, y=y, marker=marker)

    def means(self) -> Markup:
        """Mean reward by version."""
        rows = [(row.label, row.mean) for row in self.report.rewards.means]
        axis = Axis(label="mean reward, 95% interval", ticks=_value_ticks([e for _, e in rows]), show=_short)
        return charts.intervals("Mean reward by version", rows, x=axis)

    def rewards(self) -> Markup:
        """How the rewards are spread."""
        bins = self.report.rewards.histogram
        return charts.histogram("Rewards", bins, label="reward", show=_short)

    def judge(self) -> Markup:
        """The judge's figures between -1 and 1."""
        rows = [(f.title, f.estimate) for f in self.report.judge.figures if f.unit in {"", "share"}]
        rows = [(title, e) for title, e in rows if e.value is None or -1.0 <= e.value <= 1.0]
        lowest = min((e.lower for _, e in rows if e.lower is not None), default=0.0)
        ticks = _QUARTERS if lowest >= 0.0 else (-1.0, -0.5, 0.0, 0.5, 1.0)
        return charts.intervals(
            "The judge against people", rows, x=Axis(label="95% interval", ticks=ticks, show=_short)
        )

    def drift(self) -> Markup:
        """The drift of the replayed traces, update by update."""
        points = tuple((float(row.last_step), row.mean_drift) for row in self.report.updates.updates)
        line = Curve(
            label="mean drift", num_observations=sum(r.num_traces for r in self.report.updates.updates), points=points
        )
        top = max((y for _, y in points), default=0.0) or 1.0
        ticks = _steps(0.0, top)
        y = Axis(label="drift, nats per token", ticks=ticks, show=bound)
        x = Axis(label="update", ticks=_update_ticks(points[-1][0]), show=bound)
        return charts.curves("Drift by update", (line,), x=x, y=y)

    def training(self, curve: TrainingCurve) -> Markup:
        """One figure of the updates in order, and where the policy began to move."""
        num_waited = self.report.updates.num_warmup_updates
        marker = Marker(x=float(num_waited), label="policy moves") if num_waited else None
        values = [y for _, y in curve.points]
        ticks = _QUARTERS if curve.unit == "share" else _steps(min(0.0, *values), max(0.0, *values))
        y = Axis(
            label=f"{curve.title}, {curve.unit}" if curve.unit == "nats" else curve.title,
            ticks=ticks,
            show=_percent if curve.unit == "share" else bound,
        )
        x = Axis(label="update", ticks=_update_ticks(curve.points[-1][0]), show=bound)
        line = Curve(label=curve.title, num_observations=curve.num_updates, points=curve.points)
        return charts.curves(f"{curve.title} by update", (line,), x=x, y=y, marker=marker)


def figures_of(report: Report) -> Figures:
    """The figures of the report."""
    return Figures(report)


def _decades(lines: tuple[Curve, ...]) -> tuple[float, ...]:
    places = [x for line in lines for x, _ in line.points if x > 0.0] or [1e-6, 1.0]
    low, high = math.floor(math.log10(min(places)) + 1e-9), math.ceil(math.log10(max(places)) - 1e-9)
    return tuple(10.0**power for power in range(low, max(high, low + 1) + 1))


def _round_ticks(lines: tuple[Curve, ...]) -> tuple[float, ...]:
    return _steps(0.0, max((x for line in lines for x, _ in line.points), default=1.0))


def _update_ticks(last: float) -> tuple[float, ...]:
    """Whole numbers from 0: there is no update between two."""
    return tuple(map(float, range(int(last) + 1))) if last <= _FEW else _steps(0.0, last)


def _value_ticks(estimates: list[Estimate]) -> tuple[float, ...]:
    ends = [end for e in estimates for end in (e.lower, e.value, e.upper) if end is not None] or [0.0, 1.0]
    return _steps(min(0.0, *ends), max(ends))


def _steps(low: float, high: float) -> tuple[float, ...]:
    """Four to seven round numbers that enclose the two."""
    reach = high - low if high > low else 1.0
    rough = reach / 5
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(scale * factor for factor in (1, 2, 5, 10) if scale * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(step * index, 12) for index in range(first, max(last, first + 1) + 1))


def _percent(value: float) -> str:
    return bound(value, "share")


def _power(value: float) -> str:
    return f"1e{round(math.log10(value))}".replace("-", "\u2212") if value < 1.0 else "1"


def _short(value: float) -> str:
    return f"{value:.2f}".replace("-", "\u2212") if value != round(value) else count(round(value))
