"""What became of the lines of files: small numbers that are printed and passed on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FileState = Literal["new", "grown", "changed", "unchanged", "gone"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileReport:
    """How the lines of one file ended in this reading; the four states add up to the lines."""

    uri: str
    state: FileState
    num_lines: int = 0
    num_landed: int = 0
    num_duplicates: int = 0
    num_rejects: int = 0
    num_blank: int = 0
    num_rows: int = 0
    """Calls or outcomes that landed; more than the lines where a response has several choices."""
    rejects_by_reason: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LandReport:
    """How the lines of all files of one reading ended."""

    files: tuple[FileReport, ...]

    @property
    def num_lines(self) -> int:
        """Lines read."""
        return sum(file.num_lines for file in self.files)

    @property
    def num_landed(self) -> int:
        """Lines that became calls or outcomes."""
        return sum(file.num_landed for file in self.files)

    @property
    def num_duplicates(self) -> int:
        """Lines whose content had landed before."""
        return sum(file.num_duplicates for file in self.files)

    @property
    def num_rejects(self) -> int:
        """Lines that could not become a call or an outcome."""
        return sum(file.num_rejects for file in self.files)

    @property
    def num_blank(self) -> int:
        """Lines of white space only."""
        return sum(file.num_blank for file in self.files)

    @property
    def num_rows(self) -> int:
        """Calls or outcomes that landed."""
        return sum(file.num_rows for file in self.files)

    @property
    def rejects_by_reason(self) -> dict[str, int]:
        """Rejected lines by reason, the most frequent first."""
        total: Counter[str] = Counter()
        for file in self.files:
            total.update(file.rejects_by_reason)
        return dict(total.most_common())

    @property
    def is_new(self) -> bool:
        """Whether any line landed."""
        return self.num_landed > 0
