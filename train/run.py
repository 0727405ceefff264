"""The steps of one training run, each of which finds out what was done before it was killed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from schemas.errors import CheckpointError, TrainingError, UsageError
from schemas.progress import Progress
from schemas.replay import REPLAYS
from train.agreement import largest_reload_difference, open_policy
from train.behavior import BehaviorPolicies
from train.checkpoint import Checkpoint, latest_checkpoint, restore, save_checkpoint
from train.critic import Critic, keep_critic
from train.export import export_policy
from train.learner import Facts, Learned, Learner, Optimization
from train.methods.catalog import Method, by_name
from train.metrics import MetricsFile
from train.packing import Trace
from train.plan import Admitted, Plan, make_plan
from train.policy import Policy
from train.registry import (
    ModelSettings,
    PolicyRow,
    adapter_folder,
    current_policy,
    name_of_new,
    policies,
    policy,
    weights_sha256,
)
from train.replay import TrainReport, TrainSettings
from train.scoring import drift_figures, score_packs
from train.sequences import SEQUENCE_COLUMNS, LoggedSequence, by_trace, sequences_from_table

if TYPE_CHECKING:
    from warehouse.lake import Lake

LARGEST_RELOAD_DIFFERENCE = {"float32": 1e-3, "bfloat16": 1.0}
"""Nats a token above which an exported policy is not the one that was trained, by number type; rounding makes 2e-5 and
0.5 (measured 2026-11-30)."""

LARGEST_FINAL_MOVE = 1.0
"""Mean absolute log ratio, in nats a token, beyond which a trained policy has diverged: more than three times what nine
updates of the recorded example come to (0.28, measured 2026-11-30). Convention, untested."""

NUM_RELOADED = 8
"""Sequences of the last batch that are scored again by plain transformers. Convention, untested."""

_ROWS = pa.schema([column.field for column in REPLAYS.columns])


@dataclass
class Run:
    """One run: its settings, its folder and the lake that it reads and writes."""

    lake: Lake
    model: ModelSettings
    settings: TrainSettings
    run_id: str
    folder: Path
    now: datetime
    progress: Progress
    notes: list[str] = field(default_factory=list)

    @cached_property
    def plan(self) -> Plan:
        """The plan that the run was begun with, or a new one, which is saved before anything else."""
        path = self.folder / "plan.json"
        admitted = [Admitted(**row) for row in self.lake.query("train/admitted", run_id=self.run_id).to_pylist()]
        if not admitted:
            raise UsageError(
                f"run {self.run_id}: no admitted trace; expected verdicts of this run with some; validate first, or "
                "look at its report for why none passed"
            )
        saved = Plan.load(path) if path.is_file() else None
        made = make_plan(
            admitted,
            batch_size=self.settings.batch_size,
            max_updates=self.settings.max_updates,
            seed=self.settings.seed,
            parent=saved.parent_version if saved else current_policy(self.lake).policy_version,
            settings_sha256=self.settings.sha256(),
            by_ask=self._method.needs_groups,
        )
        if saved is None:
            made.save(path)
        else:
            saved.require_same(made, path)
        return made

    @cached_property
    def _method(self) -> Method:
        return by_name(self.settings.method, self.settings.options)

    @cached_property
    def parent(self) -> PolicyRow:
        """The policy that training goes on from."""
        return policy(self.lake, self.plan.parent_version)

    def finish(self) -> TrainReport:
        """Do what is left to do of the run, and report all of it."""
        path = self.folder / "report.json"
        if path.is_file():
            report = TrainReport.load(path)
        else:
            learner, checkpoint = self._begin()
            checkpoint = self._replay(learner, checkpoint)
            self._tell_of_critic(learner, checkpoint)
            report = self._report(learner.policy, checkpoint)
            if learner.critic is not None:
                keep_critic(learner.critic, self._critic_of(report.policy_version or report.parent_version))
            report.save(path)
        self._register(report)
        return report

    def _begin(self) -> tuple[Learner, Checkpoint | None]:
        """The learner where the run's last checkpoint left it, or at the parent."""
        method = self._method
        plan, checkpoint = self.plan, latest_checkpoint(self._checkpoints)
        loaded = open_policy(self.model)
        behavior = self._behavior(loaded) if method.needs_behavior_policy else None
        adapter = checkpoint.folder if checkpoint else adapter_folder(self.model, self.parent)
        if adapter is None:
            lora = self.settings.lora
            loaded.use_new(rank=lora.rank, alpha=lora.alpha, targets=lora.targets, seed=self.settings.seed)
        else:
            loaded.use(adapter)
        optimization = Optimization(
            learning_rate=self.settings.learning_rate,
            schedule=self.settings.schedule,
            warmup_updates=self.settings.warmup_updates,
            num_updates=len(plan.batches),
            betas=self.settings.betas,
            weight_decay=self.settings.weight_decay,
            max_grad_norm=self.settings.max_grad_norm,
        )
        learner = Learner(
            loaded,
            method,
            optimization,
            self.settings.token_budget,
            critic=self._critic(loaded, method),
            behavior=behavior,
        )
        if checkpoint:
            restore(learner, checkpoint)
            self._record(checkpoint.replays)
            self.notes.append(f"went on after update {checkpoint.cursor - 1}, where it had been stopped")
        return learner, checkpoint

    def _behavior(self, loaded: Policy) -> BehaviorPolicies:
        """Every version that may have written a trace, over the base weights that are loaded already."""
        return BehaviorPolicies(
            loaded.twin(), {name: adapter_folder(self.model, known) for name, known in self._known.items()}
        )

    def _critic(self, loaded: Policy, method: Method) -> Critic | None:
        """The critic that the parent's last training left, or a new one; None for a method without."""
        if not method.needs_critic:
            return None
        critic = Critic(
            hidden_size=loaded.hidden_size,
            settings=self.settings.critic,
            value_range=method.value_range,
            device=loaded.device,
        )
        kept = self._critic_of(self.parent.policy_version)
        if kept.is_dir():
            critic.load(kept)
        return critic

    def _tell_of_critic(self, learner: Learner, checkpoint: Checkpoint) -> None:
        """How far the critic has come, and what the policy waited for."""
        if learner.critic is None:
            return
        num_waited = sum(figures["is_critic_warming_up"] for figures in checkpoint.history)
        self.notes.append(
            f"the critic has learned from {learner.critic.num_updates} batches; the policy waited for it in "
            f"{num_waited} of {len(checkpoint.history)}"
        )

    def _critic_of(self, version: str) -> Path:
        """Where the critic that belongs to a policy version is kept, in the folder that holds the runs."""
        return self.folder.parent / "critics" / self.settings.method / version

    def _replay(self, learner: Learner, checkpoint: Checkpoint | None) -> Checkpoint:
        """Every batch of the plan that is not done yet; the lake hears of an update once it is checkpointed."""
        history = list(checkpoint.history) if checkpoint else []
        metrics = MetricsFile(self.folder / "metrics.jsonl")
        metrics.write(history)
        rows: list[dict[str, Any]] = []
        batches = self.plan.batches
        for number in range(len(history), len(batches)):
            learned = learner.learn(number, self._read(batches[number]), _facts(batches[number]))
            history.append(_figures(number, learned))
            metrics.append(history[-1])
            rows += self._rows(number, learned, num_steps=sum(figures["moved"] for figures in history[:-1]))
            self._tell(history[-1], len(batches))
            if (number + 1) % self.settings.checkpoint_every == 0 or number + 1 == len(batches):
                table = pa.Table.from_pylist(rows, schema=_ROWS)
                checkpoint = save_checkpoint(learner, self._checkpoints, history=history, replays=table)
                self._record(table)
                rows = []
        if checkpoint is None:
            raise AssertionError("a plan has a batch, and the last one is checkpointed")
        return checkpoint

    @property
    def _checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def _read(self, batch: Sequence[Admitted]) -> list[Trace]:
        """The traces of a batch at the revisions that were judged; refused when the lake lost one since."""
        wanted = {trace.trace_id: trace.trace_revision for trace in batch}
        table = self.lake.read("traces", columns=SEQUENCE_COLUMNS, where={"trace_id": list(wanted)})
        found = [
            sequence
            for sequence in sequences_from_table(table)
            if sequence.trace_revision == wanted[sequence.trace_id] and sequence.num_action_tokens
        ]
        missing = sorted(wanted.keys() - {sequence.trace_id for sequence in found})
        if missing:
            raise UsageError(
                f"run {self.run_id}: {len(missing)} admitted traces, such as {missing[0]}, are no longer in the lake; "
                "expected those that were judged; they were erased since, so begin another run"
            )
        return by_trace(found)

    def _rows(self, number: int, learned: Learned, *, num_steps: int) -> list[dict[str, Any]]:
        """The rows of `replays` of one update, `num_steps` optimizer steps after the parent."""
        sequences = [sequence for trace in learned.traces for sequence in trace]
        rows = []
        for sequence, told in zip(sequences, learned.update.per_sequence(), strict=True):
            rows.append(
                {
                    **asdict(told),
                    "run_id": self.run_id,
                    "step": number,
                    "trace_revision": sequence.trace_revision,
                    "method": learned.update.method,
                    "policy_lag": self.parent.optimizer_step + num_steps - self._optimizer_step(sequence),
                    "replayed_at": self.now,
                }
            )
        return rows

    @cached_property
    def _known(self) -> dict[str, PolicyRow]:
        return {row.policy_version: row for row in policies(self.lake)}

    def _optimizer_step(self, sequence: LoggedSequence) -> int:
        """Where the policy that wrote the sequence stands."""
        version = sequence.behavior_version or "unknown"
        return (self._known.get(version) or policy(self.lake, version)).optimizer_step

    def _record(self, rows: pa.Table) -> None:
        """Commit rows of `replays` that the lake does not hold yet."""
        with self.lake.transaction() as transaction:
            transaction.append("replays", transaction.query("train/not_yet_replayed", {"incoming": rows}))

    def _tell(self, figures: Mapping[str, Any], num_batches: int) -> None:
        note = f"{figures['num_in_trust']} of {figures['num_traces']} in trust, gradient {figures['grad_norm']:.3g}"
        self.progress("train", figures["update"] + 1, num_batches, "updates", note)

    def _report(self, loaded: Policy, checkpoint: Checkpoint) -> TrainReport:
        """The new version written and loaded again, unless nothing moved."""
        history = checkpoint.history
        num_steps = sum(figures["moved"] for figures in history)
        version = folder = difference = None
        if num_steps:
            self._require_near(loaded)
            version = name_of_new(self.lake, self.model, self.parent.optimizer_step + num_steps)
            folder = self.folder.resolve() / "policy"
            self._export(checkpoint, folder, version, num_steps)
            difference = self._reload(loaded, folder)
        else:
            self.notes.append("no update moved the policy, so there is no new version")
        return TrainReport(
            run_id=self.run_id,
            policy_version=version,
            parent_version=self.parent.policy_version,
            method=self.settings.method,
            num_updates=len(history),
            num_steps=num_steps,
            num_traces=self.plan.num_traces,
            num_in_trust=sum(figures["num_in_trust"] for figures in history),
            num_left=self.plan.num_left,
            checkpoint_uri=None if folder is None else str(folder),
            last_update=history[-1]["account"],
            reload_difference=difference,
            notes=tuple(self.notes),
        )

    def _export(self, checkpoint: Checkpoint, folder: Path, version: str, num_steps: int) -> None:
        recorded = self.lake.read("replays", where={"run_id": self.run_id}, order_by=["step", "trace_id"])
        about = {
            "policy_version": version,
            "parent_version": self.parent.policy_version,
            "optimizer_step": self.parent.optimizer_step + num_steps,
            "method": self.settings.method,
            "run_id": self.run_id,
            "num_updates": len(checkpoint.history),
            "num_traces": self.plan.num_traces,
            "learning_rate": self.settings.learning_rate,
            "batch_size": self.settings.batch_size,
            "trained_at": self.now.isoformat(),
        }
        export_policy(checkpoint.folder, folder, base=self.model.base, replays=recorded, about=about)

    def _require_near(self, loaded: Policy) -> None:
        """Refuse a policy that the last steps have thrown far from what it was: no gate has seen it since."""
        traces = self._read(self.plan.batches[-1])
        figures = [
            drift_figures(sequence, scores)
            for pack, lists in score_packs(loaded, traces, token_budget=self.settings.token_budget)
            for sequence, scores in zip(pack.sequences, lists, strict=True)
        ]
        moved = sum(one["mean_abs_log_ratio"] for one in figures) / len(figures)
        if not moved <= LARGEST_FINAL_MOVE:
            raise TrainingError(
                f"run {self.run_id}: after its last update the policy stands {moved:.3g} nats a token from what wrote "
                f"the last batch; expected at most {LARGEST_FINAL_MOVE:g}; no version was made: lower "
                "train.learning_rate"
            )

    def _reload(self, loaded: Policy, folder: Path) -> float:
        """How far the written version, as transformers and peft load it, is from what was trained, still in memory."""
        sequences = [sequence for trace in self._read(self.plan.batches[-1]) for sequence in trace][:NUM_RELOADED]
        difference = largest_reload_difference(loaded, folder, sequences)
        largest = LARGEST_RELOAD_DIFFERENCE[self.model.dtype]
        if not difference <= largest:
            raise CheckpointError(
                f"{folder}: loaded by transformers and peft it scores {difference:.3g} nats a token off what was "
                f"trained; expected at most {largest:g}; do not serve it: compare the versions of peft and transformers"
            )
        return difference

    def _is_registered(self) -> bool:
        return any(known.run_id == self.run_id for known in policies(self.lake))

    def _register(self, report: TrainReport) -> None:
        """Add the new version to the policies as a candidate, once."""
        if report.policy_version is None or report.checkpoint_uri is None or self._is_registered():
            return
        row = PolicyRow(
            policy_version=report.policy_version,
            revision=0,
            optimizer_step=policy(self.lake, report.parent_version).optimizer_step + report.num_steps,
            parent_version=report.parent_version,
            base_uri=str(self.model.base),
            checkpoint_uri=report.checkpoint_uri,
            checkpoint_sha256=weights_sha256(Path(report.checkpoint_uri)),
            method=report.method,
            run_id=self.run_id,
            state="candidate",
            created_at=self.now,
            recorded_at=self.now,
        )
        with self.lake.transaction() as transaction:
            if not self._is_registered():
                transaction.append("policies", [row.as_row()])


def _facts(batch: Sequence[Admitted]) -> dict[str, Facts]:
    return {trace.trace_id: Facts(trace.reward, trace.ask_id) for trace in batch}


def _figures(number: int, learned: Learned) -> dict[str, Any]:
    """One line of the metrics file."""
    return {
        "update": number,
        "moved": learned.moved,
        "num_in_trust": int(learned.update.in_trust.sum()),
        **learned.figures,
        "account": str(learned.update),
    }
