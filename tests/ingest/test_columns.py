"""Packed numbers survive Arrow bit for bit."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ingest.columns import array_column, list_column, packed_rows


@given(
    st.lists(st.one_of(st.none(), st.lists(st.binary(min_size=4, max_size=4), max_size=5).map(b"".join)), max_size=8)
)
def test_any_packed_lists_come_back_as_they_were(pieces):
    """Empty lists, missing lists, NaN and all other bit patterns."""
    for kind in (pa.int32(), pa.float32()):
        column = pa.chunked_array([list_column(pieces, kind), list_column(pieces[:1], kind)])
        column.validate(full=True)
        assert packed_rows(column) == pieces + pieces[:1]
        assert packed_rows(column.slice(1)) == (pieces + pieces[:1])[1:]


def test_values_are_those_that_were_packed():
    """In order, with the element name of the schemas."""
    column = list_column([struct.pack("<2i", 7, -1), None, b""], pa.int32())
    assert column.to_pylist() == [[7, -1], None, []]
    assert column.type == pa.list_(pa.field("element", pa.int32()))


def test_nan_in_an_array_is_null():
    """Off the sampled spans there is no number."""
    column = array_column([np.array([-0.5, np.nan], np.float32), np.array([], np.float32)], pa.float32())
    assert column.to_pylist() == [[-0.5, None], []]
    assert array_column([np.array([True, False])], pa.bool_()).to_pylist() == [[True, False]]
