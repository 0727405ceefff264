"""The one settings file: TOML in, frozen objects out, every path made absolute."""

from __future__ import annotations

import hashlib
import json
import reprlib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from flows.console import one_line
from ingest.meaning import Deployment
from ingest.settings import LogSettings
from schemas.errors import SettingsError
from schemas.settings import Settings
from train.registry import ModelSettings
from train.replay import TrainSettings
from train.rescore import RescoreSettings
from validate.gate import GateSettings
from validate.judge import JudgeSettings
from validate.rewards import RewardSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_FILE = Path("tracemill.toml")
"""Where the settings are looked for when nothing else is said."""


class LakeSettings(Settings):
    """Where the lake lies."""

    root: Path = Path("lake")
    """Folder of the catalog, the data files and the working folders of runs. Convention, untested."""


class ReportSettings(Settings):
    """Where reports go."""

    folder: Path = Path("reports")
    """Folder with one folder a run, each holding report.html and report.json. Convention, untested."""


class TracemillSettings(Settings):
    """Everything that a night needs to know."""

    lake: LakeSettings = LakeSettings()
    """Where the lake lies. Convention, untested."""

    logs: LogSettings = LogSettings()
    """Which files are read, and how. Convention, untested."""

    deployments: dict[str, Deployment] = Field(default_factory=dict)
    """What the logs of each deployment mean, by the name the log lines carry. Convention, untested."""

    reward: RewardSettings
    """Which outcome is the reward."""

    judge: JudgeSettings = JudgeSettings()
    """Which outcomes are a judge's, and what it is held to. Convention, untested."""

    gate: GateSettings = GateSettings()
    """What must be true of a trace and of a night before training. Convention, untested."""

    model: ModelSettings
    """The served model and its versions."""

    rescore: RescoreSettings = RescoreSettings()
    """How much is scored again. Convention, untested."""

    train: TrainSettings = TrainSettings()
    """How the admitted traces are replayed. Convention, untested."""

    report: ReportSettings = ReportSettings()
    """Where reports go. Convention, untested."""

    def reading_as(self, log_format: str | None) -> TracemillSettings:
        """The same settings with every log line read as one format; unchanged for None."""
        if log_format is None:
            return self
        return self.model_copy(update={"logs": self.logs.model_copy(update={"format": log_format})})

    def as_json(self) -> str:
        """The settings as canonical JSON; equal settings give equal text."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def sha256(self) -> str:
        """SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.as_json().encode()).hexdigest()


def load_settings(file: Path) -> TracemillSettings:
    """The settings in `file`, relative paths resolved against its folder.

    Raises `SettingsError` that names each bad field, its value and what was expected.
    """
    if not file.is_file():
        raise SettingsError(
            f"no settings file at {file}; expected a TOML file: write one with `tracemill init`, "
            "or name it with --settings"
        )
    name = one_line(str(file))
    content = _content(file, name)
    texts = list(_texts(content))
    if unfilled := sorted(place for place, text in texts if text == "..."):
        raise SettingsError(f'{name}: still "...": {", ".join(unfilled)}; expected a value of yours: fill them in')
    if broken := sorted(place for place, text in texts if "\0" in text):
        raise SettingsError(f"{name}: a NUL in {', '.join(broken)}; expected text without one: remove it")
    try:
        settings = TracemillSettings.model_validate(content)
    except ValidationError as error:
        raise SettingsError(_explain(name, error)) from error
    try:
        return _resolve(settings, file.resolve().parent)
    except (OSError, RuntimeError) as error:
        raise SettingsError(
            f"{name}: a path in it cannot be followed ({error}); expected paths whose links end: mend it"
        ) from error


def _content(file: Path, name: str) -> dict[str, Any]:
    """What the file says, before anything is checked."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise SettingsError(
            f"{name}: lists or tables too deep in one another; expected settings as `tracemill init` writes them: "
            "remove what is nested"
        ) from error
    except ValueError as error:  # no TOML, no UTF-8, or a number of more digits than Python reads
        raise SettingsError(
            f"{name} is not TOML: {error}; expected settings as `tracemill init` writes them: mend that place"
        ) from error


def _texts(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every text in the file with its place; without recursion, for dotted keys can nest as deep as a file is long."""
    waiting: list[tuple[str, Any]] = [("", content)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, dict):
            waiting += [
                (f"{place}.{one_line(name)}" if place else one_line(name), inner) for name, inner in value.items()
            ]
        elif isinstance(value, list):
            waiting += [(f"{place}[{number}]", inner) for number, inner in enumerate(value)]


def _explain(name: str, error: ValidationError) -> str:
    lines = [f"{name}: {error.error_count()} setting(s) cannot be used"]
    for fault in error.errors(include_url=False):
        place = ".".join(one_line(str(part)) for part in fault["loc"]) or "the file"
        given = "" if fault["type"] == "missing" else f", got {reprlib.repr(fault['input'])}"
        lines.append(f"  {place}: {one_line(fault['msg'])}{given}")
    lines.append("  `tracemill init` writes a file in which every setting is explained")
    return "\n".join(lines)


def _resolve(settings: TracemillSettings, folder: Path) -> TracemillSettings:
    def absolute(path: Path | str) -> Path:
        return (folder / path).resolve()

    def absolute_uri(uri: str) -> str:
        return uri if "://" in uri else str(folder / uri)

    policies = tuple(
        policy.model_copy(
            update={
                name: absolute(path) for name in ("adapter", "model") if (path := getattr(policy, name)) is not None
            }
        )
        for policy in settings.model.policies
    )
    updates: Mapping[str, Any] = {
        "lake": LakeSettings(root=absolute(settings.lake.root)),
        "report": ReportSettings(folder=absolute(settings.report.folder)),
        "logs": settings.logs.model_copy(
            update={
                "paths": tuple(absolute_uri(uri) for uri in settings.logs.paths),
                "outcomes": tuple(absolute_uri(uri) for uri in settings.logs.outcomes),
                "full_exports": tuple(absolute_uri(uri) for uri in settings.logs.full_exports),
                "receiver": settings.logs.receiver.model_copy(update={"spool": absolute(settings.logs.receiver.spool)}),
            }
        ),
        "model": settings.model.model_copy(update={"base": absolute(settings.model.base), "policies": policies}),
    }
    return settings.model_copy(update=dict(updates))
