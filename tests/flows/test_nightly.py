"""Whole nights on a tiny random model, as processes, as a user starts them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.settings import load_settings
from flows.steps import find_run, night_lock
from tests.flows import tiny_night
from warehouse.lake import Lake

pytestmark = [pytest.mark.flows, pytest.mark.slow]
HOUSE = Path(__file__).resolve().parents[2]
NUM_TRACES = 48


def environment(folder: Path) -> dict[str, str]:
    """A home of its own, so that Prefect's database is the test's."""
    return os.environ | {"HOME": str(folder), "PREFECT_HOME": str(folder / "prefect"), "PYTHONPATH": str(HOUSE)}


def command(settings_file: Path, *arguments: str) -> list[str]:
    """The command line of one night."""
    return [
        sys.executable,
        "-m",
        "flows",
        "nightly",
        "--settings",
        str(settings_file),
        "--date",
        tiny_night.NIGHT,
        *arguments,
    ]


def run_night(settings_file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One night from beginning to end."""
    folder = settings_file.parent
    return subprocess.run(
        command(settings_file, *arguments),
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def contents(settings_file: Path) -> dict[str, object]:
    """What a night leaves behind, apart from times."""
    root = load_settings(settings_file).lake.root
    with Lake.open(root, read_only=True) as lake:
        replays = lake.read("replays", order_by=["step", "trace_id", "sequence_index"]).to_pylist()
        policies = lake.read("current_policies", order_by=["optimizer_step"]).to_pylist()
        return {
            "calls": lake.read("calls", columns=["call_id"], order_by=["call_id"]).to_pylist(),
            "traces": lake.read(
                "traces", columns=["trace_id", "trace_revision", "token_ids"], order_by=["trace_id"]
            ).to_pylist(),
            "outcomes": lake.read("outcomes", columns=["outcome_id"], order_by=["outcome_id"]).to_pylist(),
            "verdicts": lake.read(
                "verdicts", columns=["trace_id", "verdict", "reasons"], order_by=["trace_id"]
            ).to_pylist(),
            "replays": [{k: v for k, v in row.items() if k != "replayed_at"} for row in replays],
            "policies": [(row["policy_version"], row["state"], row["checkpoint_sha256"]) for row in policies],
        }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A night that nobody disturbed, and what it printed."""
    file = tiny_night.build(tmp_path_factory.mktemp("night") / "desk", num_traces=NUM_TRACES)
    return file, run_night(file)


def test_a_night_ends_with_a_new_policy_and_a_report(finished):
    """Logs in, policy and report out, exit code 0."""
    file, done = finished
    assert done.returncode == 0, done.stdout + done.stderr
    left = contents(file)
    assert len(left["calls"]) == 2 * NUM_TRACES
    assert len(left["verdicts"]) == NUM_TRACES
    assert [state for _, state, _ in left["policies"]] == ["retired", "current", "candidate"]
    report = file.parent / "reports"
    assert sorted(path.name for path in report.rglob("report.*")) == ["report.html", "report.json"]
    assert "waterfall" in done.stdout
    assert "GO" in done.stdout


def test_the_canary_is_at_the_floor_because_weights_and_logs_belong_together(finished):
    """Each version under its own weights gives the logged numbers."""
    file, _ = finished
    with Lake.open(load_settings(file).lake.root, read_only=True) as lake:
        rows = lake.read("rescored").to_pylist()
    own = [row for row in rows if row["behavior_version"] == row["policy_version"]]
    assert {row["policy_version"] for row in own} == {"v0", "v1"}
    assert max(row["mean_abs_log_ratio"] for row in own) < 1e-5  # float32, another order of sums


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("sql", "staleness_by_version", "--format", "csv"), 0, "v0,0,1,12,"),
        (("sql",), 0, "admission_curve"),
        (("sql", "select count(*) as n from calls", "--format", "json"), 0, '"n": 96'),
        (("sql", "drop table calls"), 2, "select"),
        (("sql", "staleness_by_version", "--param", "trusst=1"), 2, "trust"),
        (("report",), 0, "report.html"),
        (("report", "--json"), 0, '"decision"'),
        (("runs",), 0, "done"),
        (("policies", "--json"), 0, '"candidate"'),
        (("trace", "trace-0001"), 0, "rescored: "),
        (("trace", "nobody"), 2, "no trace 'nobody'"),
        (("doctor",), 0, "audit duplicate_keys"),
        (("validate", "--date", tiny_night.NIGHT), 0, "GO: "),
        (("train", "--date", tiny_night.NIGHT), 0, "trained v"),
        (("train", "--regime", "--date", tiny_night.NIGHT), 0, "action tokens: mean |log ratio| "),
        (("train", "--regime", "--json", "--date", tiny_night.NIGHT), 0, '"method": "flash_reinforce", "masked_trace'),
        (("rescore", "--date", tiny_night.NIGHT), 0, "canary"),
        (("check", "logs"), 0, "48 traces are fit"),
    ],
)
def test_a_command_after_a_night_shows_it_and_leaves_it_as_it_was(finished, arguments, code, said):
    """Reading commands read, and steps that are done find that they are."""
    file, _ = finished
    before = contents(file)
    done = subprocess.run(
        [sys.executable, "-m", "flows", *arguments, "--settings", str(file)],
        cwd=file.parent,
        env=environment(file.parent),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert contents(file) == before


def test_a_second_night_finds_nothing_new_and_says_so(finished):
    """Exit code 20, and not a row more."""
    file, _ = finished
    before = contents(file)
    again = run_night(file)
    assert again.returncode == 20, again.stdout + again.stderr
    assert "nothing new" in again.stdout
    assert contents(file) == before


def test_a_dry_run_changes_nothing(finished):
    """It says what would be done."""
    file, _ = finished
    before = contents(file)
    done = run_night(file, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sentence"].startswith("would skip")
    assert contents(file) == before


def test_a_night_ends_with_20_while_another_holds_the_lock(finished):
    """It says who holds it, and touches nothing."""
    file, _ = finished
    before = contents(file)
    with night_lock(load_settings(file)):
        second = run_night(file)
    assert second.returncode == 20
    assert f"locked by process {os.getpid()}" in second.stderr
    assert "Traceback" not in second.stderr + second.stdout
    assert contents(file) == before


@pytest.mark.parametrize("moment", ["catalog.sqlite", "COMPLETE"])
def test_a_killed_night_goes_on_and_ends_like_an_unbroken_one(finished, tmp_path, moment):
    """`kill -9` while it reads or trains, then the same command: nothing lost, nothing doubled, the same bytes."""
    file = tiny_night.build(tmp_path / "desk", num_traces=NUM_TRACES)
    victim = subprocess.Popen(
        command(file),
        env=environment(file.parent),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while victim.poll() is None and not any((file.parent / "lake").rglob(moment)):
        time.sleep(0.01)
    assert victim.poll() is None, "the night was over before it could be killed"
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    done = run_night(file)
    assert done.returncode == 0, done.stdout + done.stderr
    expected, got = contents(finished[0]), contents(file)
    run_ids = {row.pop("run_id") for left in (expected, got) for row in left["replays"]}
    assert len(run_ids) >= 1
    assert got == expected


def test_a_run_that_does_not_exist_is_refused_with_those_that_do(finished):
    """The message lists what there is."""
    from schemas.errors import UsageError

    with pytest.raises(UsageError, match=tiny_night.NIGHT):
        find_run(load_settings(finished[0]), "2020-01-01-none")
