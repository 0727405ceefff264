"""Every finding that a night can have: what it measures, when it is bad, and what to do then.

A default bound names its source: a paper, public code, a measurement, or `convention, untested`. A bound is replaced
under `[gate.bounds]` in the settings, all three steps of it together; an empty one leaves the measure for information.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from schemas.errors import SettingsError
from validate.catalog_scores import SCORE_MEASURES
from validate.catalog_traces import TRACE_MEASURES
from validate.check import SECTIONS, Bounds, Measure

CATALOG: tuple[Measure, ...] = tuple(
    sorted((*TRACE_MEASURES, *SCORE_MEASURES), key=lambda measure: SECTIONS.index(measure.section))
)
"""All measures, section by section in the order of the report."""

MEASURES: Mapping[str, Measure] = MappingProxyType({measure.name: measure for measure in CATALOG})
"""The same by name."""


def measure(name: str) -> Measure:
    """The measure of that name; `KeyError` when the catalog has none."""
    if name not in MEASURES:
        raise KeyError(f"measure {name!r} is not in validate/catalog.py; add it there, with its bounds and its fix")
    return MEASURES[name]


def check_bounds(overrides: Mapping[str, Bounds]) -> None:
    """Refuse bounds for a measure that there is none of, or that has no bad side."""
    for name in sorted(overrides):
        if name not in MEASURES:
            bounded = ", ".join(m.name for m in CATALOG if m.comparison)
            raise SettingsError(f"gate.bounds.{name}: no such measure; expected one of {bounded}")
        if MEASURES[name].comparison is None:
            raise SettingsError(f"gate.bounds.{name}: this measure is for information and has no bad side; remove it")
