"""The learner of a run: at its parent when the run begins, where a checkpoint left it when it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import torch

from train.agreement import open_policy
from train.behavior import BehaviorPolicies
from train.checkpoint import Checkpoint, restore
from train.critic import Critic
from train.learner import Learner
from train.methods.catalog import Method
from train.optimization import Optimization
from train.policy import Policy
from train.ranks import Ranks
from train.recorded import Draws, Expectations, Heads, LoggedHeads, Recorder
from train.registry import ModelSettings, PolicyRow, Weights
from train.replay import LoraSettings, TrainSettings
from train.speed import known_peak

NUM_RECORDS = 16
"""Draws or likeliest tokens of the behavior policy at each token, unless the method's options say how many. KLPO,
arXiv:2610.08963: its library's default since October (0cde554, 4859bdc)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """All that a learner is made of."""

    model: ModelSettings
    settings: TrainSettings
    method: Method
    parent: PolicyRow
    versions: Mapping[str, Weights]
    """Where every version lies, by name: those that may have written a trace."""
    critics: Path
    """Folder of the critics that earlier runs of this method left, by version."""
    ranks: Ranks
    num_updates: int
    """Of the whole run, by which the learning rate goes."""

    def learner(self, checkpoint: Checkpoint | None) -> Learner:
        """The learner after the updates of `checkpoint`, or at the parent."""
        policy = self._policy()
        recorder, trunk = self._recorder(policy), self._trunk(policy)
        self._equip(policy, checkpoint)
        if self.settings.activation_checkpointing:
            policy.recompute_activations()
        learner = Learner(
            policy,
            self.method,
            self._optimization(),
            self.settings.token_budget,
            critic=self._critic(policy, trunk, is_kept_elsewhere=checkpoint is not None),
            recorder=recorder,
            ranks=self.ranks,
            peak_flops=self._peak(policy),
        )
        if checkpoint is not None:
            restore(learner, checkpoint)
        return learner

    def parent_policy(self) -> Policy:
        """The parent as it is scored, in this process alone."""
        policy = self._policy()
        policy.use(self.versions[self.parent.policy_version].adapter)
        return policy

    def critic_folder(self, version: str) -> Path:
        """Where the critic that belongs to a policy version is kept."""
        return self.critics / quote(version, safe="@+").replace(".", "%2E", version.startswith("."))

    @property
    def _is_whole(self) -> bool:
        return self.settings.weights == "full"

    def _peak(self, policy: Policy) -> float | None:
        name = torch.cuda.get_device_name(policy.device) if policy.device.type == "cuda" else ""
        return known_peak(name, dtype=self.model.dtype, stated=self.settings.peak_flops)

    def _policy(self) -> Policy:
        """The parent's base, before any adapter lies over it."""
        base = self.versions[self.parent.policy_version].base
        return open_policy(self.model, base=base, is_whole=self._is_whole)

    def _apart(self, policy: Policy) -> Policy:
        """Another policy over the same base: sharing its weights, unless they are trained or spread over ranks."""
        if self._is_whole or self.ranks.size > 1:
            return Policy.load(policy.base, dtype=self.model.dtype, device=self.model.device)
        return policy.twin()

    def _equip(self, policy: Policy, checkpoint: Checkpoint | None) -> None:
        """Put in place what is trained: where the checkpoint has it, else as the parent has it, else anew."""
        adapter = self.versions[self.parent.policy_version].adapter
        if self._is_whole:
            if checkpoint is None:
                policy.use(adapter)
            else:
                policy.load_state(checkpoint.folder)
            policy.train_whole()
        elif checkpoint is not None or adapter is not None:
            policy.use(checkpoint.folder if checkpoint is not None else adapter)
        else:
            _lay_anew(policy, self.settings.lora, self.settings.seed)

    def _recorder(self, policy: Policy) -> Recorder | None:
        """The source of recorded tokens that the method reads; None for one that reads none."""
        kind = self.method.needs_records
        if kind is None:
            return None
        if kind == "top_k" and self.settings.heads == "logged":
            return LoggedHeads()
        behavior = BehaviorPolicies(self._apart(policy), self.versions)
        if kind == "expected":
            return Expectations(behavior)
        num = getattr(self.method, "num_records", None) or NUM_RECORDS
        return Heads(behavior, num) if kind == "top_k" else Draws(behavior, num, self.settings.seed)

    def _trunk(self, policy: Policy) -> Policy | None:
        """A critic's own trunk, with a fresh adapter."""
        if not self.method.needs_critic or self.settings.critic.trunk == "shared":
            return None
        trunk = self._apart(policy)
        _lay_anew(trunk, self.settings.lora, self.settings.seed + 1)
        return trunk

    def _critic(self, policy: Policy, trunk: Policy | None, *, is_kept_elsewhere: bool) -> Critic | None:
        """The critic that the parent's last training left, or a new one; None for a method without.

        One that the run's own checkpoint keeps is read from there.
        """
        if not self.method.needs_critic:
            return None
        critic = Critic(
            hidden_size=policy.hidden_size,
            settings=self.settings.critic,
            value_range=self.method.value_range,
            device=policy.device,
            trunk=trunk,
        )
        kept = self.critic_folder(self.parent.policy_version)
        if kept.is_dir() and not is_kept_elsewhere:
            critic.load(kept)
        return critic

    def _optimization(self) -> Optimization:
        return Optimization(
            learning_rate=self.settings.learning_rate,
            schedule=self.settings.schedule,
            warmup_updates=self.settings.warmup_updates,
            num_updates=self.num_updates,
            betas=self.settings.betas,
            weight_decay=self.settings.weight_decay,
            max_grad_norm=self.settings.max_grad_norm,
        )


def _lay_anew(policy: Policy, lora: LoraSettings, seed: int) -> None:
    policy.use_new(rank=lora.rank, alpha=lora.alpha, targets=lora.targets, seed=seed)
