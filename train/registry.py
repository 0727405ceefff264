"""Policy versions: which there are, which is served, and what the next one is called."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.errors import CheckpointError, SettingsError, UsageError
from schemas.settings import Settings

if TYPE_CHECKING:
    from warehouse.lake import Lake

State = Literal["candidate", "held", "current", "retired"]

_BLOCK_BYTES = 1 << 20


class PolicySettings(Settings):
    """One policy version that serves, or did."""

    version: str = Field(min_length=1)
    """Its name, as the served model's name in the log says it."""
    optimizer_step: int = Field(ge=0)
    """Optimizer updates since the base weights; policy lag is the difference of two of these."""
    adapter: Path | None = None
    """Folder of its peft LoRA adapter; left out for a version without one."""
    model: Path | None = None
    """Folder of the whole model that it is, or that its adapter lies over; left out for model.base."""
    parent: str | None = None
    """The version it was trained from; left out for the base weights."""
    state: Literal["current", "retired"] = "retired"
    """Whether it serves now. Exactly one version is current: the one that training goes on from. Convention,
    untested."""


class ModelSettings(Settings):
    """The model that is served and trained."""

    base: Path
    """Folder of the base model in transformers form, weights as safetensors."""
    version_name: str = "v{step}"
    """How a new version is named; {step} is its optimizer step. Convention, untested."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number type of the weights in memory. Against a float32 server, float32 scores within 4e-6 nats a token and a
    bfloat16 trunk within 2e-2: measured 2026-11-30."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the model is held. Convention, untested on cuda."""
    threads: int = Field(default=0, ge=0)
    """CPU threads of the model; 0 leaves the choice to torch. A resumed run is equal bit for bit only with the same
    number. Convention, untested."""
    policies: tuple[PolicySettings, ...] = ()
    """The versions that wrote traces, oldest first; versions that tracemill trains are registered by itself.

    To serve a version that tracemill trained, list it with its step and its folder and move state = "current" to it
    from the version before, which stays listed. To go back, move it back."""

    @field_validator("version_name")
    @classmethod
    def _names_the_step(cls, pattern: str) -> str:
        if any(sign in "/\\|" or not sign.isprintable() for sign in pattern) or pattern.startswith("."):
            raise ValueError(
                f"{pattern!r} is no name for a folder; expected none of / \\ | and no leading dot, as in v{{step}}"
            )
        fields = [name for _, name, _, _ in string.Formatter().parse(pattern) if name is not None]
        if fields != ["step"]:
            raise ValueError(f"{pattern!r} has fields {fields}; expected {{step}} once, as in v{{step}}")
        try:
            pattern.format(step=1)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            raise ValueError(
                f"{pattern!r} cannot be filled in ({error}); expected {{step}}, as in v{{step}}"
            ) from error
        return pattern

    @model_validator(mode="after")
    def _lists_each_version_once(self) -> ModelSettings:
        names = [policy.version for policy in self.policies]
        if len(set(names)) < len(names):
            raise ValueError(f"policies {names}: a version is listed twice; expected each once")
        if sum(policy.state == "current" for policy in self.policies) > 1:
            raise ValueError('several policies have state = "current"; expected one')
        return self


@dataclass(frozen=True, slots=True)
class Weights:
    """Where the weights of a version lie."""

    base: Path
    """Folder of a whole model."""
    adapter: Path | None = None
    """Folder of the LoRA adapter over it; None where the version is the whole model."""

    @property
    def folder(self) -> Path:
        """The folder that makes it this version and no other."""
        return self.adapter or self.base


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyRow:
    """The present state of one policy version, as the table `policies` has it."""

    policy_version: str
    revision: int
    optimizer_step: int
    parent_version: str | None
    base_uri: str
    checkpoint_uri: str | None
    checkpoint_sha256: str | None
    method: str | None
    run_id: str | None
    state: str
    created_at: datetime
    recorded_at: datetime

    @property
    def weights(self) -> Weights:
        """Where its weights were when it was registered."""
        base = Path(self.base_uri)
        # A version that was trained whole is its own base.
        adapter = None if self.checkpoint_uri in {None, self.base_uri} else Path(str(self.checkpoint_uri))
        return Weights(base, adapter)

    def as_row(self) -> dict[str, Any]:
        """The row as `policies` takes it."""
        return {name: getattr(self, name) for name in self.__slots__}


