"""Which admitted trace is trained on in which update: a pure function of what was admitted and of a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from schemas.errors import CheckpointError, UsageError
from train.commit import commit


@dataclass(frozen=True, order=True, slots=True)
class Admitted:
    """A trace that the gate let through, at the revision and with the reward that it was judged by."""

    trace_id: str
    trace_revision: int
    reward: float
    ask_id: str | None = None
    """What it answers; None where the log does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The updates of a run, before the first one is made."""

    manifest_sha256: str
    """Digest of the admitted traces, their revisions and rewards."""
    settings_sha256: str
    """Digest of the training settings."""
    parent_version: str
    """The policy that training goes on from."""
    began_at: str
    """When the run was begun, from which the time of day that ends it is counted; ISO 8601, UTC."""
    batches: tuple[tuple[Admitted, ...], ...]
    """Traces of each update, in order. A trace is in one batch at most, which comes again where traces are reused."""
    num_left: int
    """Admitted traces in no batch: they stay admissible for the next run."""

    @property
    def num_traces(self) -> int:
        """Traces in the batches, each counted once."""
        return self.num_read(len(self.batches))

    def num_read(self, num_updates: int) -> int:
        """Traces, each counted once, that the first so many updates read."""
        return len({trace.trace_id for batch in self.batches[:num_updates] for trace in batch})

    def save(self, path: Path) -> None:
        """Write the plan as JSON, whole or not at all."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_suffix(".writing")
        temporary.write_text(json.dumps(asdict(self), indent=1) + "\n")
        commit(temporary, path)

    @staticmethod
    def load(path: Path) -> Plan:
        """Read a saved plan back."""
        try:
            content = json.loads(path.read_text())
            batches = tuple(tuple(Admitted(**trace) for trace in batch) for batch in content.pop("batches"))
            return Plan(**content, batches=batches)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{path}: cannot be read ({error}); expected the plan that the run was begun with; restore it, or "
                "remove the run's folder to train it again"
            ) from error

    def require_same(self, other: Plan, path: Path) -> None:
        """Refuse to go on with a run under settings or traces that it was not begun with."""
        for name in ("settings_sha256", "manifest_sha256"):
            if getattr(self, name) != getattr(other, name):
                what = "training settings" if name == "settings_sha256" else "admitted traces"
                raise UsageError(
                    f"{path}: this run was begun with other {what}; expected the same, to go on where it stopped; put "
                    "them back, or begin another run"
                )


def make_plan(  # noqa: PLR0913 - a plan is what was admitted, how much of it, and what it goes on from
    admitted: Iterable[Admitted],
    *,
    batch_size: int,
    max_updates: int,
    seed: int,
    parent: str,
    settings_sha256: str,
    began_at: str,
    by_ask: bool = False,
    steps_per_batch: int = 1,
    passes: int = 1,
) -> Plan:
    """Batches of `batch_size` traces in an order that `seed` and the admitted traces decide.

    What does not fill a batch, or comes after `max_updates`, is left for the next run; fewer traces than one batch
    make one smaller batch. With `by_ask` the traces of one ask stay together, for a method that compares them: a batch
    may then be larger by part of an ask, and a trace that is alone with its ask is left. Each batch comes
    `steps_per_batch` times in a row, and all of them `passes` times over.
    """
    manifest = sorted(admitted)
    digest = manifest_sha256(manifest)
    kept = _together(manifest) if by_ask else [(trace,) for trace in manifest]
    shuffled = sorted(kept, key=lambda group: _place(digest, seed, group[0].trace_id))
    # As many batches as can be read as often as asked within the updates: no pass is left unfinished.
    filled = _filled(shuffled, batch_size)[: max(1, max_updates // (steps_per_batch * passes))]
    batches = (tuple(batch for batch in filled for _ in range(steps_per_batch)) * passes)[:max_updates]
    return Plan(
        manifest_sha256=digest,
        settings_sha256=settings_sha256,
        parent_version=parent,
        began_at=began_at,
        batches=batches,
        num_left=len(manifest) - len({trace.trace_id for batch in batches for trace in batch}),
    )


def _together(manifest: Sequence[Admitted]) -> list[tuple[Admitted, ...]]:
    """The traces of each ask that has several; refused when none has."""
    by_ask: dict[str, list[Admitted]] = {}
    for trace in manifest:
        if trace.ask_id is not None:
            by_ask.setdefault(trace.ask_id, []).append(trace)
    groups = [tuple(group) for group in by_ask.values() if len(group) > 1]
    if not groups:
        raise UsageError(
            f"{len(manifest)} admitted traces of {len(by_ask)} asks: each alone with its ask, with nothing to be "
            "compared with; expected at least two traces of an ask; use flash_reinforce, sao or bpco as train.method "
            "for single traces"
        )
    return groups


def _filled(groups: Sequence[tuple[Admitted, ...]], batch_size: int) -> tuple[tuple[Admitted, ...], ...]:
    """Groups one after the other into batches of at least that size; what is over is one only if nothing else is."""
    batches: list[tuple[Admitted, ...]] = []
    filling: tuple[Admitted, ...] = ()
    for group in groups:
        filling += group
        if len(filling) >= batch_size:
            batches.append(filling)
            filling = ()
    return tuple(batches) if batches else ((filling,) if filling else ())


def manifest_sha256(manifest: Sequence[Admitted]) -> str:
    """Digest of admitted traces, which must be sorted."""
    lines = (f"{trace.trace_id}\t{trace.trace_revision}\t{trace.reward!r}\n" for trace in manifest)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _place(digest: str, seed: int, trace_id: str) -> str:
    return hashlib.sha256(f"{digest}\t{seed}\t{trace_id}".encode()).hexdigest()
