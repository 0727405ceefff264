"""The one settings file: TOML in, frozen objects out, every path made absolute."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

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
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not TOML: {error}; mend that place") from error
    if unfilled := sorted(_unfilled(content)):
        raise SettingsError(f'{file}: still "...": {", ".join(unfilled)}; expected a value of yours: fill them in')
    try:
        settings = TracemillSettings.model_validate(content)
    except ValidationError as error:
        raise SettingsError(_explain(file, error)) from error
    return _resolve(settings, file.resolve().parent)


def _unfilled(value: Any, place: str = "") -> Iterator[str]:
    """The places where a value is still the placeholder of `tracemill init`."""
    if value == "...":
        yield place
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _unfilled(inner, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _unfilled(inner, f"{place}[{number}]")


def _explain(file: Path, error: ValidationError) -> str:
    lines = [f"{file}: {error.error_count()} setting(s) cannot be used"]
    for fault in error.errors(include_url=False):
        place = ".".join(str(part) for part in fault["loc"]) or "the file"
        given = "" if fault["type"] == "missing" else f", got {fault['input']!r}"
        lines.append(f"  {place}: {fault['msg']}{given}")
    lines.append("  `tracemill init` writes a file in which every setting is explained")
    return "\n".join(lines)


def _resolve(settings: TracemillSettings, folder: Path) -> TracemillSettings:
    def absolute(path: Path | str) -> Path:
        return (folder / path).resolve()

    def absolute_uri(uri: str) -> str:
        return uri if "://" in uri else str(folder / uri)

    policies = tuple(
        policy.model_copy(update={"adapter": absolute(policy.adapter)}) if policy.adapter is not None else policy
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
