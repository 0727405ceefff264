"""A value head on the policy's trunk: what the reward is likely to be, from the tokens so far.

The trunk's hidden states are constants to it, so the critic never moves the policy. The value of a token is read off
the state that predicts that token, which has not seen it: a value that knew its token would bias the gradient.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from schemas.errors import CheckpointError, TrainingError
from train.commit import commit
from train.methods import values
from train.optimizer_state import optimizer_tensors, restore_optimizer
from train.replay import CriticSettings

_WEIGHTS = "critic.safetensors"
_FACTS = "critic.json"

EDGE = 0.02
"""A bounded critic starts no nearer to an end of its range than this share of it: its slope falls with the square of
the distance, so that it would hardly learn from there. Convention, untested."""


@dataclass(slots=True)
class Critic:
    """One linear layer in float32 on hidden states of that size, with its own AdamW.

    A new one says one thing everywhere: 0, or the middle of its range, until it is started at a reward.
    """

    hidden_size: int
    settings: CriticSettings
    value_range: tuple[float, float] | None
    """Where values are bounded to; None leaves them unbounded."""
    device: torch.device
    num_updates: int = 0
    """Batches that it has learned from, in this run and before it."""
    weight: torch.nn.Parameter = field(init=False)
    bias: torch.nn.Parameter = field(init=False)
    optimizer: torch.optim.AdamW = field(init=False)

    def __post_init__(self) -> None:
        """Zero weights and an optimizer on them."""
        self.weight = torch.nn.Parameter(torch.zeros(self.hidden_size, device=self.device))
        self.bias = torch.nn.Parameter(torch.zeros((), device=self.device))
        self.optimizer = torch.optim.AdamW(
            list(self._parameters.values()), lr=self.settings.learning_rate, weight_decay=0.0
        )

    @property
    def is_warming_up(self) -> bool:
        """Whether the policy waits for it."""
        return self.num_updates < self.settings.warmup_updates

    def values(self, hidden: Tensor) -> Tensor:
        """[A] values from the [A, H] states before each token; carries a graph to the head and to nothing else."""
        raw = hidden.detach().float() @ self.weight + self.bias
        return raw if self.value_range is None else values.bounded_values(raw, *self.value_range)

    def start_at(self, reward: float) -> None:
        """Make a critic that has learned nothing say this reward everywhere."""
        if self.num_updates:
            return
        if self.value_range is not None:
            low, high = self.value_range
            inside = min(max(reward, low + EDGE * (high - low)), high - EDGE * (high - low))
            reward = float(values.raw_values(torch.tensor(inside, dtype=torch.float64), low, high))
        with torch.no_grad():
            self.bias.fill_(reward)

    def learn(self, hidden: Tensor, targets: Tensor) -> float:
        """The steps of one batch towards `targets` [A]; returns the squared error before them, halved."""
        every = torch.ones_like(targets, dtype=torch.bool)
        first = None
        for _ in range(self.settings.steps):
            self.optimizer.zero_grad(set_to_none=True)
            loss = values.value_loss(self.values(hidden), targets.float(), every)
            if not bool(torch.isfinite(loss)):
                raise TrainingError(
                    f"critic: loss {float(loss.detach())}; expected a finite number; it was not changed: lower "
                    "train.critic.learning_rate, or look for rewards that are far out of range"
                )
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            self.optimizer.step()
            first = float(loss.detach()) if first is None else first
        self.num_updates += 1
        if first is None:
            raise AssertionError("settings have at least one step")
        return first

    def save(self, folder: Path) -> None:
        """Write head, optimizer and facts into a folder that is there."""
        tensors = {name: parameter.detach().cpu().clone() for name, parameter in self._parameters.items()}
        tensors |= optimizer_tensors(self.optimizer, self._parameters)
        save_file(tensors, folder / _WEIGHTS)
        facts = {"num_updates": self.num_updates, "value_range": self.value_range, "hidden_size": self.hidden_size}
        (folder / _FACTS).write_text(json.dumps(facts) + "\n")

    def load(self, folder: Path) -> None:
        """Go on where the critic of that folder stopped; refused when it is of another trunk or another range."""
        try:
            facts = json.loads((folder / _FACTS).read_text())
            tensors = load_file(folder / _WEIGHTS, device=str(self.device))
            num_updates = int(facts["num_updates"])
            kept = {name: tensors.pop(name) for name in self._parameters}
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise CheckpointError(
                f"{folder}: the critic cannot be read ({error}); expected {_WEIGHTS} and {_FACTS}; remove them to "
                "begin with a new critic, which has to warm up"
            ) from error
        self._require_same(folder, facts)
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(kept[name])
        try:
            restore_optimizer(self.optimizer, self._parameters, tensors)
        except KeyError as error:
            raise CheckpointError(
                f"{folder}: state of {error.args[0]!r}, which is no weight of a critic; expected {', '.join(kept)}; "
                "remove the folder to begin with a new critic"
            ) from error
        self.num_updates = num_updates

    @property
    def _parameters(self) -> dict[str, torch.nn.Parameter]:
        return {"weight": self.weight, "bias": self.bias}

    def _require_same(self, folder: Path, facts: Mapping[str, object]) -> None:
        stated = (facts.get("hidden_size"), facts.get("value_range"))
        own = (self.hidden_size, None if self.value_range is None else list(self.value_range))
        if stated != own:
            raise CheckpointError(
                f"{folder}: a critic of hidden size and value range {stated}; expected {own}; it was made for another "
                "model or another reward_range: remove the folder to begin with a new critic"
            )


def keep_critic(critic: Critic, folder: Path) -> None:
    """Write the critic as `folder`, whole or not at all, in place of what is there."""
    temporary = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(mode=0o700, parents=True)
    critic.save(temporary)
    commit(temporary, folder)
