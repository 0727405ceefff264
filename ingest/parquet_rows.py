"""A Parquet file read as lines: each row is one line of JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.line import Line, UnfinishedLine
from ingest.stored import Stored
from schemas.errors import LineError

MAGIC = b"PAR1"

_MOST_ROWS = 1024
"""Rows that are decoded at once, at most. Convention, untested."""

_PIECE_BYTES = 2**20
_UNREADABLE = (pa.ArrowException, OSError)
_UNWRITABLE = (ValueError, TypeError, KeyError, OverflowError)


class ParquetReader:
    """Reads the rows of one file in order, a part of a row group at a time.

    `byte_offset` of a line, and `bytes_read`, count rows. `content_sha256` is of the whole file as stored, for a
    Parquet file is written once: with any other hash it is another file. Rows that cannot be read are one line with
    the fault `damaged_bytes`, and the next row group is read. A remote file is copied to a temporary one.
    """

    def __init__(self, stored: Stored, max_line_bytes: int, chunk_bytes: int) -> None:
        self._stored = stored
        self._max_line_bytes = max_line_bytes
        self._chunk_bytes = chunk_bytes
        self._temporary = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._file = stored.local_file(self._temporary)
        self.size_on_disk = stored.size
        self.notes: list[str] = []
        self.head = b""
        self.bytes_read = 0
        self._num_rows = 0
        self._file.seek(0)
        whole = hashlib.sha256()
        while piece := self._file.read(_PIECE_BYTES):
            whole.update(piece)
        self.content_sha256 = whole.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._temporary.close()
        self._stored.close()

    @property
    def bytes_taken(self) -> int:
        """The share of the rows that has been read, in bytes of the file."""
        return self.size_on_disk * self.bytes_read // max(self._num_rows, 1)

    def skip(self, num_bytes: int, sha256: str) -> bool:
        """Pass over so many rows, if it is the same file."""
        if sha256 != self.content_sha256:
            return False
        self.bytes_read = num_bytes
        self.head = b"{" if num_bytes else b""
        return True

    def blocks(self) -> Iterator[list[Line]]:
        """The rows that follow, in order."""
        try:
            file = pq.ParquetFile(self._file, pre_buffer=False)
            render = _Renderer(file)
        except (*_UNREADABLE, ValueError) as error:  # also a name that is not UTF-8
            yield [self._damaged(error, is_terminated=False)]
            return
        self._num_rows = file.metadata.num_rows
        first = 0
        for group in range(file.num_row_groups):
            first += file.metadata.row_group(group).num_rows
            if first > self.bytes_read:
                yield from self._group(file, group, first, render)

    def settle_tail(self) -> None:
        """Nothing: the end of every row is known."""

    def _group(self, file: pq.ParquetFile, group: int, end: int, render: _Renderer) -> Iterator[list[Line]]:
        about = file.metadata.row_group(group)
        row_bytes = about.total_byte_size // max(about.num_rows, 1) + 1
        num_skipped = self.bytes_read - (end - about.num_rows)
        size = max(1, min(_MOST_ROWS, self._chunk_bytes // row_bytes))
        batches = file.iter_batches(size, row_groups=[group], use_threads=False)
        try:
            for batch in batches:
                rows = batch.slice(min(num_skipped, len(batch)))
                num_skipped -= len(batch) - len(rows)
                if len(rows):
                    yield self._lines(rows, render)
        except _UNREADABLE as error:
            line = self._damaged(error, num_lost=end - self.bytes_read)
            self.bytes_read = end
            yield [line]

    def _lines(self, rows: pa.RecordBatch, render: _Renderer) -> list[Line]:
        try:
            lines = [self._line(index, text) for index, text in enumerate(render(rows))]
        except _UNWRITABLE:
            lines = [self._careful_line(index, rows.slice(index, 1), render) for index in range(len(rows))]
        self.bytes_read += len(lines)
        return lines

    def _careful_line(self, index: int, row: pa.RecordBatch, render: _Renderer) -> Line:
        try:
            return self._line(index, render(row)[0])
        except _UNWRITABLE as error:
            reason = "bad_unicode" if isinstance(error, UnicodeError) else "bad_field"
            fault = LineError(reason, f"the row cannot be written as JSON: {error}; mend the writer of the file")
            return Line(self.bytes_read + index, 0, b"", fault=fault)

    def _line(self, index: int, text: bytes) -> Line:
        line = UnfinishedLine(self._max_line_bytes)
        line.extend(text)
        return line.finish(self.bytes_read + index)

    def _damaged(self, error: Exception, *, is_terminated: bool = True, num_lost: int = 0) -> Line:
        self.notes.append("damaged_file")
        lost = f"{num_lost} rows" if num_lost else "the file"
        fault = LineError(
            "damaged_bytes", f"Parquet: {lost} cannot be read ({error}); expected a whole file: copy it again"
        )
        return Line(self.bytes_read, 0, b"", is_terminated, fault)


class _Renderer:
    """Writes rows as JSON: columns in the order of the file, those of the type JSON as they stand.

    Times are ISO 8601 to the microsecond, with the offset if they have a zone; durations are seconds; bytes are text
    where they are UTF-8, else base64; NaN and infinities are the literals, so that they are named where the line is
    read.
    """

    def __init__(self, file: pq.ParquetFile) -> None:
        columns = [file.schema.column(index) for index in range(len(file.schema.names))]
        json_paths = {column.path for column in columns if column.logical_type.type == "JSON"}
        self._names = [_encode(name) + b":" for name in file.schema_arrow.names]
        self._is_json = [name in json_paths for name in file.schema_arrow.names]
        self._types = [_to_microseconds(field.type) for field in file.schema_arrow]

    def __call__(self, rows: pa.RecordBatch) -> list[bytes]:
        """The lines of some rows; `ValueError` and its like when one of them cannot be written."""
        columns = [
            column.cast(kind, safe=False).to_pylist(maps_as_pydicts="strict")
            for column, kind in zip(rows.columns, self._types, strict=True)
        ]
        return [self._line(values) for values in zip(*columns, strict=True)]

    def _line(self, values: Sequence[Any]) -> bytes:
        members = [
            name + (_bytes(value) if is_json and isinstance(value, str | bytes) else _encode(value))
            for name, is_json, value in zip(self._names, self._is_json, values, strict=True)
        ]
        return b"{" + b",".join(members) + b"}"


def _to_microseconds(kind: pa.DataType) -> pa.DataType:
    """The same type with times as Python has them."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if kind in (pa.time64("ns"), pa.duration("ns")):
        return pa.time64("us") if pa.types.is_time64(kind) else pa.duration("us")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_to_microseconds(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_to_microseconds(field.type)) for field in kind])
    if not pa.types.is_map(kind):
        return kind
    return pa.map_(kind.key_type, kind.item_field.with_type(_to_microseconds(kind.item_type)))


def _plain(value: Any) -> Any:
    """A value that JSON has no form for, in the one that it is read back from."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)


def _encode(value: Any) -> bytes:
    return _bytes(_ENCODER.encode(value))


def _bytes(text: str | bytes) -> bytes:
    return text.encode(errors="surrogatepass") if isinstance(text, str) else text
