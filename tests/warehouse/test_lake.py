"""The lake as a folder: made, opened, moved, read, and read as it was."""

import shutil
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest

from schemas.columns import SCHEMA_VERSION
from schemas.errors import LakeError, LakeMissingError, UsageError
from schemas.tables import TABLES
from schemas.upgrade import STEPS
from tests.warehouse.rows import CLOCK, outcome, policy, reject
from warehouse import versions
from warehouse.extensions import EXTENSIONS, wheel_path
from warehouse.lake import Lake

PLAIN = """
import sys, duckdb
catalog, data, *extensions = sys.argv[1:]
connection = duckdb.connect()
for path in extensions:
    connection.execute(f"load '{path}'")
connection.execute(f"attach 'ducklake:sqlite:{catalog}' as mine (read_only, data_path '{data}', override_data_path true)")
query = "select trace_id, behavior_version, policy_lag, drift from mine.trace_status where trace_id = 't2'"
print(connection.execute(query).fetchall())
assert not {"warehouse", "schemas"} & set(sys.modules)
"""


def test_every_declared_table_and_view_exists_and_is_empty_at_first(empty):
    """A new lake has all tables of the schemas and all views, none with a row."""
    names = {table.name for table in TABLES}
    assert names <= set(empty.relations())
    assert {"current_traces", "latest_verdicts", "trace_drift", "trace_status"} <= set(empty.relations())
    assert all(empty.read(name).num_rows == 0 for name in empty.relations() if name != "current_clock")


def test_creating_twice_keeps_what_is_there(lake):
    """Create on an existing lake opens it."""
    with lake.transaction() as transaction:
        transaction.append("rejects", [reject("a", 0)])
    with Lake.create(lake.root) as again:
        assert again.read("rejects").num_rows == 1
        assert again.snapshot() == lake.snapshot()


def test_opening_no_lake_says_how_to_make_one(tmp_path):
    """A folder without a catalog is refused with the command that makes one."""
    with pytest.raises(LakeMissingError, match="tracemill init"):
        Lake.open(tmp_path)


def test_files_are_private_to_their_owner(lake):
    """Nobody but the owner may read the catalog, the data or the folder."""
    with lake.transaction() as transaction:
        transaction.append("rejects", [reject("a", 0)])
    modes = {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in [lake.root, *lake.root.rglob("*")]}
    assert modes == {0}


def test_a_moved_lake_still_opens(lake, tmp_path):
    """The folder can be moved or copied: data files are found beside the catalog."""
    with lake.transaction() as transaction:
        transaction.append("rejects", [reject("a", 0)])
    lake.close()
    shutil.move(lake.root, tmp_path / "elsewhere")
    with Lake.open(tmp_path / "elsewhere") as moved:
        with moved.transaction() as transaction:
            transaction.append("rejects", [reject("a", 1)])
        assert moved.read("rejects", order_by=["byte_offset"])["byte_offset"].to_pylist() == [0, 1]
        assert moved.sql("select count(*) as n from rejects")["n"].to_pylist() == [2]


def test_read_selects_columns_rows_and_order(night):
    """Conditions are all met; a list contains, None is null, and the order is the one asked for."""
    rows = night.read(
        "current_traces",
        columns=["trace_id", "sequence_index"],
        where={"trace_id": ["t3", "t1", "t4"], "workload": "refund", "user_hash": ["u1", "u2"]},
        order_by=["trace_id", "sequence_index"],
    )
    assert rows.to_pylist() == [
        {"trace_id": "t1", "sequence_index": 0},
        {"trace_id": "t3", "sequence_index": 0},
        {"trace_id": "t3", "sequence_index": 1},
    ]
    assert night.read("current_traces", where={"policy_version_min": None})["trace_id"].to_pylist() == ["t5"]
    assert night.read("current_traces", where={"trace_id": []}).num_rows == 0


def test_a_table_reads_back_in_its_declared_types(night):
    """Arrow types out of the lake are those of the schemas, list elements included."""
    for table in TABLES:
        assert night.read(table.name).schema.types == table.schema.types, table.name


def test_an_unknown_relation_is_refused_with_the_list(night):
    """A misspelt table names the tables there are."""
    with pytest.raises(UsageError, match="current_traces"):
        night.read("current_trace")


