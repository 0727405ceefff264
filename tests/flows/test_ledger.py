"""What a night is called and where it stands."""

from datetime import UTC, datetime, timedelta

import pytest

from flows.ledger import begin_run, parse_night, record, runs_of
from flows.settings import load_settings
from schemas.errors import UsageError
from warehouse.lake import Lake

NOW = datetime(2026, 11, 30, 17, 5, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path):
    """The shortest settings there are."""
    file = tmp_path / "tracemill.toml"
    file.write_text('[reward]\nname = "ok"\nsource_kind = "program"\n[model]\nbase = "model"\n', encoding="utf-8")
    return load_settings(file)


def begin(lake, settings, now=NOW):
    """Begin the night of 2026-11-28."""
    return begin_run(lake, settings, night="2026-11-28", as_of=now, base_policy="v1", now=now)


def test_the_clock_of_a_past_night_is_the_end_of_its_day():
    """Ages must not depend on when the night is run."""
    assert parse_night("2026-11-28", NOW) == ("2026-11-28", datetime(2026, 11, 29, tzinfo=UTC))


def test_the_clock_of_today_is_now():
    """A day that lasts has no end yet."""
    assert parse_night(None, NOW) == ("2026-11-30", NOW)


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-12-01", "", "28.11.2026"])
def test_a_date_that_is_none_or_to_come_is_refused(text):
    """A night of tomorrow would call every reward mature."""
    with pytest.raises(UsageError, match="expected"):
        parse_night(text, NOW)


def test_an_unfinished_run_is_taken_up_again_and_keeps_its_clock(tmp_path, settings):
    """A killed night goes on under its own id."""
    with Lake.create(tmp_path / "lake") as lake:
        first = begin(lake, settings)
        again = begin(lake, settings, NOW + timedelta(hours=3))
    assert (again.run_id, again.as_of, again.started_at) == (first.run_id, NOW, NOW)


def test_a_finished_run_is_followed_by_another(tmp_path, settings):
    """New lines of the same night get a run of their own."""
    with Lake.create(tmp_path / "lake") as lake:
        first = begin(lake, settings)
        record(lake, first.run_id, state="done", exit_code=0, ended_at=NOW)
        second = begin(lake, settings, NOW + timedelta(hours=1))
        known = [run.run_id for run in runs_of(lake)]
    assert second.run_id == first.run_id + ".2"
    assert known == [first.run_id, second.run_id]


def test_recording_what_stands_there_adds_no_row(tmp_path, settings):
    """A step that is done twice leaves one trail."""
    with Lake.create(tmp_path / "lake") as lake:
        run = begin(lake, settings)
        first = record(lake, run.run_id, decision="go", sentence="because")
        again = record(lake, run.run_id, decision="go", sentence="because")
        rows = lake.read("runs").num_rows
    assert (first.revision, again.revision, rows) == (1, 1, 2)
