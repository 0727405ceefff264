"""A source to tables, exactly once: each batch of lines, its rejects and its ledger row commit together or not at all.

A kill at any moment leaves whole batches; the next reading goes on where the ledger ends. Memory is bounded by the
batch and the longest line, whatever the size of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from ingest.call_rows import CallSource
from ingest.lines import CHUNK_BYTES, Line, LineReader
from ingest.meaning import Deployment
from ingest.outcomes import OutcomeSource
from ingest.redact import user_salt
from ingest.rejects import is_cut, reject_row
from ingest.report import FileReport, FileState, LandReport
from ingest.settings import LogSettings
from ingest.sources import expand
from schemas.errors import LineError
from schemas.progress import Progress, silent
from warehouse.lake import Lake
from warehouse.transaction import Transaction


class Item(Protocol):
    """One row in the making."""

    @property
    def item_id(self) -> str:
        """Its identity: a second delivery of the same content has the same."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One row in the making, and where its line lies."""

    item: Any
    uri: str
    byte_offset: int
    line_sha256: str


class Source(Protocol):
    """What the lines of a file are: calls or outcomes."""

    content_kind: str
    """The table that they go to; what the ledger says."""
    known_query: str
    """Named query: which of the incoming ids are in the table."""

    def begin(self, head: bytes) -> None:
        """A file begins; `head` is how its part that was read before begins, empty at a first reading."""

    def read(self, line: Line) -> Sequence[Item] | None:
        """The rows of one line, None for a header; raises LineError for a line that has none."""

    def rows(self, landed: Sequence[Placed], now: datetime) -> pa.Table:
        """The rows as columns of the table."""


def land_calls(
    lake: Lake,
    uris: Sequence[str],
    *,
    deployments: Mapping[str, Deployment],
    settings: LogSettings,
    now: datetime,
    progress: Progress = silent,
) -> LandReport:
    """Read log files, folders or patterns into `calls`, each call once whatever was delivered how often.

    Files are read on from where the last reading ended; one whose read part has changed is read again from its
    beginning, and the lines that had landed count as duplicates.
    """
    source = CallSource(deployments, user_salt(settings.user_salt_env, lake.root))
    return _Lander(lake, source, settings, now, progress).land(expand(uris))


def land_outcomes(
    lake: Lake, uris: Sequence[str], *, settings: LogSettings, now: datetime, progress: Progress = silent
) -> LandReport:
    """Read score files (CSV or JSON lines) into `outcomes`, each event once; revisions are later events."""
    return _Lander(lake, OutcomeSource(), settings, now, progress).land(expand(uris))


@dataclass(slots=True)
class _Batch:
    """Lines that will be committed together."""

    placed: list[Placed] = field(default_factory=list)
    rejects: list[dict[str, Any]] = field(default_factory=list)
    num_lines: int = 0
    num_blank: int = 0
    num_bytes: int = 0


@dataclass(slots=True)
class _Cursor:
    """Where the reading of one file stands."""

    uri: str
    state: FileState
    version: int
    """Of the ledger row that was last committed; -1 when there is none."""
    tail_sha256: str | None = None
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    notes: set[str] = field(default_factory=set)
    has_committed: bool = False


class _OvertakenError(Exception):
    """Another process committed lines of the same file in between."""


