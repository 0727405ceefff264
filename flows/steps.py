"""The steps of a night as plain functions: each opens the lake, calls one package and returns a small report.

Every step is idempotent: what is done already is found in the lake and not done again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flows.exits import DECISION_EXIT
from flows.ledger import Run, begin_run, parse_night, record, runs_of
from ingest.assemble import AssembleReport, assemble
from ingest.land import land_files
from ingest.reading import Reading
from ingest.report import LandReport
from ingest.sources import expand
from schemas.errors import LakeMissingError, SettingsError, UsageError
from schemas.progress import Progress, silent
from train.launch import Job, train_in_ranks
from train.registry import current_policy, hold, register
from train.replay import TrainReport, check_method, train
from train.rescore import RescoreReport, rescore
from validate.gate import GateResult, ValidateSettings, validate
from validate.report.build import build_report
from validate.report.write import write_report
from warehouse.lake import Lake
from warehouse.lock import locked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from flows.settings import TracemillSettings
    from train.methods.regime import Regime


@dataclass(frozen=True, kw_only=True, slots=True)
class Landed:
    """What one reading of the logs brought."""

    calls: LandReport
    outcomes: LandReport
    assembled: AssembleReport

    @property
    def is_new(self) -> bool:
        """Whether anything came in that the lake did not hold."""
        return self.calls.is_new or self.outcomes.is_new or self.assembled.num_new + self.assembled.num_revised > 0


def utc_now() -> datetime:
    """The wall clock, read here and handed down: no logic below reads it."""
    return datetime.now(UTC)


def land(
    settings: TracemillSettings,
    *,
    logs: Sequence[str] | None = None,
    outcomes: Sequence[str] | None = None,
    again: bool = False,
    progress: Progress = silent,
) -> Landed:
    """Logs and outcomes into tables, calls into traces; by default the files that the settings name.

    With `again` files are read from their beginning, so that lines which other settings had refused may land.
    """
    now = utc_now()
    with Lake.create(settings.lake.root) as lake:
        calls = Reading(
            content_kind="calls", deployments=settings.deployments, settings=settings.logs, now=now, again=again
        )
        scores = replace(calls, content_kind="outcomes", deployments={})
        landed = land_files(lake, settings.logs.paths if logs is None else logs, calls, progress)
        scored = land_files(lake, settings.logs.outcomes if outcomes is None else outcomes, scores, progress)
        assembled = assemble(lake, deployments=settings.deployments, settings=settings.logs, now=now, progress=progress)
    return Landed(calls=landed, outcomes=scored, assembled=assembled)


def night_lock(settings: TracemillSettings) -> AbstractContextManager[None]:
    """The lock that all work on a night holds: one night of a lake at a time; a dead holder's lock is free."""
    settings.lake.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    return locked(settings.lake.root / "night.lock", purpose="night", timeout_s=0.0)


def check(settings: TracemillSettings, *, date: str | None) -> None:
    """Refuse, before a line is read, what would be refused later: the date, the method, the model, its versions."""
    parse_night(date, utc_now())
    check_method(settings.train)
    if not (settings.model.base / "config.json").is_file():
        raise SettingsError(
            f"model.base: no model in {settings.model.base}; expected a transformers folder with config.json: mend the "
            "path, or make the folder with `tracemill import-model`"
        )
    with Lake.create(settings.lake.root) as lake:
        register(lake, settings.model, now=utc_now())
        current_policy(lake)


def start(settings: TracemillSettings, *, date: str | None) -> Run:
    """Register the policies of the settings and take up the night's run, or begin a new one.

    A run that has judged what the lake holds is taken up, finished or not: its steps find what is done. One that was
    judged before something landed is superseded: the new lines are judged by another.
    """
    now = utc_now()
    night, as_of = parse_night(date, now)
    with Lake.create(settings.lake.root) as lake:
        register(lake, settings.model, now=now)
        last = next((run for run in reversed(_runs_under(lake, settings)) if run.night == night), None)
        if last is not None and not _landed_since(lake, last):
            return last
        if last is not None and not last.is_done:
            record(lake, last.run_id, state="failed", sentence="superseded: lines landed after it had judged")
        base = current_policy(lake)
        return begin_run(lake, settings, night=night, as_of=as_of, base_policy=base.policy_version, now=now)