def register(lake: Lake, model: ModelSettings, *, now: datetime) -> list[PolicyRow]:
    """Add the versions of the settings that the lake does not know; returns them.

    The version that the settings call current, new or known, takes over from the one that was, which becomes retired.
    A known one does so only from a version that the settings list or that came from them: settings that were never told
    of a version that was promoted do not undo its promotion. A version is what its weights are: one that the lake knows
    with another step or other weights is refused, and a trained one that the settings list keeps its run and method.
    """
    known = {policy.policy_version: policy for policy in policies(lake)}
    new = []
    for stated in model.policies:
        row = _row(model, stated, now)
        if stated.version in known:
            _require_same(known[stated.version], row)
        else:
            new.append(row)
    _require_parents(new, known)
    changed = [*new, *_handed_over(model, known, now)]
    if changed:
        with lake.transaction() as transaction:
            transaction.append("policies", [row.as_row() for row in changed])
    return new


def policies(lake: Lake) -> list[PolicyRow]:
    """All versions in their present state, by optimizer step."""
    columns = list(PolicyRow.__slots__)
    table = lake.read("current_policies", columns=columns, order_by=["optimizer_step", "policy_version"])
    return [PolicyRow(**row) for row in table.to_pylist()]


def policy(lake: Lake, version: str) -> PolicyRow:
    """The version of that name; refused with the names there are."""
    found = policies(lake)
    for candidate in found:
        if candidate.policy_version == version:
            return candidate
    known = ", ".join(row.policy_version for row in found) or "none"
    raise SettingsError(
        f"policy version {version!r} is not registered; expected one of: {known}; add it as [[model.policies]]"
    )


def current_policy(lake: Lake) -> PolicyRow:
    """The version that serves, from which training goes on."""
    found = [candidate for candidate in policies(lake) if candidate.state == "current"]
    if len(found) != 1:
        names = ", ".join(candidate.policy_version for candidate in found) or "none"
        raise SettingsError(
            f'current policies: {names}; expected exactly one; set state = "current" at the version that serves, under '
            "[[model.policies]]"
        )
    return found[0]


def hold(lake: Lake, version: str, *, now: datetime) -> PolicyRow:
    """Mark a candidate as held: trained, not to be promoted. Holding it twice changes nothing."""
    row = policy(lake, version)
    if row.state == "held":
        return row
    if row.state != "candidate":
        raise UsageError(f"policy {version} is {row.state}; expected a candidate to hold: see `tracemill policies`")
    held = _in_state(row, "held", now)
    with lake.transaction() as transaction:
        transaction.append("policies", [held.as_row()])
    return held


def weights_of(model: ModelSettings, row: PolicyRow, known: Iterable[PolicyRow]) -> Weights:
    """Where the weights of a version lie: where the settings say, else where it was registered.

    A base model may have moved to another place of the settings; a version that was trained whole, among `known`, is
    the base of the adapters over it and of no others. Refused: weights that are gone or are not those that were
    registered.
    """
    stated = {one.version: one for one in model.policies}.get(row.policy_version)
    registered = row.weights
    adapter = (stated and stated.adapter) or registered.adapter
    whole = {each.base_uri for each in known if each.checkpoint_uri == each.base_uri}
    is_own = row.base_uri in whole or (stated is None and registered.base.is_dir())
    found = Weights((stated and stated.model) or (registered.base if is_own else model.base), adapter)
    if not found.base.is_dir():
        raise CheckpointError(
            f"policy {row.policy_version}: no folder {found.base}, which it is or lies over; expected the model that "
            "it was trained on; restore it, or name its place as `model` under [[model.policies]]"
        )
    if row.checkpoint_sha256 is not None and weights_sha256(found.folder) != row.checkpoint_sha256:
        raise CheckpointError(
            f"policy {row.policy_version}: the weights in {found.folder} are not those that were registered (sha256 "
            f"{row.checkpoint_sha256[:16]}); expected a version to keep its weights; restore them"
        )
    return found


