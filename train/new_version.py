"""A trained policy made into a version: near enough to what it was, written, loaded again by others, registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from schemas.errors import CheckpointError, TrainingError
from train.agreement import largest_reload_difference
from train.checkpoint import Checkpoint
from train.export import Card, export_policy
from train.packing import Trace
from train.policy import Policy
from train.registry import ModelSettings, PolicyRow, Weights, name_of_new, policies, weights_sha256
from train.replay import TrainReport, TrainSettings
from train.scoring import drift_figures, score_packs

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


@dataclass(frozen=True, kw_only=True, slots=True)
class NewVersion:
    """A version in the making: the run that trained it and where it is put."""

    lake: Lake
    model: ModelSettings
    settings: TrainSettings
    run_id: str
    parent: PolicyRow
    versions: Mapping[str, Weights]
    """Where each version lies."""
    folder: Path
    """Where its weights go."""
    now: datetime

    def name(self, num_steps: int) -> str:
        """What it is called after so many optimizer steps."""
        return name_of_new(self.lake, self.model, self.parent.optimizer_step + num_steps)

    def is_near(self, policy: Policy, traces: Sequence[Trace]) -> bool:
        """Whether a policy is still near to what wrote these traces."""
        return self._moved(policy, traces) <= LARGEST_FINAL_MOVE

    def _moved(self, policy: Policy, traces: Sequence[Trace]) -> float:
        """Mean absolute log ratio of a policy on these traces, in nats a token, over their sequences."""
        figures = [
            drift_figures(sequence, scores)
            for pack, lists in score_packs(policy, traces, token_budget=self.settings.token_budget)
            for sequence, scores in zip(pack.sequences, lists, strict=True)
        ]
        return sum(one["mean_abs_log_ratio"] for one in figures) / len(figures)

    def require_near(self, policy: Policy, traces: Sequence[Trace]) -> None:
        """Refuse a policy that the last steps have thrown far from what it was: no gate has seen it since."""
        moved = self._moved(policy, traces)
        if not moved <= LARGEST_FINAL_MOVE:
            raise TrainingError(
                f"run {self.run_id}: after its last update the policy stands {moved:.3g} nats a token from what wrote "
                f"the last batch; expected at most {LARGEST_FINAL_MOVE:g}; no version was made: lower "
                "train.learning_rate"
            )

    def write(self, checkpoint: Checkpoint, version: str, num_steps: int) -> None:
        """Write the folder from the checkpoint, with the traces that its updates read and a model card."""
        num_updates = checkpoint.cursor
        order = ["step", "trace_id", "sequence_index"]
        recorded = self.lake.read("replays", where={"run_id": self.run_id}, order_by=order)
        window = self.lake.query("train/data_window", run_id=self.run_id, num_updates=num_updates).to_pylist()
        base = self.versions[self.parent.policy_version].base
        card = Card(
            version=version,
            base=base,
            is_whole=self._is_whole,
            facts=self._facts(num_updates, num_steps),
            settings=self.settings.model_dump(mode="json"),
            data=window,
            updates=checkpoint.history,
        )
        read = recorded.filter(pc.less(recorded["step"], num_updates))
        export_policy(checkpoint.folder, self.folder, base=base, replays=read, card=card)

    def _facts(self, num_updates: int, num_steps: int) -> Mapping[str, Any]:
        return {
            "parent_version": self.parent.policy_version,
            "optimizer_step": self.parent.optimizer_step + num_steps,
            "method": self.settings.method,
            "run_id": self.run_id,
            "num_updates": num_updates,
            "trained_at": self.now.isoformat(),
        }

    def require_loads(self, policy: Policy, traces: Sequence[Trace]) -> float:
        """How far the folder, as transformers and peft load it, is from what was trained, still in memory."""
        sequences = [sequence for trace in traces for sequence in trace][:NUM_RELOADED]
        difference = largest_reload_difference(policy, self.folder, sequences)
        largest = LARGEST_RELOAD_DIFFERENCE[self.model.dtype]
        if not difference <= largest:
            raise CheckpointError(
                f"{self.folder}: loaded by transformers and peft it scores {difference:.3g} nats a token off what was "
                f"trained; expected at most {largest:g}; do not serve it: compare the versions of peft and transformers"
            )
        return difference

    def register(self, report: TrainReport) -> None:
        """Add the version to the policies as a candidate, once."""
        if report.policy_version is None or report.checkpoint_uri is None or self._is_registered():
            return
        base = self.versions[self.parent.policy_version].base
        row = PolicyRow(
            policy_version=report.policy_version,
            revision=0,
            optimizer_step=self.parent.optimizer_step + report.num_steps,
            parent_version=report.parent_version,
            base_uri=report.checkpoint_uri if self._is_whole else str(base),
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

    @property
    def _is_whole(self) -> bool:
        return self.settings.weights == "full"

    def is_taken(self, version: str) -> bool:
        """Whether another run has registered a version of that name."""
        return any(known.policy_version == version and known.run_id != self.run_id for known in policies(self.lake))

    def _is_registered(self) -> bool:
        return any(known.run_id == self.run_id for known in policies(self.lake))
