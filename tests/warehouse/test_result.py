"""What comes out of a query: declared types, and no relation hidden by another."""

import pyarrow as pa
import pytest

from schemas.errors import LakeError, UsageError
from tests.warehouse.rows import reject
from warehouse.lake import CATALOG, Lake
from warehouse.result import tidy


def test_sums_are_numbers_that_every_reader_knows(night):
    """A sum of integers is an int64, a decimal literal a float64; a sum beyond 64 bits is a float64."""
    found = night.sql("select sum(byte_offset) as total, 1.5 as half from calls")
    assert (found.schema.types, found.to_pylist()) == ([pa.int64(), pa.float64()], [{"total": 21, "half": 1.5}])
    huge = night.sql("select sum(n) as total from (select unnest([9223372036854775807, 1]) as n)")
    assert huge.to_pylist() == [{"total": 2.0**63}]


def test_nested_lists_have_elements():
    """Lists of structs of lists are named as the schemas name them."""
    inner = pa.list_(pa.field("l", pa.float32()))
    table = pa.table({"x": pa.array([[{"y": [0.5]}]], pa.list_(pa.field("l", pa.struct([("y", inner)]))))})
    declared = pa.list_(pa.field("element", pa.struct([("y", pa.list_(pa.field("element", pa.float32())))])))
    assert tidy(table).schema.types == [declared]
    assert tidy(table).to_pylist() == table.to_pylist()


@pytest.mark.parametrize("name", ["calls", "current_traces"])
def test_an_arrow_table_never_hides_a_table_of_the_lake(night, name):
    """A relation handed over under the name of a table or view is refused."""
    with pytest.raises(UsageError, match=f"'{name}' would hide"):
        night.query("file_counts", {name: pa.table({"x": [1]})})


def test_tables_that_a_query_declares_must_be_handed_over(night):
    """A query with a Tables section says what it expects."""
    with pytest.raises(UsageError, match="expected incoming"):
        night.query("ingest/known_calls")


def test_a_damaged_catalog_is_told_with_its_path(tmp_path):
    """A catalog that is no SQLite file is an error of the lake, with what to do."""
    (tmp_path / CATALOG).write_bytes(b"no catalog at all" * 100)
    with pytest.raises(LakeError, match=r"catalog\.sqlite: could not be attached.*restore the file"):
        Lake.open(tmp_path)


def test_a_file_that_could_not_be_written_leaves_no_trace(lake, monkeypatch):
    """When the disk is full, the half-written file goes and the transaction is taken back."""

    def full(rows, file, **options):
        file.write(b"PAR1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("warehouse.store.pq.write_table", full)
    with pytest.raises(OSError, match="No space left"), lake.transaction() as transaction:
        transaction.append("rejects", [reject("a", 0)])
    assert list(lake.data_folder.rglob("*.parquet")) == []
    monkeypatch.undo()
    with lake.transaction() as transaction:
        transaction.append("rejects", [reject("a", 0)])
    assert lake.read("rejects").num_rows == 1