def reason_to_skip(settings: TracemillSettings, *, date: str | None) -> str | None:
    """Why this night needs no run, in one sentence; None when it needs one.

    What came since the last run is read from the lake, not from this reading of the logs: a night that was killed
    after it had landed its logs is a night that needs a run.
    """
    night, _ = parse_night(date, utc_now())
    with Lake.open(settings.lake.root, read_only=True) as lake:
        runs = _runs_under(lake, settings)
        if not runs or not runs[-1].is_done or _landed_since(lake, runs[-1]):
            return None
        last = runs[-1]
        if last.night == night:
            return f"nothing new: run {last.run_id} did this night, and no line or outcome has come since"
        pending = lake.read("verdicts", columns=["trace_id"], where={"run_id": last.run_id, "verdict": "pending"})
        if pending.num_rows == 0 and current_policy(lake).policy_version == last.base_policy:
            return f"nothing new: no line or outcome has come since run {last.run_id}, and no trace was pending then"
    return None


def _runs_under(lake: Lake, settings: TracemillSettings) -> list[Run]:
    """The runs that were begun under these settings, oldest first."""
    return [run for run in runs_of(lake) if run.settings_sha256 == settings.sha256()]


def _landed_since(lake: Lake, run: Run) -> bool:
    """Whether the lake holds files or traces that the run did not judge.

    Not by the clock, which says when reading began and can be set back, but by the snapshot that the run judged.
    """
    if run.lake_snapshot is None:
        return False

    def num_rows(snapshot: int | None) -> list[int]:
        tables = ("source_files", "traces")
        return [lake.read(table, columns=["ingested_at"], snapshot=snapshot).num_rows for table in tables]

    return num_rows(None) != num_rows(run.lake_snapshot)


def score(settings: TracemillSettings, run: Run, *, progress: Progress = silent) -> RescoreReport:
    """Traces under the current policy, and a sample of each version under its own weights."""
    with Lake.open(settings.lake.root) as lake:
        return rescore(
            lake,
            model=settings.model,
            settings=settings.rescore,
            run_id=run.run_id,
            now=utc_now(),
            trust=settings.gate.max_drift,
            progress=progress,
        )


def admit(settings: TracemillSettings, run: Run, *, progress: Progress = silent) -> GateResult:
    """A verdict on every trace and on the night."""
    bundle = ValidateSettings(gate=settings.gate, reward=settings.reward, judge=settings.judge)
    with Lake.open(settings.lake.root) as lake:
        if lake.read("verdicts", columns=["trace_id"], where={"run_id": run.run_id}).num_rows == 0:
            # A killed night may be taken up again after more has landed: it is judged as of now.
            run = record(lake, run.run_id, lake_snapshot=lake.snapshot())
        return validate(
            lake,
            settings=bundle,
            run_id=run.run_id,
            night=run.night,
            as_of=run.as_of,
            snapshot=run.lake_snapshot,
            progress=progress,
        )


def replay(settings: TracemillSettings, run: Run, *, progress: Progress = silent) -> TrainReport:
    """The admitted traces through the method's updates, in as many processes as the settings say; a new version."""
    folder, now = run_folder(settings, run), utc_now()
    if settings.train.processes > 1:
        check_method(settings.train)
        job = Job(
            lake_root=settings.lake.root,
            model=settings.model,
            settings=settings.train,
            run_id=run.run_id,
            run_folder=folder,
            now=now,
        )
        return train_in_ranks(job, progress)
    with Lake.open(settings.lake.root) as lake:
        return train(
            lake,
            model=settings.model,
            settings=settings.train,
            run_id=run.run_id,
            run_folder=folder,
            now=now,
            clock=utc_now,
            progress=progress,
        )


def regime_of(settings: TracemillSettings, run: Run) -> tuple[Regime, int]:
    """What each method would do to the traces that the run admitted, the settings' own method first; trains nothing.

    With it the number of admitted traces that are not in it, because the current policy has not scored them.
    """
    # torch is read when it is needed: every other command starts without it.
    from train.lake_batch import batch_from_lake
    from train.methods.catalog import METHODS, by_name
    from train.methods.regime import regime

    own = by_name(settings.train.method, settings.train.options)
    others = [kind() for name, kind in METHODS.items() if name != own.name]
    with Lake.open(settings.lake.root, read_only=True) as lake:
        version = run.base_policy or current_policy(lake).policy_version
        read = batch_from_lake(lake, run_id=run.run_id, policy_version=version)
    return regime(read.batch, [own, *others]), read.num_not_scored


def run_folder(settings: TracemillSettings, run: Run) -> Path:
    """Where a run keeps its plan, checkpoints and new policy."""
    return settings.lake.root / "runs" / run.run_id


