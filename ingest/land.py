"""A source to tables, exactly once: each batch of lines, its rejects and its ledger row commit together or not at all.

A kill at any moment leaves whole batches; the next reading goes on where the ledger ends. Memory is bounded by two
batches, one being read and one being committed, and the longest line, whatever the size of the file; only a whole
re-export of scores (`logs.full_exports`) is one batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.ahead import Settled, read_ahead
from ingest.batch import COUNTS, Batch, Cursor, Item, Placed
from ingest.commit import Committer, OvertakenError
from ingest.exports import is_full_export
from ingest.files import open_lines
from ingest.lines import Line, Reader
from ingest.log_source import LogSource
from ingest.meaning import Deployment
from ingest.reading import Reading
from ingest.redact import Redactor, user_salt
from ingest.rejects import is_cut, reject_row
from ingest.report import FileReport, LandReport
from ingest.settings import LogSettings
from ingest.sources import expand
from ingest.stored import size_if_there
from ingest.workers import land_in_processes, num_workers
from schemas.errors import InputError, LineError
from schemas.progress import Progress, silent
from warehouse.lake import Lake


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
    reading = Reading(content_kind="calls", deployments=deployments, settings=settings, now=now)
    return land_files(lake, uris, reading, progress)


def land_outcomes(
    lake: Lake, uris: Sequence[str], *, settings: LogSettings, now: datetime, progress: Progress = silent
) -> LandReport:
    """Read score files into `outcomes`, each event once; revisions are later events."""
    reading = Reading(content_kind="outcomes", deployments={}, settings=settings, now=now)
    return land_files(lake, uris, reading, progress)


def land_one(lake: Lake, file: str, reading: Reading, progress: Progress) -> FileReport:
    """Land one file in this process."""
    return _Lander(lake, reading, progress).land([file])[0]


def land_files(lake: Lake, uris: Sequence[str], reading: Reading, progress: Progress = silent) -> LandReport:
    """Land files, folders or patterns, large files side by side where the machine has cores for it."""
    files = expand(uris)
    lander = _Lander(lake, reading, progress)
    changed = lander.changed(files)
    number = num_workers(reading.settings, len(changed), sum(size_if_there(file) for file in changed))
    if number == 1:
        return LandReport(tuple(lander.land(files)))
    reports = {report.uri: report for report in land_in_processes(lake.root, reading, changed, number, progress)}
    reports |= {report.uri: report for report in lander.land([file for file in files if file not in reports])}
    return LandReport(tuple(reports[file] for file in files))


BATCH_ROWS = 50_000
"""Rows and rejects that are committed together at most: each holds about 2 KB beside its text. Measured 2026-11-30."""

READ_BYTES = 2**18
"""Bytes that are read at once: as many lines, at worst, are held some times over. Convention, untested."""

INCOMPLETE = frozenset({"truncated_gzip", "truncated_zstd", "truncated_array", "damaged_file", "file_changed"})
"""Notes of a reader on a file that was not read as a whole."""


def _has_more(reader: Reader, tail_sha256: str | None) -> bool:
    """Whether anything follows what was settled, but for a cut last line that is still the same."""
    first = next((line for lines in reader.blocks() for line in lines), None)
    return first is not None and (first.is_terminated or first.sha256 != tail_sha256)


class _Lander:
    """Lands files one after the other."""

    def __init__(self, lake: Lake, reading: Reading, progress: Progress) -> None:
        self._lake = lake
        salt = user_salt(reading.settings.user_salt_env, lake.root)
        self._source = LogSource(reading, salt)
        self._redactor = Redactor(reading.settings.redact, salt)
        self._settings = reading.settings
        self._now = reading.now
        self._again = reading.again
        self._progress = progress
        self._done_bytes = self._total_bytes = 0

    def changed(self, files: Sequence[str]) -> list[str]:
        """Those files that are new to the ledger, or of another size than it says; all that are to be read again."""
        if self._again:
            return list(files)
        readings = self._readings(files)
        return [file for file in files if file not in readings or readings[file]["size_on_disk"] != size_if_there(file)]

    def land(self, uris: Sequence[str]) -> list[FileReport]:
        """Land the files in this order."""
        sizes = {uri: size_if_there(uri) for uri in uris}
        self._total_bytes = sum(sizes.values())
        readings = self._readings(uris)
        reports = []
        for uri in uris:
            report = None
            while report is None:
                try:
                    report = self._file(uri, readings.get(uri))
                except OvertakenError:  # what the other process read is in the ledger now
                    readings |= self._readings([uri])
                except InputError as error:
                    if not isinstance(error.__cause__, FileNotFoundError):
                        raise
                    report = FileReport(uri=uri, state="gone", notes=("file_gone",))
            reports.append(report)
            self._done_bytes += sizes[uri]
        return reports

    def _readings(self, uris: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The ledger's latest word on each file that was read before."""
        wanted = pa.table({"uri": pa.array(uris, pa.string())})
        return {row["uri"]: row for row in self._lake.query("ingest/latest_readings", {"wanted": wanted}).to_pylist()}

    def _file(self, uri: str, last: Mapping[str, Any] | None) -> FileReport:
        is_export = is_full_export(uri, self._settings.full_exports)
        if last is not None and not self._again:
            with self._reader(uri) as reader:
                if reader.skip(last["bytes_read"], last["content_sha256"]):
                    if is_export and _has_more(reader, last["tail_sha256"]):
                        return self._whole(uri, last, is_export=True)
                    cursor = Cursor(uri, "grown", reader.size_on_disk, last["file_version"], last["tail_sha256"])
                    return self._rest(reader, cursor) if not is_export else FileReport(uri=uri, state="unchanged")
        return self._whole(uri, last, is_export=is_export)

    def _whole(self, uri: str, last: Mapping[str, Any] | None, *, is_export: bool) -> FileReport:
        """Read a file from its beginning; a re-export is read so each time, for what it leaves out says something."""
        version = -1 if last is None else last["file_version"]
        with self._reader(uri) as reader:
            cursor = Cursor(uri, "new" if last is None else "changed", reader.size_on_disk, version)
            if last is not None and not is_export and not self._again:
                cursor.notes.add("file_changed")
            return self._rest(reader, cursor)

    def _reader(self, uri: str) -> Reader:
        return open_lines(uri, self._settings.max_line_bytes, min(READ_BYTES, self._settings.batch_bytes))

    def _rest(self, reader: Reader, cursor: Cursor) -> FileReport:
        """Land the lines that follow, in batches: one is read while the one before it is committed."""
        self._source.begin(reader.head)
        self._redactor.take_counts()  # of a batch that another process overtook
        is_export = is_full_export(cursor.uri, self._settings.full_exports)
        batch = Batch(held=[] if is_export and cursor.state == "changed" else None)
        is_tail_done = False
        with Committer(self._lake, self._source, cursor, self._now) as committer:
            with read_ahead(reader) as blocks:
                for block in blocks:
                    for line, sha256 in zip(block.lines, block.sha256s, strict=True):
                        is_tail_done = self._line(batch, line, sha256, cursor) and not line.is_terminated
                    batch.settled = block.settled
                    self._tell(block.settled, cursor)
                    if self._is_full(batch) and block.lines[-1].is_terminated and not is_export:
                        committer.commit(self._closed(batch))
                        batch = Batch()
            if is_tail_done:
                reader.settle_tail()
            committer.wait()
            batch.settled = Settled.of(reader)
            is_late_note = cursor.has_committed and not cursor.notes.issuperset(reader.notes)
            is_unheard_of = not cursor.has_committed and cursor.state != "grown"
            if batch.num_lines or is_late_note or is_unheard_of:
                committer.commit(self._closed(batch))
            committer.wait()
        return FileReport(
            uri=cursor.uri,
            state=cursor.state if cursor.has_committed else "unchanged",
            rejects_by_reason=dict(cursor.reasons),
            notes=tuple(sorted({*cursor.notes, *reader.notes})),
            **{name: cursor.counts[name] for name in (*COUNTS, "num_rows")},
        )

    def _is_full(self, batch: Batch) -> bool:
        """Whether a batch holds as much as is committed at once.

        A line may hold far more than it is long, such as a record of many calls that each repeat one prompt.
        """
        most = self._settings.batch_bytes
        num_rows = len(batch.placed) + len(batch.rejects)
        return batch.num_bytes >= most or batch.num_packed_bytes >= most or num_rows >= BATCH_ROWS

    def _closed(self, batch: Batch) -> Batch:
        """The batch as it is committed; what was not read whole says nothing by what it leaves out."""
        notes = batch.settled.notes if batch.settled is not None else ()
        if batch.rejects or INCOMPLETE.intersection(notes):
            batch.held = None
        batch.redacted.update(self._redactor.take_counts())
        return batch

    def _line(self, batch: Batch, line: Line, sha256: str, cursor: Cursor) -> bool:
        """Read one line into the batch: rows in the making, a reject or nothing; whether it is done with.

        A last line that was cut is not: it is read again when the file has grown.
        """
        batch.num_bytes += line.num_bytes + 1
        try:
            items = self._read(line)
        except LineError as error:
            was_cut = is_cut(line, error)
            if was_cut and sha256 == cursor.tail_sha256:
                return False  # it was rejected at the last reading, and nothing has come since
            batch.rejects.append(reject_row(cursor.uri, line, error, self._redactor))
            batch.num_lines += 1
            return not was_cut
        if items is not None:  # a header is no line of content
            batch.num_blank += not items
            batch.num_packed_bytes += sum(item.num_bytes for item in items)
            if batch.held is not None:
                batch.held += [item.item_id for item in items if item.table == "outcomes"]
            batch.placed += [Placed(item, cursor.uri, line.byte_offset, sha256) for item in items]
            batch.num_lines += 1
        return True

    def _read(self, line: Line) -> Sequence[Item] | None:
        if line.fault is not None:
            raise line.fault
        return self._source.read(line) if line.text.strip() else ()

    def _tell(self, settled: Settled, cursor: Cursor) -> None:
        done = self._done_bytes + min(settled.bytes_taken, cursor.size_on_disk)
        self._progress(f"ingest {self._source.content_kind}", done, self._total_bytes, "bytes", Path(cursor.uri).name)
