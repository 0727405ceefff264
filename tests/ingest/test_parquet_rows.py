"""Rows of a Parquet file as lines of JSON."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.files import open_lines
from ingest.line import Line
from ingest.parquet_rows import ParquetReader

CALLS = pa.table({"trace_id": [f"t{n}" for n in range(10)], "logprobs": [[-0.5, -n / 4] for n in range(10)]})


def read(path, *, limit: int = 2**20, chunk: int = 2**20) -> tuple[list[Line], ParquetReader]:
    """All rows of a file, and its reader afterwards."""
    with open_lines(str(path), limit, chunk) as reader:
        assert isinstance(reader, ParquetReader)
        return [line for block in reader.blocks() for line in block], reader


@pytest.mark.parametrize("chunk", [1, 100, 2**20])
def test_each_row_is_a_line_known_by_its_number(tmp_path, chunk):
    """Through row groups, and whatever is decoded at once."""
    pq.write_table(CALLS, tmp_path / "log", row_group_size=4)
    lines, reader = read(tmp_path / "log", chunk=chunk)
    assert [json.loads(line.text) for line in lines] == CALLS.to_pylist()
    assert [line.byte_offset for line in lines] == list(range(10))
    assert lines[1].text == b'{"trace_id":"t1","logprobs":[-0.5,-0.25]}'
    assert lines[1].sha256 == hashlib.sha256(lines[1].text).hexdigest()
    assert (reader.bytes_read, reader.notes) == (10, [])


def test_values_are_written_as_they_are(tmp_path):
    """Nothing that JSON has no form for is rounded away in silence."""
    pair = pa.map_(pa.string(), pa.int64())
    columns = {
        "at": pa.array([datetime(2026, 11, 22, 8, tzinfo=UTC)], pa.timestamp("ns", "UTC")),
        "local": pa.array([datetime(2026, 11, 22, 8)], pa.timestamp("ms")),  # noqa: DTZ001 - that it has no zone is tested
        "day": pa.array([date(2026, 11, 22)]),
        "clock": pa.array([time(8, 30)], pa.time64("ns")),
        "lasted": pa.array([timedelta(seconds=1.5)]),
        "big": pa.array([2**63 - 1]),
        "price": pa.array([Decimal("1.50")]),
        "whole": pa.array([Decimal("12.00")]),
        "nan": pa.array([float("nan")]),
        "nothing": pa.array([None], pa.float64()),
        "tags": pa.array([[("a", 1)]], pair),
        "utf8": pa.array(["ä".encode()], pa.binary()),
        "bytes": pa.array([b"\xff\xfe"], pa.binary()),
        "request": pa.array(['{"model": "m"}'], pa.json_(pa.string())),
        "inner": pa.array(
            [{"at": datetime(2026, 11, 22, 8, tzinfo=UTC)}], pa.struct({"at": pa.timestamp("ns", "UTC")})
        ),
    }
    pq.write_table(pa.table(columns), tmp_path / "log")
    (line,), _ = read(tmp_path / "log")
    assert line.text.decode() == (
        '{"at":"2026-11-22T08:00:00+00:00","local":"2026-11-22T08:00:00","day":"2026-11-22","clock":"08:30:00",'
        '"lasted":1.5,"big":9223372036854775807,"price":1.5,"whole":12,"nan":NaN,"nothing":null,"tags":{"a":1},'
        '"utf8":"ä","bytes":"//4=","request":{"model": "m"},"inner":{"at":"2026-11-22T08:00:00+00:00"}}'
    )


def test_a_row_that_cannot_be_written_costs_no_neighbour(tmp_path):
    """Here a string that is no UTF-8."""
    column = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff", b"c"], pa.binary()).buffers())
    pq.write_table(pa.table({"text": column}), tmp_path / "log")
    lines, _ = read(tmp_path / "log")
    assert [line.text for line in lines] == [b'{"text":"a"}', b"", b'{"text":"c"}']
    assert [line.fault and line.fault.reason for line in lines] == [None, "bad_unicode", None]


def test_reading_goes_on_at_a_row_of_the_same_file(tmp_path):
    """Any other hash is another file."""
    pq.write_table(CALLS, tmp_path / "log", row_group_size=4)
    whole = hashlib.sha256((tmp_path / "log").read_bytes()).hexdigest()
    for num_read in (0, 3, 4, 9, 10):
        with open_lines(str(tmp_path / "log"), 2**20, 1) as reader:
            assert not reader.skip(num_read, "0" * 64)
            assert reader.skip(num_read, whole)
            assert [line.byte_offset for block in reader.blocks() for line in block] == list(range(num_read, 10))


def test_a_row_over_the_limit_is_a_reject(tmp_path):
    """Its neighbours are read."""
    pq.write_table(pa.table({"text": ["a", "b" * 3000, "c"]}), tmp_path / "log")
    lines, _ = read(tmp_path / "log", limit=1000)
    assert [(line.num_bytes, line.fault is not None) for line in lines] == [(12, False), (3011, True), (12, False)]
    assert len(lines[1].text) == 200


def test_a_damaged_row_group_costs_no_other(tmp_path):
    """Its rows are one reject that says how many they were."""
    pq.write_table(CALLS, tmp_path / "log", row_group_size=4, compression="zstd", use_dictionary=False)
    about = pq.ParquetFile(tmp_path / "log").metadata.row_group(1).column(0)
    content = bytearray((tmp_path / "log").read_bytes())
    start, size = about.data_page_offset, about.total_compressed_size
    content[start : start + size] = b"\xff" * size
    (tmp_path / "log").write_bytes(content)
    lines, reader = read(tmp_path / "log")
    assert [line.byte_offset for line in lines] == [0, 1, 2, 3, 4, 8, 9]
    assert [line.byte_offset for line in lines if line.fault is not None] == [4]
    assert "4 rows" in str(lines[4].fault)
    assert reader.notes == ["damaged_file"]


@given(st.data())
def test_any_damage_ends_in_lines_and_faults(tmp_path_factory, data):
    """Nothing is raised, wherever the file was cut or written over."""
    buffer = io.BytesIO()
    pq.write_table(CALLS, buffer, row_group_size=4)
    content = bytearray(buffer.getvalue())
    place = data.draw(st.integers(4, len(content) - 1))
    content[place : place + data.draw(st.integers(1, 4))] = data.draw(st.binary(max_size=4))
    path = tmp_path_factory.mktemp("any") / "log"
    path.write_bytes(content[: data.draw(st.integers(4, len(content)))])
    lines, _ = read(path)
    assert all(line.fault is not None or json.loads(line.text) for line in lines)


def test_a_file_that_is_still_being_written_is_read_again(tmp_path):
    """Without its footer no row can be found; it counts as cut."""
    pq.write_table(CALLS, tmp_path / "log")
    content = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(content[:-20])
    (line,), reader = read(tmp_path / "log")
    assert (line.fault is not None, line.is_terminated, reader.bytes_read) == (True, False, 0)


def test_a_name_that_is_no_text_damages_the_file(tmp_path):
    """In the schema of Parquet, or in the one that Arrow adds."""
    pq.write_table(pa.table({"badname": ["a"]}), tmp_path / "log", store_schema=False)
    content = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(content.replace(b"badname", b"bad\xff\xfeme"))
    pq.write_table(pa.table({"badname": ["a"]}), tmp_path / "arrow")
    content = (tmp_path / "arrow").read_bytes()
    at = content.index(b"ARROW:schema") + 20
    (tmp_path / "arrow").write_bytes(content[:at] + b"!" * 40 + content[at + 40 :])
    for name in ("log", "arrow"):
        (line,), reader = read(tmp_path / name)
        assert line.fault is not None
        assert (line.fault.reason, reader.notes) == ("damaged_bytes", ["damaged_file"])
