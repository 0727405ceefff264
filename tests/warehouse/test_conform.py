"""Rows become the declared columns, or are refused with the row and the value."""

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.columns import SCHEMA_VERSION
from schemas.errors import InputError
from schemas.tables import TABLES, table
from tests.warehouse.rows import call, policy, reject, span, trace
from warehouse.conform import conform

REJECTS, POLICIES, CALLS, TRACES = (table(name) for name in ("rejects", "policies", "calls", "traces"))


def test_a_missing_column_that_may_be_null_is_null():
    """A policy without a parent has a null there."""
    conformed = conform(POLICIES, [policy("v1", 1, "current")])
    assert conformed["parent_version"].to_pylist() == [None]
    assert conformed.schema.equals(POLICIES.schema, check_metadata=True)


def test_the_schema_version_is_stamped_whatever_the_row_says():
    """A row read from an older version and written again is of this version."""
    assert conform(POLICIES, [policy("v1", 1, "current", schema_version=0)])["schema_version"].to_pylist() == [
        SCHEMA_VERSION
    ]


@pytest.mark.parametrize("declared", TABLES, ids=lambda declared: declared.name)
def test_no_rows_conform_to_every_table(declared):
    """An empty list has the columns of the table."""
    assert conform(declared, []).schema.types == declared.schema.types


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bytes": 1}, ["rejects", "'bytes' is not declared"]),
        ({"num_bytes": None}, ["rejects.num_bytes", "null in row 1", "'byte_offset': 5"]),
        ({"num_bytes": 1.5}, ["rejects.num_bytes", "1.5 in row 1", "BIGINT"]),
        ({"num_bytes": True}, ["rejects.num_bytes", "True in row 1"]),
        ({"file_version": 2**40}, ["rejects.file_version", "1099511627776 in row 1"]),
        ({"message": 7}, ["rejects.message", "7 in row 1", "VARCHAR"]),
        ({"ingested_at": datetime(2026, 11, 29)}, ["rejects.ingested_at", "no zone"]),  # noqa: DTZ001 - the fault
        ({"ingested_at": "2026-11-29T00:00:00Z"}, ["rejects.ingested_at", "aware datetime"]),
        ({"reason": "bad_weather"}, ["rejects.reason", "'bad_weather'", "schemas/reasons.py"]),
    ],
)
def test_a_bad_value_is_refused_with_its_place(change, words):
    """The message names table, column, row, value and what was expected."""
    with pytest.raises(InputError) as refused:
        conform(REJECTS, [reject("a", 0), reject("a", 5) | change])
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_a_fraction_in_a_list_of_ids_is_refused():
    """Token id 1.7 is no 1."""
    with pytest.raises(InputError, match=r"calls\.token_ids.*1\.7"):
        conform(CALLS, [call("c1", "t1", token_ids=[1, 1.7])])


def test_an_unknown_field_of_a_span_is_refused():
    """A misspelt field of a struct does not vanish."""
    with pytest.raises(InputError, match=r"traces\.spans.*unknown field 'onwed'"):
        conform(TRACES, [trace("t1", [-0.5], spans=[span("c1", 2, 3) | {"onwed": True}])])


def test_a_fault_of_a_span_is_a_known_reason():
    """The codes inside spans come from the closed list too."""
    with pytest.raises(InputError, match=r"traces\.spans.*'broken'"):
        conform(TRACES, [trace("t1", [-0.5], spans=[span("c1", 2, 3, fault="broken")])])


def test_an_arrow_table_is_cast_safely():
    """Wider integers fit when their values do; a naive timestamp is refused."""
    rows = pa.Table.from_pylist([reject("a", 0)])
    assert conform(REJECTS, rows)["file_version"].to_pylist() == [0]
    wide = rows.set_column(1, "file_version", pa.array([2**40]))
    with pytest.raises(InputError, match=r"rejects\.file_version"):
        conform(REJECTS, wide)
    naive = rows.set_column(rows.column_names.index("ingested_at"), "ingested_at", pa.array([0], pa.timestamp("us")))
    with pytest.raises(InputError, match="without time zone"):
        conform(REJECTS, naive)


def test_arrays_of_numpy_are_lists():
    """Cells may be numpy arrays, as a scorer has them."""
    conformed = conform(CALLS, [call("c1", "t1", token_logprobs=np.array([-0.5, -1.0], np.float32))])
    assert conformed["token_logprobs"].to_pylist() == [[-0.5, -1.0]]


@given(st.lists(st.integers(-(2**31), 2**31 - 1) | st.none(), max_size=5))
def test_any_list_of_ids_arrives_unchanged(ids):
    """What is not refused is not changed."""
    assert conform(CALLS, [call("c1", "t1", token_ids=ids)])["token_ids"].to_pylist() == [ids]
