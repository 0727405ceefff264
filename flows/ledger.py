"""The ledger of runs: what a night is called, where it stands, and how it ended."""

from __future__ import annotations

import importlib.metadata
import subprocess
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import UsageError

if TYPE_CHECKING:
    from flows.settings import TracemillSettings
    from warehouse.lake import Lake


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One row of the table `runs`; the fields are described there."""

    run_id: str
    revision: int
    kind: str
    night: str
    state: str
    decision: str | None = None
    sentence: str | None = None
    exit_code: int | None = None
    settings_json: str
    settings_sha256: str
    code_version: str
    base_policy: str | None = None
    new_policy: str | None = None
    lake_snapshot: int | None = None
    report_uri: str | None = None
    as_of: datetime
    started_at: datetime
    ended_at: datetime | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do for it."""
        return self.state in {"done", "failed"}


def parse_night(text: str | None, now: datetime) -> tuple[str, datetime]:
    """The night's date and its clock: the end of that day (UTC), or `now` while the day lasts.

    Raises `UsageError` when the text is no date or the date lies in the future.
    """
    try:
        night = date.fromisoformat(text) if text is not None else now.date()
    except ValueError as error:
        raise UsageError(f"--date {text!r} is no date; expected YYYY-MM-DD, such as 2026-11-28") from error
    if night > now.date():
        raise UsageError(f"--date {night} lies in the future; expected {now.date()} (UTC) or earlier")
    end = datetime.combine(night + timedelta(days=1), time(), tzinfo=UTC)
    return night.isoformat(), min(end, now)


def run_prefix(night: str, settings: TracemillSettings) -> str:
    """What the run ids of one night under one settings file begin with."""
    return f"{night}-{settings.sha256()[:8]}"


def runs_of(lake: Lake, *, kind: str = "nightly") -> list[Run]:
    """The current state of each run of that kind, oldest first."""
    rows = lake.read("current_runs", where={"kind": kind}, order_by=("started_at", "run_id")).to_pylist()
    names = {field.name for field in fields(Run)}
    return [Run(**{name: value for name, value in row.items() if name in names}) for row in rows]


def begin_run(
    lake: Lake, settings: TracemillSettings, *, night: str, as_of: datetime, base_policy: str | None, now: datetime
) -> Run:
    """The night's unfinished run if there is one, else a new one, recorded as started."""
    prefix = run_prefix(night, settings)
    version = code_version()
    with lake.transaction() as transaction:
        earlier = [run for run in runs_of(lake) if run.run_id == prefix or run.run_id.startswith(prefix + ".")]
        if earlier and not earlier[-1].is_done:
            return earlier[-1]
        run = Run(
            run_id=prefix if not earlier else f"{prefix}.{len(earlier) + 1}",
            revision=0,
            kind="nightly",
            night=night,
            state="started",
            settings_json=settings.as_json(),
            settings_sha256=settings.sha256(),
            code_version=version,
            base_policy=base_policy,
            as_of=as_of,
            started_at=now,
        )
        transaction.append("runs", [asdict(run)])
    return run


def record(lake: Lake, run_id: str, **changes: Any) -> Run:
    """Append the run's next revision with these fields changed; nothing when they stand there already.

    The latest revision is read inside the transaction: two writers never make the same one.
    """
    with lake.transaction() as transaction:
        run = next(run for run in runs_of(lake) if run.run_id == run_id)
        changed = replace(run, **changes)
        if changed == run:
            return run
        changed = replace(changed, revision=run.revision + 1)
        transaction.append("runs", [asdict(changed)])
    return changed


def code_version() -> str:
    """The package's version and, in a git checkout, the commit."""
    version = importlib.metadata.version("tracemill")
    folder = Path(__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return version
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments
            ["git", "-C", str(folder), "describe", "--always", "--dirty"],  # noqa: S607 - git is where the PATH says
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return version
    commit = done.stdout.strip()
    return f"{version}+{commit}" if done.returncode == 0 and commit else version
