"""The Prefect flows: when things run. They need no server; with one, `flows.nightly.nightly` is the entrypoint.

Flows take the settings file, a date or a run id and return small reports, so that each can be deployed by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.quiet import quiet_prefect

quiet_prefect()

from prefect import flow, task  # noqa: E402 - Prefect reads its environment when it is imported
from prefect.cache_policies import NO_CACHE  # noqa: E402 - as above

from flows import show, steps  # noqa: E402 - as above
from flows.console import ProgressBars, say  # noqa: E402 - as above
from flows.exits import Exit  # noqa: E402 - as above
from flows.settings import load_settings  # noqa: E402 - as above

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True, slots=True)
class NightResult:
    """How a night ended."""

    run_id: str | None
    decision: str
    sentence: str
    exit_code: int
    new_policy: str | None = None
    report: str | None = None


def _run_task(step: Callable[..., Any], *args: Any) -> Any:
    """Run one step as a task of its name, with progress shown; results are small and never cached."""
    with ProgressBars() as bars:
        return task(name=step.__name__, cache_policy=NO_CACHE)(step)(*args, progress=bars)


@flow(name="land-traces")
def land_traces(settings_file: str) -> None:
    """Logs and outcomes into tables, calls into traces."""
    show.landed(_run_task(steps.land, load_settings(Path(settings_file))))


@flow(name="score-traces")
def score_traces(settings_file: str, run_id: str) -> None:
    """Traces under the current policy, and a sample of each version under its own weights."""
    settings = load_settings(Path(settings_file))
    show.rescored(_run_task(steps.score, settings, steps.find_run(settings, run_id)))


@flow(name="admit-traces")
def admit_traces(settings_file: str, run_id: str) -> tuple[str, str]:
    """A verdict on every trace and on the night: the decision and its sentence."""
    settings = load_settings(Path(settings_file))
    result = _run_task(steps.admit, settings, steps.find_run(settings, run_id))
    show.gate(result)
    return result.decision, result.sentence


@flow(name="replay-traces")
def replay_traces(settings_file: str, run_id: str) -> steps.Trained:
    """The admitted traces through the method's updates: the new version, if any, and whether it may be proposed."""
    settings = load_settings(Path(settings_file))
    result = _run_task(steps.replay, settings, steps.find_run(settings, run_id))
    show.trained(result)
    return steps.Trained(new_policy=result.policy_version, stopped=result.stopped)


@flow(name="nightly")
def nightly(settings_file: str, date: str | None = None) -> NightResult:
    """The whole night: land, score, admit, replay, report.

    Raises `LakeBusyError` when another night of this lake is running.
    """
    settings = load_settings(Path(settings_file))
    with steps.night_lock(settings):
        steps.check(settings, date=date)
        land_traces(settings_file)
        skip = steps.reason_to_skip(settings, date=date)
        if skip is not None:
            say(skip)
            return NightResult(run_id=None, decision="skipped", sentence=skip, exit_code=Exit.SKIPPED)
        run = steps.start(settings, date=date)
        score_traces(settings_file, run.run_id)
        decision, sentence = admit_traces(settings_file, run.run_id)
        trains = decision in {"go", "hold"}
        trained = replay_traces(settings_file, run.run_id) if trains else steps.Trained()
        run, html = steps.close(settings, run, decision=decision, sentence=sentence, trained=trained)
    result = NightResult(
        run_id=run.run_id,
        decision=run.decision or decision,
        sentence=run.sentence or sentence,
        exit_code=run.exit_code or Exit.DONE,
        new_policy=trained.new_policy,
        report=str(html),
    )
    show.night(result)
    return result
