"""Lines that are committed together, and where the reading of their file stands."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

from ingest.ahead import Settled
from ingest.report import FileState

COUNTS = ("num_lines", "num_landed", "num_duplicates", "num_rejects", "num_blank")
"""The counts of the ledger; the last four add up to the first."""


class Item(Protocol):
    """One row in the making."""

    @property
    def item_id(self) -> str:
        """Its identity: a second delivery of the same content has the same."""

    @property
    def table(self) -> str:
        """The table that it is a row of: calls or outcomes."""

    @property
    def num_bytes(self) -> int:
        """Bytes of the tokens and numbers that it holds."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One row in the making, and where its line lies."""

    item: Any
    uri: str
    byte_offset: int
    line_sha256: str


@dataclass(slots=True)
class Batch:
    """Lines that will be committed together; `settled` is where the file stands behind the last of them."""

    placed: list[Placed] = field(default_factory=list)
    rejects: list[dict[str, Any]] = field(default_factory=list)
    num_lines: int = 0
    num_blank: int = 0
    num_bytes: int = 0
    num_packed_bytes: int = 0
    redacted: Counter[str] = field(default_factory=Counter)
    held: list[str] | None = None
    """Ids of all outcomes in the file, where what it leaves out is withdrawn; None elsewhere."""
    settled: Settled | None = None


@dataclass(slots=True)
class Cursor:
    """Where the reading of one file stands in the ledger."""

    uri: str
    state: FileState
    size_on_disk: int
    version: int
    """Of the ledger row that was last committed; -1 when there is none."""
    tail_sha256: str | None = None
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    notes: set[str] = field(default_factory=set)
    has_committed: bool = False
