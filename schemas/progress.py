"""How long work tells how far it is, without knowing who listens."""

from typing import Protocol


class Progress(Protocol):
    """Called as work goes on; a listener draws a bar, writes a log line or does nothing."""

    def __call__(self, stage: str, done: int, total: int | None, unit: str, note: str = "") -> None:
        """Tell that `done` of `total` units (None: unknown) of `stage` are done."""


def silent(stage: str, done: int, total: int | None, unit: str, note: str = "") -> None:
    """Listen to nothing."""
