"""Regular expressions that an operator writes, searched in texts that clients write.

They are in the dialect of the package regex, which can be told to stop: one that backtracks or recurses without end
must not hold up a night.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

LONGEST_MATCH_S = 1.0
"""Seconds that a pattern may take for a short text, such as the name of a model. Convention, untested."""

LONGEST_PROBE_S = 0.2
"""Seconds that a pattern may take for the probe, which a sound one searches in microseconds. Convention, untested."""

PROBE = "aab 0123-4567 toy@v7 A.B_c/d"
"""A short text on which a pattern is tried once; one that recurses without end already does so here. Convention,
untested."""

GIVEN_UP = (TimeoutError, MemoryError)
"""What a search that would not end raises: whichever runs out first."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The pattern of the package regex; `ValueError` says what is wrong with one that cannot be used."""
    import regex

    try:
        made = regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"{pattern!r} is no regular expression ({error}): mend it") from error
    except (RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(
            f"{_beginning(pattern)} cannot be compiled; expected less nesting and smaller counts: shorten it"
        ) from error
    try:
        for text in ("", PROBE):
            made.search(text, timeout=LONGEST_PROBE_S)
    except GIVEN_UP as error:
        raise ValueError(
            f"{_beginning(pattern)} did not end on the text {PROBE!r}; expected one without endless recursion or "
            "backtracking: mend it"
        ) from error
    return made


def search(pattern: str, text: str) -> Any | None:
    """The first match of the pattern in the text; None also where the search takes too long."""
    try:
        return compiled(pattern).search(text, timeout=LONGEST_MATCH_S)
    except GIVEN_UP:
        return None


def _beginning(pattern: str) -> str:
    return repr(pattern) if len(pattern) <= 80 else f"{pattern[:60]!r}... ({len(pattern):,} characters)"