def decide(settings: TracemillSettings, run: Run, *, decision: str, sentence: str, new_policy: str | None) -> Run:
    """Record what the night came to, and hold its policy where the gate says so; the report reads both."""
    with Lake.open(settings.lake.root) as lake:
        if decision == "hold" and new_policy is not None:
            hold(lake, new_policy, now=utc_now())
        return record(lake, run.run_id, decision=decision, sentence=sentence, new_policy=new_policy)


def report(settings: TracemillSettings, run_id: str) -> tuple[Path, Path]:
    """The data-quality report of a run, as HTML and JSON; the run says where it lies."""
    with Lake.open(settings.lake.root) as lake:
        html, twin = write_report(build_report(lake, run_id), settings.report.folder / run_id)
        record(lake, run_id, report_uri=str(html))
    return html, twin


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """What a night needs to know of its training."""

    new_policy: str | None = None
    stopped: str | None = None
    """Why the new version is not to be proposed; None where all was well."""


def close(
    settings: TracemillSettings, run: Run, *, decision: str, sentence: str, trained: Trained = Trained()
) -> tuple[Run, Path]:
    """Record what the night came to, write its report and finish its run, which is returned beside the report.

    A version that is not to be proposed is held whatever the gate said.
    """
    if trained.stopped is not None:
        decision, sentence = "hold", f"{sentence}; not to be proposed: {trained.stopped}"
    decided = decide(settings, run, decision=decision, sentence=sentence, new_policy=trained.new_policy)
    html, _ = report(settings, decided.run_id)
    return finish(settings, decided, exit_code=DECISION_EXIT[decision]), html


def finish(settings: TracemillSettings, run: Run, *, exit_code: int) -> Run:
    """Record that nothing is left to do."""
    with Lake.open(settings.lake.root) as lake:
        return record(lake, run.run_id, state="done", exit_code=exit_code, ended_at=utc_now())


def find_run(settings: TracemillSettings, run_id: str) -> Run:
    """The run of that id; `UsageError` lists those there are."""
    with Lake.open(settings.lake.root) as lake:
        return run_among(runs_of(lake), run_id)


def run_among(runs: Sequence[Run], run_id: str | None) -> Run:
    """The run of that id, the last one for None; `UsageError` lists those there are."""
    if run_id is None and runs:
        return runs[-1]
    for run in runs:
        if run.run_id == run_id:
            return run
    known = ", ".join(run.run_id for run in runs[-5:]) or "none yet: validate first"
    raise UsageError(f"no run {run_id!r}; expected one of: {known}. See `tracemill runs`")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedFile:
    """What a night would do with one file."""

    uri: str
    state: str
    num_bytes: int
    """Size as stored, of a file that would be read; 0 for one that has not changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a night would do."""

    files: tuple[PlannedFile, ...]
    sentence: str


def plan(settings: TracemillSettings, *, date: str | None) -> Plan:
    """What a night would do now; reads sizes and the lake, changes nothing."""
    night, as_of = parse_night(date, utc_now())
    uris = [*expand(settings.logs.paths), *expand(settings.logs.outcomes)]
    try:
        lake = Lake.open(settings.lake.root, read_only=True)
    except LakeMissingError:
        sentence = f"would make a lake, read {len(uris)} files and run the night of {night} as of {as_of:%F %R} UTC"
        return Plan(files=tuple(_planned(uri, None) for uri in uris), sentence=sentence)
    with lake:
        rows = lake.read("source_files", columns=["uri", "file_version", "size_on_disk"], order_by=["file_version"])
        sizes = {row["uri"]: row["size_on_disk"] for row in rows.to_pylist()}
        unfinished = [run for run in _runs_under(lake, settings) if not run.is_done]
    files = tuple(_planned(uri, sizes.get(uri)) for uri in uris)
    skip = reason_to_skip(settings, date=date) if all(file.num_bytes == 0 for file in files) else None
    if skip is not None:
        return Plan(files=files, sentence=f"would skip: {skip}")
    again = [run.run_id for run in unfinished if run.night == night]
    doing = f"take up run {again[-1]} again" if again else f"run the night of {night} as of {as_of:%F %R} UTC"
    return Plan(files=files, sentence=f"would read {sum(file.num_bytes > 0 for file in files)} file(s) and {doing}")


def _planned(uri: str, known_size: int | None) -> PlannedFile:
    size = Path(uri).stat().st_size
    if known_size is None:
        return PlannedFile(uri=uri, state="new", num_bytes=size)
    if known_size == size:
        return PlannedFile(uri=uri, state="unchanged", num_bytes=0)
    return PlannedFile(uri=uri, state="grown" if size > known_size else "changed", num_bytes=size)
