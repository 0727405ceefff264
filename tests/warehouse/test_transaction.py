"""All of a transaction or none of it, whatever happens to the writer."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from schemas.errors import InputError, LakeBusyError, UsageError
from tests.warehouse.rows import reject, source_file
from warehouse import audit
from warehouse.lake import Lake
from warehouse.maintain import remove_orphans

APPEND = """
import sys
from pathlib import Path
from tests.warehouse.rows import reject
from warehouse.lake import Lake
root, name, num_appends = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with Lake.open(root) as lake:
    for batch in range(num_appends):
        with lake.transaction() as transaction:
            transaction.append("rejects", [reject(name, batch * 7 + row) for row in range(7)])
        print(batch, flush=True)
"""
HANG = """
import sys, time
from pathlib import Path
from tests.warehouse.rows import reject
from warehouse.lake import Lake
with Lake.open(Path(sys.argv[1])) as lake, lake.transaction() as transaction:
    transaction.append("rejects", [reject("hung", row) for row in range(7)])
    print("written", flush=True)
    time.sleep(60)
"""
HOLD_CATALOG = """
import sqlite3, sys, time
catalog = sqlite3.connect(sys.argv[1])
catalog.execute("begin immediate")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
catalog.rollback()
"""


HOUSE = Path(__file__).resolve().parents[2]


@contextmanager
def running(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process of this checkout that runs the program; it does not outlive the block."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HOUSE) as process:
        try:
            yield process
        finally:
            process.kill()


def append_then(
    error: Exception | None, lake: Lake, rejects: Sequence[Mapping[str, object]] = (reject("a", 0),)
) -> None:
    """Append to two tables in one transaction, and fail at its end."""
    with lake.transaction() as transaction:
        transaction.append("source_files", [source_file("a", 0, rejects=1)])
        transaction.append("rejects", rejects)
        if error is not None:
            raise error


def test_tables_commit_together(lake):
    """What one transaction appends to two tables is there after it, in both."""
    with lake.transaction() as transaction:
        assert transaction.append("source_files", [source_file("a", 0, rejects=1)]) == 1
        assert transaction.append("rejects", [reject("a", 0)]) == 1
    assert (lake.read("source_files").num_rows, lake.read("rejects").num_rows) == (1, 1)


def test_a_transaction_sees_its_own_rows(lake):
    """Queries and reads inside the block include what it appended."""
    with lake.transaction() as transaction:
        transaction.append("source_files", [source_file("a", 3)])
        assert transaction.query("file_counts")["num_landed"].to_pylist() == [3]
        assert lake.read("source_files").num_rows == 1


def test_a_failed_transaction_leaves_nothing(lake):
    """An exception in the block takes back every table and every file."""
    before = lake.snapshot()
    with pytest.raises(RuntimeError):
        append_then(RuntimeError(), lake)
    assert (lake.read("source_files").num_rows, lake.read("rejects").num_rows) == (0, 0)
    assert lake.snapshot() == before
    assert list(lake.data_folder.rglob("*.parquet")) == []


def test_a_refused_row_takes_the_whole_transaction_back(lake):
    """A bad row in the second append undoes the first."""
    with pytest.raises(InputError):
        append_then(None, lake, [reject("a", 0), reject("a", 1, "no_such_reason")])
    assert lake.read("source_files").num_rows == 0


def test_appending_no_rows_writes_no_file(lake):
    """An empty append is no append."""
    with lake.transaction() as transaction:
        assert transaction.append("rejects", []) == 0
    assert list(lake.data_folder.rglob("*.parquet")) == []


def test_an_unknown_table_is_refused_with_the_list(lake):
    """A misspelt table names the tables there are."""
    with pytest.raises(UsageError, match="source_files"), lake.transaction() as transaction:
        transaction.append("reject", [reject("a", 0)])


def test_transactions_do_not_nest(lake):
    """A second transaction within the first is refused, and the first goes on."""
    with lake.transaction() as transaction:
        with pytest.raises(UsageError, match="one at a time"), lake.transaction():
            pass
        transaction.append("rejects", [reject("a", 0)])
    assert lake.read("rejects").num_rows == 1


def test_each_append_is_a_file_of_its_own(lake):
    """The same rows appended twice are two files: no file can be adopted a second time through our API."""
    with lake.transaction() as transaction:
        transaction.append("rejects", [reject("a", 0)])
        transaction.append("rejects", [reject("a", 0)])
    assert len(list(lake.data_folder.rglob("*.parquet"))) == 2
    assert audit.run_one(lake, "files_adopted_twice").num_rows == 0


def test_a_file_adopted_behind_our_back_is_found_by_the_audit(lake):
    """The lake itself would take one file twice; the audit names it."""
    with lake.transaction() as transaction:
        transaction.append("rejects", [reject("a", 0)])
    (path,) = lake.data_folder.rglob("*.parquet")
    with lake.exclusive(purpose="test") as connection:
        connection.execute("call ducklake_add_data_files('lake', 'rejects', $path)", {"path": str(path)}).fetchall()
    assert lake.read("rejects").num_rows == 2
    assert audit.run_one(lake, "files_adopted_twice").example == {
        "table_name": "rejects",
        "path": path.name,
        "num_times": 2,
    }


def test_two_processes_append_without_loss(lake):
    """Two writers at once: every row of both is there, each once."""
    with running(APPEND, lake.root, "left", 8) as left, running(APPEND, lake.root, "right", 8) as right:
        assert (left.wait(timeout=120), right.wait(timeout=120)) == (0, 0)
    rows = lake.read("rejects", columns=["uri", "byte_offset"]).to_pylist()
    assert len(rows) == 2 * 8 * 7
    assert {(row["uri"], row["byte_offset"]) for row in rows} == {(n, o) for n in ("left", "right") for o in range(56)}


def test_a_writer_killed_between_commits_leaves_whole_batches(lake):
    """After kill -9 the number of rows is a multiple of the batch, and the next writer goes on at once."""
    with running(APPEND, lake.root, "killed", 10_000) as writer:
        assert [writer.stdout.readline() for _ in range(3)] == ["0\n", "1\n", "2\n"]
        writer.send_signal(signal.SIGKILL)
    num_rows = lake.read("rejects").num_rows
    assert num_rows >= 21
    assert num_rows % 7 == 0
    with lake.transaction(timeout_s=1) as transaction:
        transaction.append("rejects", [reject("after", 0)])
    assert lake.read("rejects").num_rows == num_rows + 1


def test_a_writer_killed_before_its_commit_leaves_an_orphan_that_can_be_removed(lake):
    """The file of an unfinished transaction is no part of the lake; only it is removed."""
    with lake.transaction() as transaction:
        transaction.append("rejects", [reject("kept", 0)])
    kept = set(lake.data_folder.rglob("*.parquet"))
    with running(HANG, lake.root) as writer:
        assert writer.stdout.readline() == "written\n"
        with (
            pytest.raises(LakeBusyError, match=rf"process {writer.pid} \(write\) since"),
            lake.transaction(timeout_s=0.1),
        ):
            pass
        writer.send_signal(signal.SIGKILL)
    (orphan,) = set(lake.data_folder.rglob("*.parquet")) - kept
    assert lake.read("rejects").num_rows == 1
    now = datetime.now(UTC) + timedelta(seconds=1)
    assert remove_orphans(lake, now=now) == []
    assert remove_orphans(lake, now=now, min_age=timedelta(0)) == [str(orphan)]
    assert set(lake.data_folder.rglob("*.parquet")) == kept
    assert lake.read("rejects").num_rows == 1


def test_a_commit_waits_for_a_program_that_does_not_take_our_lock(lake):
    """While a foreign program holds the catalog, the commit is tried again, and the rows are there once."""
    with running(HOLD_CATALOG, lake.root / "catalog.sqlite", 0.7) as holder:
        assert holder.stdout.readline() == "held\n"
        began = time.monotonic()
        with lake.transaction() as transaction:
            transaction.append("rejects", [reject("a", 0)])
        assert time.monotonic() - began > 0.3
        assert holder.wait(timeout=60) == 0
    assert lake.read("rejects").num_rows == 1


def test_a_catalog_that_stays_locked_is_an_error_that_says_so(lake, monkeypatch):
    """After the last try the transaction is given up, and nothing of it is there."""
    monkeypatch.setattr("warehouse.transaction.BUSY_WAITS_S", (0.01, 0.01))
    with running(HOLD_CATALOG, lake.root / "catalog.sqlite", 60) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LakeBusyError, match="nothing was written"), lake.transaction() as transaction:
            transaction.append("rejects", [reject("a", 0)])
    assert lake.read("rejects").num_rows == 0


def test_an_open_reader_does_not_hold_up_a_writer(lake):
    """A reader in the middle of a transaction keeps its snapshot while a commit goes through."""
    with Lake.open(lake.root, read_only=True) as reader:
        reader._connection.execute("begin transaction")
        assert reader.read("rejects").num_rows == 0
        with lake.transaction() as transaction:
            transaction.append("rejects", [reject("a", 0)])
        assert reader.read("rejects").num_rows == 0
        reader._connection.execute("commit")
        assert reader.read("rejects").num_rows == 1
