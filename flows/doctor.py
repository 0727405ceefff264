"""What could stop tonight's run, looked at before it does."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flows.settings import TracemillSettings, load_settings
from schemas.errors import TracemillError
from warehouse import audit
from warehouse.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("schemas", "warehouse", "ingest", "validate", "train", "flows")
"""Our six top-level names; another distribution may install one of them too."""

DISTRIBUTIONS = ("tracemill", "duckdb", "pyarrow", "msgspec", "torch", "transformers", "peft", "prefect")
"""What a bug report needs the versions of."""

LOW_DISK_BYTES = 5 * 1024**3
"""Free space below which a night may not end: room for some checkpoints and a day of logs. Convention, untested."""


@dataclass(frozen=True, slots=True)
class Examination:
    """One thing that was looked at."""

    name: str
    is_ok: bool
    detail: str


def examine(settings_file: Path) -> list[Examination]:
    """Everything that can be looked at without changing anything."""
    found = [_python(), _versions(), _names(), _clock()]
    settings, examination = _settings(settings_file)
    found.append(examination)
    if settings is not None:
        found += [_method(settings), _model(settings), _logs(settings), _disk(settings), _permissions(settings)]
        found += list(_lake(settings))
    return found


def _python() -> Examination:
    is_ok = sys.version_info >= (3, 11)
    return Examination("python", is_ok, sys.version.split()[0] + ("" if is_ok else "; expected 3.11 or later"))


def _versions() -> Examination:
    found, missing = [], []
    for name in DISTRIBUTIONS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    lacking = f"; missing: {', '.join(missing)}: install again with `make env`" if missing else ""
    return Examination("versions", not missing, ", ".join(found) + lacking)


def resolve_names() -> dict[str, str]:
    """Where each of our package names resolves to."""
    places = {}
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        places[name] = str(Path(spec.origin).resolve().parent.parent) if spec is not None and spec.origin else "nowhere"
    return places


def _names() -> Examination:
    home = str(Path(__file__).resolve().parent.parent)
    strangers = {name: place for name, place in resolve_names().items() if place != home}
    if strangers:
        listed = ", ".join(f"{name} from {place}" for name, place in strangers.items())
        return Examination("package names", False, f"{listed}; expected {home}: uninstall the other distribution")
    return Examination("package names", True, f"all six resolve to {home}")


def _clock() -> Examination:
    is_ok = time.time() > 1_760_000_000  # late 2025: a clock before the first release is wrong
    return Examination("clock", is_ok, time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))


def _settings(file: Path) -> tuple[TracemillSettings | None, Examination]:
    try:
        settings = load_settings(file)
    except TracemillError as error:
        return None, Examination("settings", False, str(error))
    return settings, Examination("settings", True, f"{file}, sha256 {settings.sha256()[:12]}")


def _method(settings: TracemillSettings) -> Examination:
    from train.replay import check_method

    try:
        check_method(settings.train)
    except TracemillError as error:
        return Examination("method", False, str(error))
    return Examination("method", True, settings.train.method)


def _model(settings: TracemillSettings) -> Examination:
    base = settings.model.base
    missing = [] if (base / "config.json").is_file() else [f"base {base}"]
    missing += [
        f"{policy.version}: {folder}"
        for policy in settings.model.policies
        for folder, config in ((policy.adapter, "adapter_config.json"), (policy.model, "config.json"))
        if folder is not None and not (folder / config).is_file()
    ]
    if missing:
        return Examination("model", False, f"not found: {'; '.join(missing)}. Mend [model] in the settings")
    return Examination("model", True, f"{base} and {len(settings.model.policies)} policy version(s)")


def _logs(settings: TracemillSettings) -> Examination:
    from ingest.sources import expand

    try:
        uris = [*expand(settings.logs.paths), *expand(settings.logs.outcomes)]
    except TracemillError as error:
        return Examination("logs", False, str(error))
    return Examination("logs", bool(uris), f"{len(uris)} file(s) match [logs]")


def _disk(settings: TracemillSettings) -> Examination:
    folder = settings.lake.root
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return Examination("disk", free >= LOW_DISK_BYTES, f"{free / 1024**3:.1f} GiB free at {folder}")


def _permissions(settings: TracemillSettings) -> Examination:
    root = settings.lake.root
    if not root.exists():
        return Examination("permissions", True, f"{root} does not exist yet")
    mode = root.stat().st_mode & 0o777
    if not os.access(root, os.W_OK):
        return Examination("permissions", False, f"{root} cannot be written by this user")
    if mode & 0o077:
        return Examination(
            "permissions", False, f"{root} has mode {mode:o}; expected 700: others can read your traffic"
        )
    return Examination("permissions", True, f"{root} is private")


def _lake(settings: TracemillSettings) -> Iterator[Examination]:
    if not settings.lake.root.exists():
        yield Examination("lake", True, "none yet; `tracemill ingest` makes it")
        return
    try:
        with Lake.open(settings.lake.root, read_only=True) as lake:
            yield Examination("lake", True, f"{settings.lake.root}, snapshot {lake.snapshot()}")
            for result in audit.run(lake):
                offending = f"{result.num_rows} offending row(s)"
                detail = offending if result.example is None else f"{offending}, such as {result.example}"
                yield Examination(f"audit {result.name}", result.num_rows == 0, detail)
    except TracemillError as error:
        yield Examination("lake", False, str(error))
