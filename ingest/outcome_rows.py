"""Score events as rows of `outcomes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ingest.outcome import Outcome
from ingest.redact import Redactor
from schemas.tables import table

if TYPE_CHECKING:
    from ingest.batch import Placed

_SCHEMA = table("outcomes").schema


def outcome_rows(landed: Sequence[Placed], redactor: Redactor, now: datetime) -> pa.Table:
    """Score events as columns of `outcomes`; the time of reading stands for one that an event does not have."""
    outcomes = [redactor.outcome(placed.item.outcome) for placed in landed]
    names = [field.name for field in fields(Outcome) if field.name in _SCHEMA.names]
    columns: dict[str, Any] = {name: [getattr(outcome, name) for outcome in outcomes] for name in names}
    for name in ("event_time", "observed_time"):
        columns[name] = [time or now for time in columns[name]]
    columns["outcome_id"] = [placed.item.item_id for placed in landed]
    columns["uri"] = [placed.uri for placed in landed]
    columns["byte_offset"] = [placed.byte_offset for placed in landed]
    columns["line_sha256"] = [placed.line_sha256 for placed in landed]
    columns["ingested_at"] = [now] * len(landed)
    return pa.table({name: pa.array(values, _SCHEMA.field(name).type) for name, values in columns.items()})