class _Lander:
    """Lands files one after the other."""

    def __init__(self, lake: Lake, source: Source, settings: LogSettings, now: datetime, progress: Progress) -> None:
        self._lake = lake
        self._source = source
        self._settings = settings
        self._now = now
        self._progress = progress
        self._done_bytes = self._total_bytes = 0

    def land(self, uris: Sequence[str]) -> LandReport:
        """Land the files in this order."""
        self._total_bytes = sum(Path(uri).stat().st_size for uri in uris)
        readings = self._readings(uris)
        reports = []
        for uri in uris:
            report = None
            while report is None:
                try:
                    report = self._file(uri, readings.get(uri))
                except _OvertakenError:  # what the other process read is in the ledger now
                    readings |= self._readings([uri])
            reports.append(report)
            self._done_bytes += Path(uri).stat().st_size
        return LandReport(tuple(reports))

    def _readings(self, uris: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The ledger's latest word on each file that was read before."""
        wanted = pa.table({"uri": pa.array(uris, pa.string())})
        return {row["uri"]: row for row in self._lake.query("ingest/latest_readings", {"wanted": wanted}).to_pylist()}

    def _file(self, uri: str, last: Mapping[str, Any] | None) -> FileReport:
        if last is not None:
            cursor = _Cursor(uri, "grown", last["file_version"], last["tail_sha256"])
            with self._reader(uri) as reader:
                if reader.skip(last["bytes_read"], last["content_sha256"]):
                    return self._rest(reader, cursor)
        version = -1 if last is None else last["file_version"]
        cursor = _Cursor(uri, "new" if last is None else "changed", version)
        if last is not None:
            cursor.notes.add("file_changed")
        with self._reader(uri) as reader:
            return self._rest(reader, cursor)

    def _reader(self, uri: str) -> LineReader:
        return LineReader(uri, self._settings.max_line_bytes, min(CHUNK_BYTES, self._settings.batch_bytes))

    def _rest(self, reader: LineReader, cursor: _Cursor) -> FileReport:
        """Land the lines that follow, in batches."""
        self._source.begin(reader.head)
        batch = _Batch()
        for block in reader.blocks():
            for line in block:
                self._line(batch, line, reader, cursor)
            self._tell(reader, cursor)
            if batch.num_bytes >= self._settings.batch_bytes:
                self._commit(batch, reader, cursor)
                batch = _Batch()
        is_late_note = cursor.has_committed and not cursor.notes.issuperset(reader.notes)
        is_unheard_of = not cursor.has_committed and cursor.state != "grown"
        if batch.num_lines or is_late_note or is_unheard_of:
            self._commit(batch, reader, cursor)
        return FileReport(
            uri=cursor.uri,
            state=cursor.state if cursor.has_committed else "unchanged",
            rejects_by_reason=dict(cursor.reasons),
            notes=tuple(sorted({*cursor.notes, *reader.notes})),
            **{name: cursor.counts[name] for name in (*_COUNTS, "num_rows")},
        )

    def _line(self, batch: _Batch, line: Line, reader: LineReader, cursor: _Cursor) -> None:
        """Read one line into the batch; it is a row in the making, a reject or blank."""
        batch.num_bytes += line.num_bytes + 1
        try:
            items = self._read(line)
        except LineError as error:
            if is_cut(line, error):
                if line.sha256 == cursor.tail_sha256:
                    return  # it was rejected at the last reading, and nothing has come since
            elif not line.is_terminated:
                reader.settle_tail()
            batch.rejects.append(reject_row(cursor.uri, line, error))
        else:
            if not line.is_terminated:
                reader.settle_tail()
            if items is None:  # a header is no line of content
                return
            batch.num_blank += not line.text.strip()
            batch.placed += [Placed(item, cursor.uri, line.byte_offset, line.sha256) for item in items]
        batch.num_lines += 1

    def _read(self, line: Line) -> Sequence[Item] | None:
        if line.is_too_long:
            limit = self._settings.max_line_bytes
            raise LineError("line_too_long", f"{line.num_bytes} bytes; expected {limit} at most: raise max_line_bytes")
        return self._source.read(line) if line.text.strip() else ()

    def _commit(self, batch: _Batch, reader: LineReader, cursor: _Cursor) -> None:
        """Write the rows, the rejects and the ledger row in one transaction."""
        version = cursor.version + 1
        notes = sorted({*reader.notes, *(() if cursor.has_committed else cursor.notes)})
        with self._lake.transaction() as transaction:
            self._expect_version(transaction, cursor)
            landed, num_landed, num_duplicates = self._unknown(transaction, batch)
            row = {
                "uri": cursor.uri,
                "file_version": version,
                "content_kind": self._source.content_kind,
                "bytes_read": reader.bytes_read,
                "content_sha256": reader.content_sha256,
                "size_on_disk": reader.size_on_disk,
                "num_lines": batch.num_lines,
                "num_landed": num_landed,
                "num_duplicates": num_duplicates,
                "num_rejects": len(batch.rejects),
                "num_blank": batch.num_blank,
                "notes": notes,
                "ingested_at": self._now,
            }
            if landed:
                transaction.append(self._source.content_kind, self._source.rows(landed, self._now))
            if batch.rejects:
                transaction.append("rejects", [{**reject, **self._stamp(version)} for reject in batch.rejects])
            transaction.append("source_files", [row])
        cursor.version = version
        cursor.has_committed = True
        cursor.notes.update(notes)
        cursor.counts.update({name: row[name] for name in _COUNTS} | {"num_rows": len(landed)})
        cursor.reasons.update(reject["reason"] for reject in batch.rejects)
        self._tell(reader, cursor)

    def _stamp(self, version: int) -> dict[str, Any]:
        return {"file_version": version, "ingested_at": self._now}

    def _expect_version(self, transaction: Transaction, cursor: _Cursor) -> None:
        wanted = pa.table({"uri": [cursor.uri]})
        found = transaction.query("ingest/latest_readings", {"wanted": wanted})["file_version"].to_pylist()
        if (found[0] if found else -1) != cursor.version:
            raise _OvertakenError

    def _unknown(self, transaction: Transaction, batch: _Batch) -> tuple[list[Placed], int, int]:
        """The rows that are not in the lake yet, and how many lines brought one and how many none."""
        if not batch.placed:
            return [], 0, 0
        incoming = pa.table({"item_id": [placed.item.item_id for placed in batch.placed]})
        seen = set(transaction.query(self._source.known_query, {"incoming": incoming})["item_id"].to_pylist())
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

    def _tell(self, reader: LineReader, cursor: _Cursor) -> None:
        done = self._done_bytes + min(reader.bytes_taken, reader.size_on_disk)
        self._progress(f"ingest {self._source.content_kind}", done, self._total_bytes, "bytes", Path(cursor.uri).name)


_COUNTS = ("num_lines", "num_landed", "num_duplicates", "num_rejects", "num_blank")