class WeightsByVersion(Mapping[str, Weights]):
    """Where each version lies, looked for once and when it is asked: one that nobody asks for may be gone."""

    def __init__(self, model: ModelSettings, rows: Iterable[PolicyRow]) -> None:
        self._model = model
        self._rows = {row.policy_version: row for row in rows}
        self._found: dict[str, Weights] = {}

    def __getitem__(self, version: str) -> Weights:
        if version not in self._found:
            self._found[version] = weights_of(self._model, self._rows[version], self._rows.values())
        return self._found[version]

    def __contains__(self, version: object) -> bool:
        return version in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def name_of_new(lake: Lake, model: ModelSettings, optimizer_step: int) -> str:
    """The name of a version at that step; one that is taken by another gets the next free number behind it."""
    name = model.version_name.format(step=optimizer_step)
    taken = {row.policy_version for row in policies(lake)}
    return next(
        free for free in (name, *(f"{name}.{number}" for number in range(2, len(taken) + 3))) if free not in taken
    )


def weights_sha256(folder: Path) -> str:
    """SHA-256 over the names and bytes of the safetensors files of a folder."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder}: no safetensors file there; expected a model or an adapter; check the path")
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0")
        with file.open("rb") as content:
            while block := content.read(_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()


def _row(model: ModelSettings, stated: PolicySettings, now: datetime) -> PolicyRow:
    weights = Weights(stated.model or model.base, stated.adapter)
    return PolicyRow(
        policy_version=stated.version,
        revision=0,
        optimizer_step=stated.optimizer_step,
        parent_version=stated.parent,
        base_uri=str(weights.base),
        checkpoint_uri=None if weights.folder == model.base else str(weights.folder),
        checkpoint_sha256=weights_sha256(weights.folder) if weights.folder.is_dir() else None,
        method=None,
        run_id=None,
        state=stated.state,
        created_at=now,
        recorded_at=now,
    )


def _in_state(row: PolicyRow, state: State, now: datetime) -> PolicyRow:
    return PolicyRow(**{**row.as_row(), "revision": row.revision + 1, "state": state, "recorded_at": now})


def _handed_over(model: ModelSettings, known: Mapping[str, PolicyRow], now: datetime) -> list[PolicyRow]:
    """The known versions in the states that they get when the one that the settings call current takes over."""
    listed = {stated.version for stated in model.policies}
    wanted = next((stated.version for stated in model.policies if stated.state == "current"), None)
    before = [row for row in known.values() if row.state == "current"]
    if wanted is None or wanted in {row.policy_version for row in before}:
        return []
    retired = [_in_state(row, "retired", now) for row in before]
    if wanted not in known:
        return retired
    if any(row.run_id is not None and row.policy_version not in listed for row in before):
        return []
    return [*retired, _in_state(known[wanted], "current", now)]


def _require_same(known: PolicyRow, stated: PolicyRow) -> None:
    """Refuse settings that give another meaning to a name that traces were written under."""
    for name in ("optimizer_step", "checkpoint_sha256"):
        was, is_now = getattr(known, name), getattr(stated, name)
        if is_now is not None and was is not None and was != is_now:
            raise SettingsError(
                f"policy {known.policy_version}: {name} {is_now} in the settings, {was} in the lake; a version keeps "
                "its weights for ever; give the new weights a new version name"
            )


def _require_parents(new: Sequence[PolicyRow], known: dict[str, PolicyRow]) -> None:
    names = {row.policy_version for row in new} | set(known)
    for row in new:
        if row.checkpoint_sha256 is None:
            raise CheckpointError(
                f"policy {row.policy_version}: no folder {row.checkpoint_uri or row.base_uri}; expected its weights "
                "there; mend [model], or import the base model first"
            )
        if row.parent_version is not None and row.parent_version not in names:
            raise SettingsError(
                f"policy {row.policy_version}: parent {row.parent_version!r} is not registered; expected one of "
                f"{', '.join(sorted(names))}; mend [[model.policies]]"
            )
