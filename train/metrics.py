"""Figures of each update, one JSON line each, in the order of the updates."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """A file of metrics that a resumed run goes on with."""

    path: Path

    def write(self, history: Sequence[Mapping[str, Any]]) -> None:
        """Begin with these updates and drop what else there was: a resumed run makes it again."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".writing")
        temporary.write_text("".join(_line(figures) for figures in history))
        temporary.rename(self.path)

    def append(self, figures: Mapping[str, Any]) -> None:
        """Add the figures of one update; a number that is not finite is written as null."""
        with self.path.open("a") as file:
            file.write(_line(figures))

    def read(self) -> list[dict[str, Any]]:
        """The finished lines."""
        if not self.path.is_file():
            return []
        whole = self.path.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in whole if line.endswith("\n")]


def _line(figures: Mapping[str, Any]) -> str:
    return json.dumps({name: finite(value) for name, value in figures.items()}) + "\n"


def finite(value: Any) -> Any:
    """The value, or None for a number that is none."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
