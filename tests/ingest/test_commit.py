"""Batches commit in order, whole or not at all; what one raises ends the file, and nothing behind it is committed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest import land as landing
from ingest.ahead import Settled
from ingest.batch import Batch, Cursor, Placed
from ingest.commit import Committer, OvertakenError
from ingest.log_source import ReadOutcome
from ingest.outcome import outcome_from
from ingest.outcome_rows import outcome_rows
from ingest.redact import Redactor, RedactSettings
from schemas.errors import LakeError, TracemillError
from tests.ingest.hand_made import NOW, first_call, write
from tests.ingest.night_made import land, ledger_adds_up
from tests.ingest.score_examples import PLAIN
from warehouse.lake import Lake
from warehouse.transaction import Transaction

FILE = "/logs/scores"


class Scores:
    """Makes rows of scores, and fails where it is told to."""

    content_kind = "outcomes"

    def __init__(self, fails: Callable[[list[str]], None] = lambda _traces: None) -> None:
        self._fails = fails
        self._redactor = Redactor(RedactSettings(), b"")

    def rows(self, landed: Any, now: Any) -> dict[str, Any]:
        """The rows of the one table."""
        self._fails([placed.item.outcome.trace_id for placed in landed])
        return {"outcomes": outcome_rows(landed, self._redactor, now)}

    def take_redacted(self) -> dict[str, int]:
        """Nothing was."""
        return {}


def batch(*traces: str, at: int = 0) -> Batch:
    """A batch with one line a trace, at this offset of the file and the ones that follow."""
    outcomes = [outcome_from({**PLAIN, "trace_id": trace}) for trace in traces]
    placed = [
        Placed(ReadOutcome(one.item_id, one), FILE, at + place, f"{at + place}") for place, one in enumerate(outcomes)
    ]
    settled = Settled(at + len(traces), f"after {at + len(traces)}", at + len(traces), ())
    return Batch(placed=placed, num_lines=len(traces), settled=settled)


def fails_on(trace: str, error: BaseException) -> Callable[[list[str]], None]:
    """Fails on a batch that holds the trace."""

    def fail(traces: list[str]) -> None:
        if trace in traces:
            raise error

    return fail


@pytest.fixture
def cursor() -> Cursor:
    """Before the first line of a new file."""
    return Cursor(FILE, "new", 100, -1)


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    assert not [one for one in threading.enumerate() if one.name.startswith(("commit", "read-ahead"))]


def traces(lake: Lake) -> list[str]:
    """The traces that have a score."""
    return sorted(lake.read("outcomes")["trace_id"].to_pylist())


def versions(lake: Lake) -> list[tuple[int, int]]:
    """Version and settled bytes of each ledger row."""
    rows = lake.read("source_files", order_by=["file_version"]).to_pylist()
    return [(row["file_version"], row["bytes_read"]) for row in rows]


def test_batches_commit_in_order(lake, cursor):
    """Each is a version of the file; the cursor adds them up."""
    with Committer(lake, Scores(), cursor, NOW) as committer:
        committer.commit(batch("a", "b"))
        committer.commit(batch("b", "c", at=2))
        committer.wait()
    assert traces(lake) == ["a", "b", "c"]
    assert versions(lake) == [(0, 2), (1, 4)]
    assert (cursor.counts["num_landed"], cursor.counts["num_duplicates"], cursor.counts["num_rows"]) == (3, 1, 3)
    assert (cursor.version, cursor.has_committed) == (1, True)


@pytest.mark.parametrize("asks", ["commit", "wait"])
@pytest.mark.parametrize("error", [LakeError("full disk"), KeyboardInterrupt(), MemoryError()])
def test_a_commit_that_fails_is_raised_at_the_next_question(lake, cursor, error, asks):
    """The batch before stays, and nothing of this one or behind it is there, its own ledger row included."""
    with pytest.raises(type(error)) as caught:  # noqa: PT012, SIM117 - what the committer raises, not its end
        with Committer(lake, Scores(fails_on("c", error)), cursor, NOW) as committer:
            committer.commit(batch("a", "b"))
            committer.commit(batch("c", at=2))
            if asks == "wait":
                committer.wait()
            committer.commit(batch("d", at=3))
    assert caught.value is error
    assert traces(lake) == ["a", "b"]
    assert versions(lake) == [(0, 2)]
    assert (cursor.version, cursor.counts["num_lines"]) == (0, 2)


def test_a_commit_that_fails_is_raised_once(lake, cursor):
    """Waiting again has nothing to wait for."""
    with Committer(lake, Scores(fails_on("a", LakeError("full disk"))), cursor, NOW) as committer:
        committer.commit(batch("a"))
        with pytest.raises(LakeError):
            committer.wait()
        committer.wait()
    assert versions(lake) == []


def test_leaving_waits_for_the_batch_at_work(lake, cursor):
    """An error of the reader costs no batch that was whole."""
    with pytest.raises(ZeroDivisionError), Committer(lake, Scores(), cursor, NOW) as committer:  # noqa: PT012 - what is raised must come from the last question
        committer.commit(batch("a"))
        raise ZeroDivisionError
    assert traces(lake) == ["a"]


def test_a_file_that_another_process_read_on_is_not_committed(lake, cursor):
    """Its version has moved on, so that these lines may be there already."""
    with Committer(lake, Scores(), Cursor(FILE, "new", 100, -1), NOW) as other:
        other.commit(batch("a"))
    with pytest.raises(OvertakenError), Committer(lake, Scores(), cursor, NOW) as committer:  # noqa: PT012 - what is raised must come from the last question
        committer.commit(batch("a", "b"))
        committer.wait()
    assert traces(lake) == ["a"]


def test_a_batch_without_its_place_is_refused(lake, cursor):
    """It would be read again for ever."""
    with pytest.raises(TracemillError, match="bug"), Committer(lake, Scores(), cursor, NOW) as committer:  # noqa: PT012 - what is raised must come from the last question
        committer.commit(Batch(num_lines=1))
        committer.wait()
    assert versions(lake) == []


def test_a_line_with_a_known_and_a_new_item_has_landed(lake, cursor):
    """One line is one state, whatever it holds."""
    two = batch("a", "b")
    two.placed = [Placed(placed.item, FILE, 0, "0") for placed in two.placed]
    two.num_lines = 1
    with Committer(lake, Scores(), cursor, NOW) as committer:
        committer.commit(batch("a"))
        committer.commit(two)
        committer.commit(two)
        committer.wait()
    assert [cursor.counts[name] for name in ("num_landed", "num_duplicates", "num_rows")] == [2, 1, 2]


LINES = [first_call(trace_id=f"t{n}") for n in range(40)]


@pytest.mark.parametrize("moment", [1, 3, 9])
def test_a_reading_that_is_interrupted_leaves_whole_batches(lake, tmp_path, monkeypatch, moment):
    """Ctrl-C while a line is read: the ledger says what the tables hold, and the next reading goes on."""
    path = write(tmp_path / "log", *LINES, b"oops")
    tell, told = landing._Lander._tell, iter(range(1, 10**6))

    def interrupted(*said: Any) -> None:
        tell(*said)
        if next(told) == moment:
            raise KeyboardInterrupt

    monkeypatch.setattr(landing._Lander, "_tell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        land(lake, path, batch_bytes=4096)
    _is_whole_and_goes_on(lake, path, monkeypatch)


@pytest.mark.parametrize("number", [1, 4])
def test_a_landing_whose_commit_fails_leaves_the_batches_before(lake, tmp_path, monkeypatch, number):
    """A full disk at the commit of that number."""
    path = write(tmp_path / "log", *LINES, b"oops")
    commit, counted = Transaction._commit, iter(range(1, 10**6))

    def failing(self: Transaction) -> None:
        if next(counted) == number:
            raise LakeError("no space left on the disk")
        commit(self)

    monkeypatch.setattr(Transaction, "_commit", failing)
    with pytest.raises(LakeError, match="no space left"):
        land(lake, path, batch_bytes=4096)
    assert lake.read("source_files").num_rows == number - 1
    _is_whole_and_goes_on(lake, path, monkeypatch)


def _is_whole_and_goes_on(lake: Lake, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger_adds_up(lake)
    rows = lake.read("source_files").to_pylist()
    num_calls = lake.read("calls").num_rows
    assert sum(row["num_landed"] for row in rows) == num_calls < len(LINES)
    if rows:
        settled = Path(path).read_bytes()[: max(row["bytes_read"] for row in rows)]
        assert settled.count(b"\n") == num_calls
    monkeypatch.undo()
    (file,) = land(lake, path, batch_bytes=4096).files
    assert (file.num_landed, file.num_rejects) == (len(LINES) - num_calls, 1)
    ledger_adds_up(lake)
