"""Audits of the tables: each selects the rows that should not be, so none is a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from warehouse import query

if TYPE_CHECKING:
    from warehouse.lake import Lake


class Finding(NamedTuple):
    """What one audit found: its name, the number of offending rows (0 is a pass) and the first of them."""

    name: str
    num_rows: int
    example: dict[str, Any] | None


def run(lake: Lake) -> list[Finding]:
    """Run every audit, by name; a healthy lake has no offending row between two commands."""
    return [run_one(lake, path.split("/")[1]) for path in query.names("audits")]


def run_one(lake: Lake, name: str) -> Finding:
    """Run one audit."""
    offending = lake.query(f"audits/{name}")
    example = offending.slice(0, 1).to_pylist()[0] if offending.num_rows else None
    return Finding(name, offending.num_rows, example)