def test_a_snapshot_reads_a_table_and_a_view_as_they_were(lake):
    """Rows of later commits are not in an earlier snapshot."""
    with lake.transaction() as transaction:
        transaction.append("policies", [policy("v1", 1, "current")])
    before = lake.snapshot()
    with lake.transaction() as transaction:
        transaction.append("policies", [policy("v1", 1, "retired", revision=1), policy("v2", 2, "current")])
    assert lake.read("policies", snapshot=before).num_rows == 1
    assert lake.read("current_policy", snapshot=before)["policy_version"].to_pylist() == ["v1"]
    assert lake.read("current_policy")["policy_version"].to_pylist() == ["v2"]


def test_a_time_of_another_zone_is_the_same_instant(lake):
    """Times come back in UTC, whatever zone they were written in."""
    there = CLOCK.astimezone(timezone(timedelta(hours=5, minutes=30)))
    with lake.transaction() as transaction:
        transaction.append("outcomes", [outcome("o1", "t1", 1.0, event_time=there)])
    (found,) = lake.read("outcomes")["event_time"].to_pylist()
    assert found == datetime(2026, 11, 29, tzinfo=UTC)
    assert found.utcoffset() == timedelta(0)


def test_a_lake_opened_read_only_does_not_write(night):
    """Writing through a read-only lake is refused before anything happens."""
    with pytest.raises(UsageError, match="read-only"), night.transaction():
        pass


def test_a_newer_lake_is_refused(lake):
    """Code that does not know the lake's schema version does not touch it."""
    with lake.exclusive(purpose="test") as connection:
        connection.execute("insert into lake_version values (99, 'views', now() + interval 1 day)")
    with pytest.raises(LakeError, match="schema version 99"):
        Lake.open(lake.root)


def test_an_older_lake_is_upgraded_step_by_step(lake, monkeypatch):
    """Opening for writing runs the missing steps in order; opening read-only refuses."""
    with lake.transaction() as transaction:
        transaction.append(
            "erasures",
            [{"erasure_id": "e1", "user_hash": "u", "requested_at": CLOCK, "num_rows": 1, "tainted_policies": []}],
        )
    monkeypatch.setattr(versions, "SCHEMA_VERSION", SCHEMA_VERSION + 2)
    monkeypatch.setitem(STEPS, SCHEMA_VERSION + 1, ("alter table erasures add column ground varchar",))
    monkeypatch.setitem(STEPS, SCHEMA_VERSION + 2, ("update erasures set ground = 'asked'",))
    with pytest.raises(LakeError, match="Open it once for writing"):
        Lake.open(lake.root, read_only=True)
    with Lake.open(lake.root) as upgraded:
        assert upgraded.read("erasures", columns=["ground"])["ground"].to_pylist() == ["asked"]


def test_a_step_that_fails_leaves_the_older_lake(lake, monkeypatch):
    """An upgrade is one transaction."""
    monkeypatch.setattr(versions, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    monkeypatch.setitem(
        STEPS, SCHEMA_VERSION + 1, ("alter table erasures add column ground varchar", "select no_such_column")
    )
    with pytest.raises(Exception, match="no_such_column"):
        Lake.open(lake.root)
    assert "ground" not in lake.read("erasures").column_names


def test_plain_duckdb_reads_the_views(night):
    """DuckDB with the extension, and nothing of ours imported, attaches the lake under any name and sees the marts."""
    paths = [str(wheel_path(name)) for name in EXTENSIONS]
    command = [sys.executable, "-I", "-c", PLAIN, str(night.root / "catalog.sqlite"), f"{night.data_folder}/", *paths]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[('t2', 'v108', 1, 0.002)]"


@pytest.mark.parametrize("lost", ["missing", "empty"])
def test_a_lake_without_its_catalog_is_not_begun_anew(night, tmp_path, lost):
    """Its runs and lineage would be forgotten, and the same traces trained again."""
    shutil.copytree(night.root, tmp_path / "lake")
    catalog = tmp_path / "lake" / "catalog.sqlite"
    catalog.unlink()
    if lost == "empty":
        catalog.touch()
    with pytest.raises(LakeError, match="backup"):
        Lake.create(tmp_path / "lake")
