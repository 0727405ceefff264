"""Batches into the lake: rows, rejects and the ledger row of a batch in one transaction, one batch after the other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from ingest.ahead import Settled
from ingest.batch import COUNTS, Batch, Cursor, Placed
from ingest.exports import corrections
from ingest.log_source import ReadOutcome
from schemas.errors import TracemillError
from warehouse.lake import Lake
from warehouse.transaction import Transaction

_KNOWN = {"calls": "ingest/known_calls", "outcomes": "ingest/known_outcomes"}
"""Named queries: which of the incoming ids are in the table already."""


class OvertakenError(Exception):
    """Another process committed lines of the same file in between."""


class Rows(Protocol):
    """Turns what landed into rows."""

    @property
    def content_kind(self) -> str:
        """What the ledger says: calls or outcomes."""

    def rows(self, landed: Sequence[Placed], now: datetime) -> Mapping[str, pa.Table]:
        """The rows of each table, redacted."""

    def take_redacted(self) -> Mapping[str, int]:
        """How much was taken out of the rows since it was last asked, by kind."""


class Committer:
    """Commits the batches of one file in order, each while the next one is being read.

    The lake's connection is used by one thread at a time: this one's, until `wait` has returned.
    """

    def __init__(self, lake: Lake, source: Rows, cursor: Cursor, now: datetime) -> None:
        self._lake = lake
        self._source = source
        self._cursor = cursor
        self._now = now
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._pending: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True)

    def commit(self, batch: Batch) -> None:
        """Begin to commit a batch; raises what the one before it raised."""
        self.wait()
        self._pending = self._pool.submit(self._commit, batch)

    def wait(self) -> None:
        """Wait for the batch at work; raises what it raised, `OvertakenError` among it."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def _commit(self, batch: Batch) -> None:
        cursor, settled = self._cursor, batch.settled
        if settled is None:
            raise TracemillError("a batch without its place in the file; this is a bug, nothing was written: report it")
        version = cursor.version + 1
        notes = sorted({*settled.notes, *(() if cursor.has_committed else cursor.notes)})
        with self._lake.transaction() as transaction:
            self._expect_version(transaction)
            landed, num_landed, num_duplicates = _unknown(transaction, batch)
            row: dict[str, Any] = {
                "uri": cursor.uri,
                "file_version": version,
                "content_kind": self._source.content_kind,
                "bytes_read": settled.bytes_read,
                "content_sha256": settled.content_sha256,
                "size_on_disk": cursor.size_on_disk,
                "num_lines": batch.num_lines,
                "num_landed": num_landed,
                "num_duplicates": num_duplicates,
                "num_rejects": len(batch.rejects),
                "num_blank": batch.num_blank,
                "notes": notes,
                "ingested_at": self._now,
            }
            if landed:
                self._append(transaction, landed)
            if batch.held is not None:
                self._append(transaction, self._corrections(transaction, batch.held, settled))
            redacted = batch.redacted + Counter(self._source.take_redacted())
            row["redacted_json"] = json.dumps(redacted, sort_keys=True) if redacted else None
            if batch.rejects:
                stamp = {"file_version": version, "ingested_at": self._now}
                transaction.append("rejects", [{**reject, **stamp} for reject in batch.rejects])
            transaction.append("source_files", [row])
        cursor.version = version
        cursor.has_committed = True
        cursor.notes.update(notes)
        cursor.counts.update({name: row[name] for name in COUNTS} | {"num_rows": len(landed)})
        cursor.reasons.update(reject["reason"] for reject in batch.rejects)

    def _append(self, transaction: Transaction, landed: Sequence[Placed]) -> None:
        for name, rows in self._source.rows(landed, self._now).items():
            transaction.append(name, rows)

    def _corrections(self, transaction: Transaction, held: Sequence[str], settled: Settled) -> list[Placed]:
        """What the changed re-export says by leaving something out, placed at the end of the file that says it."""
        found = corrections(transaction.query, self._cursor.uri, held, now=self._now)
        items = [ReadOutcome(outcome.item_id, outcome) for outcome in found]
        return [Placed(item, self._cursor.uri, settled.bytes_read, settled.content_sha256) for item in items]

    def _expect_version(self, transaction: Transaction) -> None:
        wanted = pa.table({"uri": [self._cursor.uri]})
        found = transaction.query("ingest/latest_readings", {"wanted": wanted})["file_version"].to_pylist()
        if (found[0] if found else -1) != self._cursor.version:
            raise OvertakenError


def _unknown(transaction: Transaction, batch: Batch) -> tuple[list[Placed], int, int]:
    """The rows that are not in the lake yet, and how many lines brought one and how many none."""
    seen: set[str] = set()
    for name, query in _KNOWN.items():
        ids = [placed.item.item_id for placed in batch.placed if placed.item.table == name]
        if ids:
            seen.update(transaction.query(query, {"incoming": pa.table({"item_id": ids})})["item_id"].to_pylist())
    landed: list[Placed] = []
    has_new: dict[int, bool] = {}
    for placed in batch.placed:
        is_new = placed.item.item_id not in seen
        seen.add(placed.item.item_id)
        if is_new:
            landed.append(placed)
        has_new[placed.byte_offset] = has_new.get(placed.byte_offset, False) or is_new
    num_landed = sum(has_new.values())
    return landed, num_landed, len(has_new) - num_landed
