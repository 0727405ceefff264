"""Any file as lines, whatever kind of file it is and wherever it is kept."""

from __future__ import annotations

from ingest.lines import CHUNK_BYTES, LineReader, Reader
from ingest.parquet_rows import MAGIC, ParquetReader
from ingest.stored import Stored


def open_lines(uri: str, max_line_bytes: int, chunk_bytes: int = CHUNK_BYTES) -> Reader:
    """The reader of a path or URL, chosen by the first bytes of the file; `InputError` when it cannot be opened."""
    stored = Stored(uri)
    if stored.peek(len(MAGIC)) == MAGIC:
        return ParquetReader(stored, max_line_bytes, chunk_bytes)
    return LineReader(stored, max_line_bytes, chunk_bytes)
