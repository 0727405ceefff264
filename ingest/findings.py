"""What is found in one text, as it is written: the findings of all detectors, laid over each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ingest.detectors import Detector
from ingest.escapes import Decoded, has_escapes, hides

MOST_PASSES = 8
"""How often a text is searched again after something was taken out of it; then all of it is taken out. Convention,
untested."""

MOST_ESCAPES = 4
"""How often escapes of escapes are followed, such as a backslash that is written as a code. Convention, untested."""

_TAKEN = "\ufdd0"
"""Stands for what was taken out, while the rest is searched: a code point that no text may hold and nothing matches."""


Place = Callable[[int, int], tuple[int, int]]
"""Leads from a span of a decoded text to the written one."""


class Finding(NamedTuple):
    """One place in a text, half-open, and what stands there."""

    start: int
    end: int
    kind: str


class Remover:
    """Replaces what its detectors find by the kind in brackets, until they find nothing more.

    What it gives back it would give back unchanged, and what holds no finding is the same object. Where findings
    overlap, all that they cover goes, under the kind of the longest.
    """

    def __init__(self, detectors: Sequence[Detector], placeholders: Iterable[str]) -> None:
        self._detectors = tuple(detectors)
        self._placeholder = re.compile(rf"\[(?:{'|'.join(map(re.escape, placeholders))})\]")

    def may_find(self, text: str) -> bool:
        """A quick look that is never wrong when it says no."""
        return hides(text) or any(detector.may_find(text) for detector in self._detectors)

    def __call__(self, text: str, counts: Counter[str]) -> str:
        """The text without what was found in it; counts each finding."""
        kind = ""
        for _ in range(MOST_PASSES):
            findings = self._findings(text)
            if not findings:
                return text
            pieces: list[str] = []
            done = 0
            for finding in findings:
                counts[finding.kind] += 1
                pieces += (text[done : finding.start], f"[{finding.kind}]")
                done, kind = finding.end, finding.kind
            text = "".join((*pieces, text[done:]))
        return f"[{kind}]" if self._findings(text) else text

    def _findings(self, text: str) -> list[Finding]:
        if not self.may_find(text):
            return []
        masked = text
        if "[" in text:
            masked = self._placeholder.sub(lambda match: _TAKEN * len(match.group()), text)
        found = self._search(masked, lambda start, end: (start, end))
        return _merged(trimmed for finding in found if (trimmed := _trimmed(finding, masked)) is not None)

    def _search(self, text: str, place: Place, depth: int = MOST_ESCAPES) -> list[Finding]:
        """Search a text, and what its escapes stand for; a finding cuts no escape."""
        if not has_escapes(text):
            return self._search_plain(text, place)
        decoded = Decoded(text)
        found = self._search_plain(text, lambda start, end: place(*decoded.whole(start, end)))
        if depth and decoded.text != text:
            found += self._search(decoded.text, lambda start, end: place(*decoded.span(start, end)), depth - 1)
        return found

    def _search_plain(self, text: str, place: Place) -> list[Finding]:
        return [
            Finding(*place(start, end), detector.kind)
            for detector in self._detectors
            if detector.may_find(text)
            for start, end in detector.find(text)
        ]


def _trimmed(finding: Finding, masked: str) -> Finding | None:
    """The finding without what was taken out before at its ends; None when nothing else is in it."""
    start, end, kind = finding
    while start < end and masked[start] == _TAKEN:
        start += 1
    while start < end and masked[end - 1] == _TAKEN:
        end -= 1
    return Finding(start, end, kind) if start < end else None


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """The findings in order, overlapping ones as one of the kind of the longest."""
    merged: list[Finding] = []
    longest = 0
    for start, end, kind in sorted(findings):
        if merged and start < merged[-1].end:
            last = merged[-1]
            named = kind if end - start > longest else last.kind
            longest = max(longest, end - start)
            merged[-1] = Finding(last.start, max(end, last.end), named)
        else:
            merged.append(Finding(start, end, kind))
            longest = end - start
    return merged
