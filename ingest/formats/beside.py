"""Calls and the scores that stand beside them in one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ingest.call import Call
from ingest.formats.format import Records
from ingest.formats.openinference_feedback import feedback_outcomes
from ingest.outcome import Outcome
from ingest.words import WordSettings
from schemas.errors import LineError

Score = Callable[[], Outcome | Sequence[Outcome] | None]
"""Reads one score, or several that stand or fall together; None of what is no reward. Raises LineError for one that
cannot be used."""


def with_scores(calls: Sequence[Call], scores: Iterable[Score]) -> Records:
    """All records of one line.

    A score that cannot be used does not take the calls beside it away: they carry a note. Where no call stands beside
    it the line is refused, as a line with that score alone would be.
    """
    outcomes: list[Outcome] = []
    refused: LineError | None = None
    for read in scores:
        try:
            outcome = read()
        except LineError as error:
            refused = refused or error
        else:
            outcomes += [] if outcome is None else [outcome] if isinstance(outcome, Outcome) else outcome
    if refused is not None and not calls:
        raise refused
    for call in calls if refused is not None else ():
        call.notes = (*call.notes, "score_unusable")
    return (*calls, *outcomes)


def feedback(
    attributes: Mapping[str, Any], links: Sequence[Mapping[str, Any]], ended_at: object, words: WordSettings
) -> tuple[Score, ...]:
    """The scores that a span carries for the one that it links to."""
    return (partial(feedback_outcomes, attributes, links, ended_at, words),)
