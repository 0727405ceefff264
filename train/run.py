"""The steps of one training run, each of which finds out what was done before it was killed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import UsageError
from schemas.progress import Progress
from train.alarms import Alarm, first_alarm, last_word
from train.checkpoint import Checkpoint, checkpoint_at, latest_checkpoint, save_checkpoint
from train.critic import keep_critic
from train.deadline import first_moment
from train.learner import Learned, Learner
from train.methods.catalog import Method, by_name
from train.metrics import MetricsFile
from train.new_version import NewVersion
from train.noise import half_precision_noise
from train.opening import Opening
from train.packing import Trace
from train.plan import Plan, make_plan
from train.ranks import Ranks
from train.registry import ModelSettings, PolicyRow, WeightsByVersion, current_policy, policies, policy
from train.replay import TrainReport, TrainSettings
from train.run_notes import critic_notes, notes_of
from train.run_records import RunRecords, as_table
from train.run_traces import RunTraces, facts_of
from train.trackers import Trackers, open_trackers
from train.watching import common_figures, progress_line

if TYPE_CHECKING:
    from warehouse.lake import Lake

NUM_NOISE = 8
"""Traces of the first batch on which the noise of a number type is measured. Convention, untested."""


@dataclass
class Run:
    """One run: its settings, its folder and the lake that it reads and writes."""

    lake: Lake
    model: ModelSettings
    settings: TrainSettings
    run_id: str
    folder: Path
    now: datetime
    clock: Callable[[], datetime]
    ranks: Ranks
    progress: Progress
    notes: list[str] = field(default_factory=list)

    @cached_property
    def plan(self) -> Plan:
        """The plan that the run was begun with, or a new one, which is saved before anything else."""
        path = self.folder / "plan.json"
        admitted = self._traces.admitted()
        usable = self._traces.usable(admitted)
        if len(usable) < len(admitted):
            left = len(admitted) - len(usable)
            self.notes.append(
                f"{left} of {len(admitted)} admitted traces have no top-K list at each token and are left"
            )
        saved = Plan.load(path) if path.is_file() else None
        if saved is None and latest_checkpoint(self._checkpoints) is not None:
            raise UsageError(
                f"{path}: not there, and the run has checkpoints; expected the plan that they were made by; restore "
                "it, or remove the run's folder to train it again"
            )
        made = make_plan(
            usable,
            batch_size=self.settings.batch_size,
            max_updates=self.settings.max_updates,
            seed=self.settings.seed,
            parent=saved.parent_version if saved else current_policy(self.lake).policy_version,
            settings_sha256=f"{self.settings.sha256()} {self.model.dtype}",
            began_at=saved.began_at if saved else self.now.isoformat(),
            by_ask=self._method.needs_groups,
            steps_per_batch=self.settings.steps_per_batch,
            passes=self.settings.passes,
        )
        made = replace(made, num_left=made.num_left + len(admitted) - len(usable))
        if saved is not None:
            saved.require_same(made, path)
        self.ranks.wait()
        if saved is None and self.ranks.is_first:
            made.save(path)
        return made

    @cached_property
    def _traces(self) -> RunTraces:
        reads_heads = self._method.needs_records == "top_k" and self.settings.heads == "logged"
        return RunTraces(self.lake, self.run_id, reads_heads=reads_heads)

    @cached_property
    def _method(self) -> Method:
        return by_name(self.settings.method, self.settings.options)

    @cached_property
    def parent(self) -> PolicyRow:
        """The policy that training goes on from."""
        return policy(self.lake, self.plan.parent_version)

    @cached_property
    def _known(self) -> dict[str, PolicyRow]:
        return {row.policy_version: row for row in policies(self.lake)}

    @cached_property
    def _versions(self) -> WeightsByVersion:
        return WeightsByVersion(self.model, self._known.values())

    @cached_property
    def _opening(self) -> Opening:
        return Opening(
            model=self.model,
            settings=self.settings,
            method=self._method,
            parent=self.parent,
            versions=self._versions,
            critics=self.folder.parent / "critics" / self.settings.method,
            ranks=self.ranks,
            num_updates=len(self.plan.batches),
        )

    @cached_property
    def _records(self) -> RunRecords:
        return RunRecords(
            lake=self.lake,
            run_id=self.run_id,
            method=self.settings.method,
            parent=self.parent,
            known=self._known,
            now=self.now,
        )

    @cached_property
    def _version(self) -> NewVersion:
        return NewVersion(
            lake=self.lake,
            model=self.model,
            settings=self.settings,
            run_id=self.run_id,
            parent=self.parent,
            versions=self._versions,
            folder=self.folder.resolve() / "policy",
            now=self.now,
        )

    def finish(self) -> TrainReport:
        """Do what is left to do of the run, and report all of it."""
        path = self.folder / "report.json"
        if not path.is_file():
            report = self._train()
            if self.ranks.is_first:
                report.save(path)
            self.ranks.wait()
        report = TrainReport.load(path)
        if self.ranks.is_first:
            report = self._under_a_free_name(report)
            self._version.register(report)
        return report

    def _under_a_free_name(self, report: TrainReport) -> TrainReport:
        """The report, its version named anew where another run has taken the name since it was written."""
        reached = checkpoint_at(self._checkpoints, report.num_updates)
        if report.policy_version is None or reached is None or not self._version.is_taken(report.policy_version):
            return report
        named = replace(report, policy_version=self._version.name(report.num_steps))
        self._version.write(reached, str(named.policy_version), report.num_steps)
        named.save(self.folder / "report.json")
        return named

    def _train(self) -> TrainReport:
        """Replay the plan, or what an earlier process left of it, and make a version of what came out."""
        _ = self.plan  # made by all ranks together, before anything else
        checkpoint = latest_checkpoint(self._checkpoints)
        self._tell_of_noise()
        learner = self._opening.learner(checkpoint)
        explained = self._explained(learner)
        if checkpoint is not None:
            self._tell_lake(checkpoint)
            self.notes.append(f"went on after update {checkpoint.cursor - 1}, where it had been stopped")
        last, alarm = self._watched_replay(learner, checkpoint)
        num_updates = 0 if last is None else last.cursor
        reached, learner = (last, learner) if alarm is None else self._last_good(alarm)
        self.notes += notes_of(self.plan, learner, () if reached is None else reached.history)
        self.notes += critic_notes(explained if checkpoint is None else None, self._explained(learner))
        report = self._report(learner, reached, alarm, num_updates=num_updates)
        if learner.critic is not None and self.ranks.is_first and reached is not None:
            keep_critic(learner.critic, self._opening.critic_folder(report.policy_version or report.parent_version))
        return report

    def _last_good(self, alarm: Alarm) -> tuple[Checkpoint | None, Learner]:
        """The newest checkpoint from before the alarm's figures whose policy is still near; None is the parent."""
        num_good = alarm.num_good
        while True:
            reached = checkpoint_at(self._checkpoints, num_good)
            learner = self._opening.learner(reached)
            if reached is None or self._version.is_near(learner.policy, self._traces_of(reached)):
                break
            num_good = reached.cursor - 1
        self.notes.append(
            f"updates after the first {0 if reached is None else reached.cursor} were taken back; the traces that they "
            "read stay in replays and count as trained on"
        )
        return reached, learner

    def _traces_of(self, checkpoint: Checkpoint) -> list[Trace]:
        """The traces of the last update before a checkpoint."""
        return self._traces.read(self.plan.batches[checkpoint.cursor - 1])

    def _watched_replay(
        self, learner: Learner, checkpoint: Checkpoint | None
    ) -> tuple[Checkpoint | None, Alarm | None]:
        """The updates that are left, told to the trackers of the settings as they are made."""
        trackers = open_trackers(
            self.settings.trackers if self.ranks.is_first else (),
            folder=self.folder / "trackers",
            run_id=self.run_id,
            settings=self.settings.model_dump(mode="json"),
            history=() if checkpoint is None else checkpoint.history,
        )
        failed = True
        try:
            ended = self._replay(learner, checkpoint, trackers)
            failed = False
        finally:
            trackers.close(failed=failed)
            self.notes += trackers.notes
        return ended

    def _replay(
        self, learner: Learner, checkpoint: Checkpoint | None, trackers: Trackers
    ) -> tuple[Checkpoint | None, Alarm | None]:
        """Every batch of the plan that is not done yet; the lake hears of an update once it is checkpointed."""
        history = list(checkpoint.history) if checkpoint else []
        metrics = MetricsFile(self.folder / "metrics.jsonl")
        if self.ranks.is_first:
            metrics.write(history)
        rows: list[dict[str, Any]] = []
        began = datetime.fromisoformat(self.plan.began_at)
        batches, stop_at = self.plan.batches, first_moment(self.settings.stop_at, began)
        alarm = first_alarm(history, self.settings.alarms)
        while alarm is None and len(history) < len(batches):
            number = len(history)
            if stop_at is not None and self.ranks.told(self.clock() >= stop_at):
                self.notes.append(
                    f"stopped at {stop_at:%F %R} UTC after {number} of {len(batches)} updates, as train.stop_at says"
                )
                break
            learned = learner.learn(number, self._traces.read(batches[number]), facts_of(batches[number]))
            history.append(_figures(number, learned))
            rows += self._records.replayed(number, learned, num_steps=sum(figures["moved"] for figures in history[:-1]))
            if self.ranks.is_first:
                metrics.append(history[-1])
                trackers.log(number, history[-1])
                self.progress("train", number + 1, len(batches), "updates", progress_line(history[-1]))
            alarm = first_alarm(history, self.settings.alarms)
            if len(history) % self.settings.checkpoint_every == 0 or len(history) == len(batches):
                checkpoint, rows = self._save(learner, history, rows), []
        if rows:
            checkpoint = self._save(learner, history, rows)
        return checkpoint, alarm

    def _tell_of_noise(self) -> None:
        """What bfloat16 alone does to the first batch, beside the bound that a method has."""
        if self.model.dtype == "bfloat16" and self.ranks.is_first:
            first = self._traces.read(self.plan.batches[0])[:NUM_NOISE]
            noise = half_precision_noise(self._opening.parent_policy(), first, token_budget=self.settings.token_budget)
            trust = getattr(self._method, "trust", None)
            self.notes.append(str(noise) if trust is None else f"{noise}; the trust bound is {trust:g}")
        self.ranks.wait()

    def _explained(self, learner: Learner) -> tuple[float, int]:
        """How much of the held-out targets' variance a critic explains as it is, and over how many traces."""
        held_out = self._traces.held_out() if learner.critic is not None else []
        read = [trace for trace in self._traces.read(held_out) if learner.policy.knows(trace)] if held_out else []
        if not read:
            return math.nan, 0
        return learner.explained_variance(read, facts_of(held_out)), len(read)

    def _save(self, learner: Learner, history: Sequence[Mapping[str, Any]], rows: list[dict[str, Any]]) -> Checkpoint:
        """A checkpoint of the updates of `history`, whose rows are in the lake from then on."""
        # As far back as an alarm may go, and one more for a checkpoint between two regular ones.
        alarms = self.settings.alarms
        back = 0 if alarms.are_off else -(-(alarms.window + 1) // self.settings.checkpoint_every) + 2
        checkpoint = save_checkpoint(
            learner,
            self._checkpoints,
            history=history,
            replays=as_table("replays", rows),
            num_kept=max(self.settings.keep_checkpoints, back),
        )
        self._tell_lake(checkpoint)
        return checkpoint

    def _tell_lake(self, checkpoint: Checkpoint) -> None:
        """Commit what the lake does not hold yet of the updates of a checkpoint."""
        if self.ranks.is_first:
            self._records.commit("replays", checkpoint.replays)
            self._records.commit("updates", as_table("updates", self._records.updated(checkpoint.history)))

    @property
    def _checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def _report(
        self, learner: Learner, checkpoint: Checkpoint | None, alarm: Alarm | None, *, num_updates: int
    ) -> TrainReport:
        """The new version written and loaded again, unless nothing moved."""
        history = () if checkpoint is None else checkpoint.history
        num_steps = sum(figures["moved"] for figures in history)
        version = difference = None
        if num_steps and checkpoint is not None:
            last = self._traces_of(checkpoint)
            self._version.require_near(learner.policy, last)
            version = self._version.name(num_steps)
            if self.ranks.is_first:
                self._version.write(checkpoint, version, num_steps)
            self.ranks.wait()
            difference = self._version.require_loads(learner.policy, last)
        else:
            self.notes.append("no update moved the policy, so there is no new version")
        read = self._records.window(len(history))
        return TrainReport(
            run_id=self.run_id,
            policy_version=version,
            parent_version=self.parent.policy_version,
            method=self.settings.method,
            num_updates=len(history),
            num_steps=num_steps,
            num_traces=self.plan.num_read(len(history)),
            num_in_trust=sum(row["num_in_trust"] for row in read),
            num_left=self.plan.num_left + self.plan.num_traces - self.plan.num_read(num_updates),
            checkpoint_uri=None if version is None else str(self._version.folder),
            last_update=history[-1]["account"] if history else "",
            reload_difference=difference,
            stopped=last_word(history, self.settings.alarms) if alarm is None else alarm.sentence,
            notes=tuple(self.notes),
        )


def _figures(number: int, learned: Learned) -> dict[str, Any]:
    """One line of the metrics file."""
    return {
        "update": number,
        "moved": learned.moved,
        "num_in_trust": int(learned.update.in_trust.sum()),
        **learned.figures,
        **common_figures(learned.update),
        "account": str(learned.update),
    }
