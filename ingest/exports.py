"""What a whole re-export of scores says by leaving something out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

import pyarrow as pa

from ingest.outcome import Outcome

Query = Callable[..., pa.Table]
"""Runs a named query over the lake, within the transaction that the file's last rows were appended in."""


def is_full_export(uri: str, patterns: Sequence[str]) -> bool:
    """Whether the settings say that the file is a whole re-export each time."""
    return any(fnmatchcase(uri, pattern) for pattern in patterns)


def corrections(query: Query, uri: str, held: Iterable[str], *, now: datetime) -> tuple[Outcome, ...]:
    """The events that make the log say what a changed re-export says, once its own events are in the log.

    `held` are the ids of all outcomes in the file, duplicates among them. Of each thing that the file had the last
    word on: one that it no longer holds is withdrawn, and one that it says otherwise, though in an event that is
    older, is said again. Both have the time of reading, `now`. A file without any event withdraws nothing: it is more
    likely an export that failed. Call it only for a file that was read to its end without a reject: a line that could
    not be read has not vanished.
    """
    incoming = pa.table({"item_id": pa.array(held, pa.string())})
    if incoming.num_rows == 0:
        return ()
    rows = query("ingest/export_corrections", {"held": incoming}, uri=uri).to_pylist()
    return tuple(Outcome(**row, event_time=now, observed_time=now) for row in rows)
