"""Parquet files: every value back bit for bit, in encodings that every reader knows."""

import math
import stat
import struct

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.tables import table
from tests.warehouse.rows import call, trace
from warehouse.conform import conform
from warehouse.store import write_parquet

CALLS, TRACES = table("calls"), table("traces")
FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True) | st.none()


def bits(values: list[float | None]) -> list[bytes | None]:
    """The four bytes of each float32; all NaN are one here, since Python does not keep their payload."""
    return [None if value is None else struct.pack("<f", math.nan if math.isnan(value) else value) for value in values]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for files."""
    return tmp_path_factory.mktemp("files")


@given(st.lists(FLOATS, max_size=20), st.lists(st.integers(0, 2**31 - 1), max_size=20))
def test_any_row_survives_parquet_bit_for_bit(folder, logprobs, ids):
    """Log-probabilities as logged, faults included, and ids come back as they were."""
    rows = conform(CALLS, [call("c1", "t1", token_logprobs=logprobs, token_ids=ids, prompt_token_ids=None)])
    (back,) = pq.read_table(write_parquet(CALLS, rows, folder)).to_pylist()
    assert bits(back["token_logprobs"]) == bits(logprobs)
    assert back["token_ids"] == ids
    assert back["prompt_token_ids"] is None


def test_duckdb_reads_the_same_bits(lake):
    """Infinities, NaN, negative zero and the smallest float leave the lake as they came."""
    values = [float("-inf"), math.nan, -0.0, 1e-45, -9999.0, None]
    with lake.transaction() as transaction:
        transaction.append("calls", [call("c1", "t1", token_logprobs=values)])
    (back,) = lake.read("calls", columns=["token_logprobs"])["token_logprobs"].to_pylist()
    assert bits(back) == bits(values)


def test_only_logprobs_are_split_by_byte(folder):
    """BYTE_STREAM_SPLIT is on float32 lists and nowhere else: DuckDB cannot read it on int32."""
    rows = conform(CALLS, [call(f"c{n}", "t1", top_token_logprobs=[[-0.1], None]) for n in range(200)])
    group = pq.read_metadata(write_parquet(CALLS, rows, folder)).row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    split = {column.path_in_schema for column in columns if "BYTE_STREAM_SPLIT" in column.encodings}
    assert split == {"token_logprobs.list.element", "top_token_logprobs.list.element.list.element"}
    assert {column.compression for column in columns} == {"ZSTD"}
    assert all(
        column.has_column_index for column in columns if column.num_values and "list" not in column.path_in_schema
    )


def test_texts_have_a_dictionary_only_when_they_repeat(folder):
    """A model name repeats, a call id does not."""
    rows = conform(CALLS, [call(f"c{n}", f"t{n}") for n in range(200)])
    group = pq.read_metadata(write_parquet(CALLS, rows, folder)).row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    dictionaries = {column.path_in_schema for column in columns if "RLE_DICTIONARY" in column.encodings}
    assert {"model", "uri"} <= dictionaries
    assert not {"call_id", "trace_id", "token_ids.list.element"} & dictionaries


def test_traces_come_in_small_row_groups(folder):
    """A reader of one trace decodes a few hundred others, not all."""
    rows = conform(TRACES, [trace(f"t{n}", [-0.5]) for n in range(1001)])
    metadata = pq.read_metadata(write_parquet(TRACES, rows, folder))
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [500, 500, 1]


def test_a_bloom_filter_excludes_a_trace_that_is_not_there(lake):
    """DuckDB skips every row group for an unknown trace id, and none that holds the one asked for."""
    with lake.transaction() as transaction:
        transaction.append("traces", [trace(f"t{n:04}", [-0.5]) for n in range(1000)])
    (path,) = lake.data_folder.rglob("*.parquet")
    probe = "select bloom_filter_excludes from parquet_bloom_probe($path, 'trace_id', $trace_id)"
    with lake.exclusive(purpose="test") as connection:
        absent = connection.execute(probe, {"path": str(path), "trace_id": "t0500x"}).fetchall()
        present = connection.execute(probe, {"path": str(path), "trace_id": "t0700"}).fetchall()
    assert absent == [(True,), (True,)]
    assert (False,) in present


def test_a_file_is_private_and_never_written_over(folder):
    """Each write makes a new file that only its owner reads."""
    rows = conform(CALLS, [call("c1", "t1")])
    first, second = (write_parquet(CALLS, rows, folder) for _ in range(2))
    assert first != second
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
