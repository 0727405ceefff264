"""One pass of updates over the traces that a run admitted, from the current policy to a new version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from schemas.errors import CheckpointError
from schemas.progress import Progress, silent
from schemas.settings import Settings
from train.alarms import AlarmSettings
from train.commit import commit
from train.needs import require_runnable
from train.registry import ModelSettings
from train.trackers import TrackerName, require_trackers

if TYPE_CHECKING:
    from warehouse.lake import Lake


class LoraSettings(Settings):
    """The adapter that a policy without one gets; a policy that has an adapter keeps its shape."""

    rank: int = Field(default=16, ge=1)
    """Rank of the two factors. whileai's recipes: rank 16, alpha 32."""
    alpha: float = Field(default=32.0, gt=0)
    """Scale of the adapter, divided by the rank. whileai's recipes: rank 16, alpha 32."""
    targets: tuple[str, ...] = ("all-linear",)
    """Modules that get one, by the end of their names; all-linear is every linear layer but the head. Convention,
    untested."""

    @field_validator("targets")
    @classmethod
    def _are_inner_layers(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        outer = [name for name in targets if "lm_head" in name or "embed" in name]
        if outer:
            raise ValueError(f"{outer}: the head and the embedding are read from the base; expected inner layers")
        return targets


class CriticSettings(Settings):
    """The critic of a method that needs one, a value head; other methods read none of it."""

    trunk: Literal["shared", "own"] = "shared"
    """Whose states the head reads: those of the policy, or those of an adapter of its own over the same base, which is
    a value model and costs a forward and backward pass a step: with two steps 1.9 of the update's time, where a shared
    trunk takes 0.03, measured 2026-11-30 on a small model. Convention, untested: SAO and BPCO train a value model."""
    learning_rate: float = Field(default=1e-4, gt=0)
    """AdamW's rate on all that learns. whileai's recipes: 1e-4 for a head; SAO's 5e-6,
    arXiv:2607.07508, is for a whole value model."""
    steps: int = Field(default=2, ge=1)
    """Steps of the critic for each update. Hou et al. 2026, arXiv:2607.07508, Sec. 4.1: 2."""
    warmup_updates: int = Field(default=10, ge=0)
    """Batches from which a new critic learns alone before the policy moves; their traces are spent on it. SAO,
    arXiv:2607.07508: a 10-step warm-up, read as critic-only steps, as whileai's recipes do."""


class TrainSettings(Settings):
    """The method and how its coefficients become weights."""

    method: str = "flash_reinforce"
    """Update method, by name; one that needs what the trainer does not have is refused. Convention, untested."""
    weights: Literal["lora", "full"] = "lora"
    """What is trained: an adapter over the base, or every weight, held in float32 and used in model.dtype. whileai's
    recipes: an adapter."""
    options: dict[str, bool | int | float | str | list[float]] = Field(default_factory=dict)
    """Options of the method, such as { trust = 0.003 }; each has its own default and source. Convention,
    untested: those defaults unless stated."""
    heads: Literal["logged", "weights"] = "logged"
    """Where a method that reads the K likeliest tokens of the behavior policy has them from: the top-K lists of the
    log, which traces without them are left out for, or the weights that wrote the traces, asked again. Convention,
    untested: what was served is what was logged."""
    batch_size: int = Field(default=128, ge=2)
    """Traces of one update, over which the reward mean is taken. FlashREINFORCE reference repository, common.json:
    128, one trace an ask."""
    steps_per_batch: int = Field(default=1, ge=1)
    """Updates in a row on one batch, each an optimizer step with ratios taken anew against the log. More than 1 reuses
    traces, and the policy moves away from them. FlashREINFORCE reference repository: 1."""
    passes: int = Field(default=1, ge=1)
    """Times that all batches are gone through. More than 1 reuses traces; the report says what drift that added.
    FlashREINFORCE reference repository: 1."""
    max_updates: int = Field(default=64, ge=1)
    """Most updates of one run, all passes and steps together; traces that are left over stay admissible. Convention,
    untested."""
    stop_at: str | None = Field(default=None, pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")
    """Time of day in UTC, as 05:30, at which a run begins no further update: it makes its version of those that are
    done, and the other traces stay admissible. Left out, the run takes as long as it takes. Convention, untested."""
    learning_rate: float = Field(default=1e-5, gt=0)
    """AdamW's rate on all that is trained. None is published for an adapter: the recipes that whileai ran take 1e-5, at
    which four updates leave a drift near 1e-4; its 1e-4 is marked untested there. Every weight takes less: at 1e-5 two
    updates left the trust region of the example, measured 2026-12-01; SAO, arXiv:2607.07508, has 1e-6."""
    schedule: Literal["constant", "cosine"] = "constant"
    """How the rate goes on after the warm-up; a cosine ends at a tenth of it. Convention, untested: a night is too
    short for a decay."""
    warmup_updates: int = Field(default=0, ge=0)
    """Updates over which the rate rises. Convention, untested."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """AdamW's decay of its two moments, which begin at 0 in every run. PyTorch's default."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's weight decay, which pulls an adapter towards the base, and every weight towards 0. Convention, untested:
    the 0.1 of the reference repository is for whole models."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradient norm above which the gradient is scaled down. FlashREINFORCE reference repository, its
    docs/training.md."""
    token_budget: int = Field(default=2048, ge=1)
    """Tokens of a pack, shared beginnings counted once; it bounds memory and changes no update. Training takes 1.8 MiB
    a token beside the weights on the example's model, measured 2026-11-30."""
    activation_checkpointing: bool = False
    """Whether each layer is run again on the way back instead of being kept: less memory, and 1.2 times the time of
    full weights or 1.5 of an adapter, measured 2026-11-30 on a small model. Changes no update. Convention, untested."""
    processes: int = Field(default=1, ge=1)
    """Processes that share the packs of a batch, each with a part of the weights (FSDP2 under torchrun), one a GPU.
    Convention, untested."""
    peak_flops: float | None = Field(default=None, gt=0)
    """Peak of one device in FLOP/s, from which MFU is told; left out, that of a known GPU in bfloat16, or MFU is not
    told. Convention, untested."""
    trackers: tuple[TrackerName, ...] = ()
    """Which of tensorboard, mlflow and wandb are told of every update beside metrics.jsonl. Convention, untested."""
    checkpoint_every: int = Field(default=1, ge=1)
    """Updates between checkpoints, which is what a killed run makes again. Convention, untested."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """Checkpoints of a run that stay, each as large as what is trained and twice that; while an alarm listens, as many
    as it may go back over stay in any case: its window and three more. Convention, untested."""
    seed: int = 0
    """Decides the order of traces, the random half of a fresh adapter, and draws. Convention, untested."""
    lora: LoraSettings = LoraSettings()
    """The adapter that a policy without one gets."""
    critic: CriticSettings = CriticSettings()
    """The critic of a method that needs one."""
    alarms: AlarmSettings = AlarmSettings()
    """When a run is stopped."""

    @field_validator("method")
    @classmethod
    def _can_be_run(cls, method: str) -> str:
        require_runnable(method)
        return method

    def sha256(self) -> str:
        """Digest of all that decide what the updates are; a run may be gone on with under others of the rest."""
        deciding = self.model_dump(mode="json", exclude=set(_WITHOUT_EFFECT))
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()


_WITHOUT_EFFECT = (
    "stop_at",
    "processes",
    "peak_flops",
    "trackers",
    "token_budget",
    "activation_checkpointing",
    "checkpoint_every",
    "keep_checkpoints",
    "alarms",
)
"""Settings that change no update but by rounding."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainReport:
    """What a run of training came to."""

    run_id: str
    policy_version: str | None
    """The new version; None when no update moved the policy."""
    parent_version: str
    method: str
    num_updates: int
    """Batches that were replayed."""
    num_steps: int
    """Optimizer steps among them; a batch whose coefficients are all 0 makes none."""
    num_traces: int
    num_in_trust: int
    """Traces that the method let move the policy when their turn came."""
    num_left: int
    """Admitted traces that no update has read; they stay admissible."""
    checkpoint_uri: str | None
    """Folder of the new version."""
    last_update: str
    """The account that the method gave of the last batch."""
    reload_difference: float | None
    """Largest difference in nats between our scores and those of the new version loaded by plain transformers and
    peft."""
    stopped: str | None = None
    """Which alarm ended the run, or what its last update was beyond: its version is held; None where all was well."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = self.policy_version or "no new version"
        head = (
            f"trained {what} from {self.parent_version} with {self.method}: {self.num_updates} updates "
            f"({self.num_steps} optimizer steps), {self.num_traces} traces, {self.num_in_trust} in trust"
        )
        lines = [head, self.last_update]
        if self.reload_difference is not None:
            lines.append(f"loaded by transformers and peft, it scores alike within {self.reload_difference:.1e} nats")
        if self.num_left:
            lines.append(f"{self.num_left} admitted traces are left for the next run")
        if self.stopped is not None:
            lines.append(f"not to be proposed: {self.stopped}")
        return "\n".join([*lines, *self.notes, *([self.checkpoint_uri] if self.checkpoint_uri else [])])

    def save(self, path: Path) -> None:
        """Write the report as JSON, whole or not at all."""
        temporary = path.with_suffix(".writing")
        temporary.write_text(json.dumps(asdict(self), indent=2) + "\n")
        commit(temporary, path)

    @staticmethod
    def load(path: Path) -> TrainReport:
        """Read a saved report back."""
        try:
            content: Mapping[str, Any] = json.loads(path.read_text())
            return TrainReport(**{**content, "notes": tuple(content["notes"])})
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{path}: cannot be read ({error}); expected the report of a finished run; remove it, and the run "
                "makes it again from its last checkpoint"
            ) from error


def check_method(settings: TrainSettings) -> None:
    """Refuse a method or options that no batch of the trainer can be updated with; loads torch, and no model.

    Loading the settings refuses the method's name alone, so a night asks this before it does anything else.
    """
    require_runnable(settings.method)
    require_trackers(settings.trackers)
    from train.methods.catalog import by_name
    from train.trace_batch import try_method

    try_method(by_name(settings.method, settings.options))


def train(  # noqa: PLR0913 - a step of the night takes the night's lake, settings, names, places and clock
    lake: Lake,
    *,
    model: ModelSettings,
    settings: TrainSettings,
    run_id: str,
    run_folder: Path,
    now: datetime,
    clock: Callable[[], datetime] | None = None,
    progress: Progress = silent,
) -> TrainReport:
    """Replay what the run admitted; a finished run is only reported, a killed one goes on from its last checkpoint.

    Under torchrun every rank calls it with the same arguments, all but the first with a lake that is open for reading;
    the first one writes. `clock` tells the time to a run that has to `stop_at` one; by default it stands at `now`.

    Reads the verdicts of the run, and each trace at the revision that was judged. Writes under `run_folder`: plan,
    checkpoints, metrics.jsonl, the folder `policy` of the new version, and report.json; and to the lake, each row
    once: `replays`, and the new version in `policies` as a candidate.
    """
    check_method(settings)
    from train.ranks import join
    from train.run import Run

    ranks = join(model.device)
    return Run(lake, model, settings, run_id, run_folder, now, clock or (lambda: now), ranks, progress).finish()
