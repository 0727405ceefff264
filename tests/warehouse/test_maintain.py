"""Upkeep changes files, never rows."""

from datetime import UTC, datetime, timedelta

from tests.warehouse.rows import reject, trace
from warehouse.maintain import compact, remove_orphans


def test_compaction_keeps_every_snapshot(lake):
    """Ten small files become one; now and then read as before."""
    snapshots = []
    for number in range(10):
        with lake.transaction() as transaction:
            transaction.append("rejects", [reject("a", number)])
        snapshots.append(lake.snapshot())
    now = datetime.now(UTC)
    assert compact(lake, now=now) == 10
    assert [lake.read("rejects", snapshot=snapshot).num_rows for snapshot in snapshots] == list(range(1, 11))
    assert lake.read("rejects", order_by=["byte_offset"])["byte_offset"].to_pylist() == list(range(10))


def test_merged_files_go_when_nobody_can_read_them_any_more(lake):
    """The files that were merged stay for a while and are deleted later."""
    for number in range(3):
        with lake.transaction() as transaction:
            transaction.append("rejects", [reject("a", number)])
    now = datetime.now(UTC)
    compact(lake, now=now)
    assert len(list(lake.data_folder.rglob("*.parquet"))) == 4
    compact(lake, now=now + timedelta(hours=49))
    assert len(list(lake.data_folder.rglob("*.parquet"))) == 1
    assert lake.read("rejects").num_rows == 3


def test_tables_with_token_lists_stay_as_they_were_written(lake):
    """DuckDB would write them again in other encodings."""
    for number in range(3):
        with lake.transaction() as transaction:
            transaction.append("traces", [trace(f"t{number}", [-0.5])])
    assert compact(lake, now=datetime.now(UTC)) == 0
    assert len(list(lake.data_folder.rglob("traces/*.parquet"))) == 3


def test_a_file_of_the_lake_is_no_orphan(lake):
    """Whatever its age, a file that a snapshot names stays."""
    with lake.transaction() as transaction:
        transaction.append("rejects", [reject("a", 0)])
    assert remove_orphans(lake, now=datetime.now(UTC) + timedelta(days=9), min_age=timedelta(0)) == []
    assert lake.read("rejects").num_rows == 1
