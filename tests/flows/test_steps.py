"""The steps around a night: when there is nothing to do, and what a decision leaves behind."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flows import steps
from flows.settings import load_settings
from schemas.errors import SettingsError, UsageError
from tests.flows import tiny_night


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Logs, outcomes and a model, not yet read."""
    return tiny_night.build(tmp_path_factory.mktemp("steps") / "desk", num_traces=8)


@pytest.fixture
def settings(desk, tmp_path):
    """The same in a folder of its own."""
    shutil.copytree(desk.parent, tmp_path / "desk")
    return load_settings(tmp_path / "desk" / "tracemill.toml")


def finished(settings):
    """Land, begin, judge and finish a night."""
    steps.land(settings)
    run = steps.start(settings, date=tiny_night.NIGHT)
    steps.admit(settings, run)
    return steps.finish(settings, run, exit_code=0)


def test_landing_twice_brings_nothing_new(settings):
    """The first reading takes all lines, the second none."""
    assert steps.land(settings).is_new
    assert not steps.land(settings).is_new


def test_a_night_that_never_ran_is_not_skipped(settings):
    """An empty ledger asks for a run."""
    steps.land(settings)
    assert steps.reason_to_skip(settings, date=tiny_night.NIGHT) is None


def test_a_night_that_is_done_is_skipped_until_a_line_comes(settings):
    """What came since is read from the lake."""
    finished(settings)
    assert "nothing new" in steps.reason_to_skip(settings, date=tiny_night.NIGHT)
    late = "late,trace-0003,correct,1,program,checker,1,2026-11-27T08:00:00+00:00\n"
    with Path(settings.logs.outcomes[0]).open("a", encoding="utf-8") as file:
        file.write(late)
    steps.land(settings)
    assert steps.reason_to_skip(settings, date=tiny_night.NIGHT) is None


def test_other_settings_of_a_deployment_alone_make_a_night_judge_again(settings):
    """No line has come, and yet the traces are new: they mean something else."""
    done = finished(settings)
    desk = settings.deployments["desk"].model_copy(update={"logprobs_mode": "raw_logprobs"})
    changed = settings.model_copy(update={"deployments": {"desk": desk}})
    landed = steps.land(changed)
    assert (landed.calls.is_new, landed.outcomes.is_new, landed.is_new) == (False, False, True)
    assert landed.assembled.num_revised == landed.assembled.num_traces == 8
    assert steps.reason_to_skip(changed, date=tiny_night.NIGHT) is None
    assert steps.reason_to_skip(settings, date=tiny_night.NIGHT) is None
    assert steps.start(settings, date=tiny_night.NIGHT).run_id != done.run_id
    assert not steps.land(changed).is_new


def test_a_night_killed_between_landing_and_its_start_is_not_skipped(settings):
    """The lines that it landed have been read by no run."""
    finished(settings)
    with Path(settings.logs.outcomes[0]).open("a", encoding="utf-8") as file:
        file.write("late,trace-0003,correct,1,program,checker,1,2026-11-27T08:00:00+00:00\n")
    steps.land(settings)
    assert not steps.land(settings).is_new
    assert steps.reason_to_skip(settings, date=tiny_night.NIGHT) is None


def test_an_unfinished_night_is_not_skipped(settings):
    """It has to go on."""
    steps.land(settings)
    steps.start(settings, date=tiny_night.NIGHT)
    assert steps.reason_to_skip(settings, date=tiny_night.NIGHT) is None


def test_a_finished_night_is_taken_up_by_hand_without_a_new_run(settings):
    """`tracemill validate` after a night shows that night's verdicts, and the ledger stays as it was."""
    done = finished(settings)
    assert steps.start(settings, date=tiny_night.NIGHT) == done


def test_a_line_after_the_night_begins_another_run(settings):
    """The finished one has not seen it."""
    done = finished(settings)
    with Path(settings.logs.outcomes[0]).open("a", encoding="utf-8") as file:
        file.write("late,trace-0003,correct,1,program,checker,1,2026-11-27T08:00:00+00:00\n")
    steps.land(settings)
    assert steps.start(settings, date=tiny_night.NIGHT).run_id == done.run_id + ".2"


@pytest.mark.parametrize(
    ("group", "change", "said"),
    [
        ("model", {"base": Path("nowhere")}, "model.base: no model in nowhere"),
        ("train", {"options": {"trusst": 1.0}}, "trusst"),
        ("model", {"policies": ()}, "expected exactly one"),
    ],
)
def test_what_would_stop_the_night_later_stops_it_before_a_line_is_read(settings, group, change, said):
    """A refusal after the logs have landed comes too late."""
    changed = settings.model_copy(update={group: getattr(settings, group).model_copy(update=change)})
    with pytest.raises(SettingsError, match=said):
        steps.check(changed, date=None)


def test_a_date_to_come_is_refused_first(settings):
    """As above."""
    with pytest.raises(UsageError, match="future"):
        steps.check(settings, date="2999-01-01")


def test_a_night_judged_by_hand_does_not_hide_what_lands_afterwards(settings):
    """Scores that come after `tracemill validate` are judged by another run of the same night."""
    steps.land(settings, outcomes=[])
    early = steps.start(settings, date=tiny_night.NIGHT)
    assert steps.admit(settings, early).num_admitted == 0
    steps.land(settings)
    late = steps.start(settings, date=tiny_night.NIGHT)
    assert late.run_id == early.run_id + ".2"
    assert steps.find_run(settings, early.run_id).state == "failed"
    assert steps.start(settings, date=tiny_night.NIGHT).run_id == late.run_id


def test_lines_whose_reading_began_before_a_night_are_not_forgotten(settings, monkeypatch):
    """A slow ingest commits after the night, under the clock of its beginning."""
    done = finished(settings)
    with Path(settings.logs.outcomes[0]).open("a", encoding="utf-8") as file:
        file.write("late,trace-0003,correct,1,program,checker,1,2026-11-27T08:00:00+00:00\n")
    monkeypatch.setattr(steps, "utc_now", lambda: done.started_at - timedelta(hours=1))
    steps.land(settings)
    assert steps.reason_to_skip(settings, date=tiny_night.NIGHT) is None


def test_a_plan_names_every_file_and_changes_nothing(settings):
    """Without a lake, all of them are new, and there is none afterwards."""
    plan = steps.plan(settings, date=tiny_night.NIGHT)
    assert [file.state for file in plan.files] == ["new", "new"]
    assert not settings.lake.root.exists()
    finished(settings)
    again = steps.plan(settings, date=tiny_night.NIGHT)
    assert [file.num_bytes for file in again.files] == [0, 0]
    assert again.sentence.startswith("would skip: nothing new")


def test_the_clock_of_a_run_is_kept_when_it_goes_on(settings):
    """Maturity must not move under a night that was killed."""
    steps.land(settings)
    first = steps.start(settings, date=tiny_night.NIGHT)
    assert steps.start(settings, date=tiny_night.NIGHT).as_of == first.as_of == datetime(2026, 11, 29, tzinfo=UTC)
    assert steps.utc_now() - first.started_at < timedelta(minutes=5)


def test_a_run_that_is_not_there_is_refused(settings):
    """The message lists those that are."""
    steps.land(settings)
    with pytest.raises(UsageError, match="none yet"):
        steps.find_run(settings, "2026-01-01-none")
