"""A value head: what the reward is likely to be, from the tokens so far.

It reads the states of the policy's trunk, which are constants to it, or those of a trunk of its own, which learns with
it; either way the critic never moves the policy. The value of a token is read off the state that predicts that token,
which has not seen it: a value that knew its token would bias the gradient.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from schemas.errors import CheckpointError, TrainingError
from train.commit import commit
from train.logprobs import action_tokens
from train.methods import values
from train.optimizer_state import optimizer_tensors, restore_optimizer
from train.packing import Pack
from train.policy import Policy
from train.ranks import ALONE, Ranks
from train.replay import CriticSettings

_WEIGHTS = "critic.safetensors"
_FACTS = "critic.json"

EDGE = 0.02
"""A bounded critic starts no nearer to an end of its range than this share of it: its slope falls with the square of
the distance, so that it would hardly learn from there. Convention, untested."""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What the critic should have said of a pack's A action tokens."""

    hidden: Tensor
    """[A, H] the policy's states before them, constants."""
    targets: Tensor
    """[A] what the method says that their values should have been."""
    pack: Pack | None = None
    """The pack itself, which a critic with a trunk of its own reads again."""


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
    trunk: Policy | None = None
    """A policy of its own, over the same base, whose adapter learns with the head; None reads the policy's states."""
    num_updates: int = 0
    """Batches that it has learned from, in this run and before it."""
    weight: torch.nn.Parameter = field(init=False)
    bias: torch.nn.Parameter = field(init=False)
    parameters: dict[str, torch.nn.Parameter] = field(init=False)
    """All that learns, by name: the head, and the adapter of its own trunk."""
    optimizer: torch.optim.AdamW = field(init=False)

    def __post_init__(self) -> None:
        """Zero weights and an optimizer on them."""
        self.weight = torch.nn.Parameter(torch.zeros(self.hidden_size, device=self.device))
        self.bias = torch.nn.Parameter(torch.zeros((), device=self.device))
        self.parameters = {"weight": self.weight, "bias": self.bias}
        if self.trunk is not None:
            self.parameters |= self.trunk.trainable()
        self.optimizer = torch.optim.AdamW(
            list(self.parameters.values()), lr=self.settings.learning_rate, weight_decay=0.0
        )

    @property
    def is_warming_up(self) -> bool:
        """Whether the policy waits for it."""
        return self.num_updates < self.settings.warmup_updates

    def states(self, pack: Pack, hidden: Tensor) -> Tensor:
        """[A, H] what the head reads of a pack, whose states under the policy are `hidden`."""
        if self.trunk is None:
            return hidden.detach()
        return self.trunk.hidden_states(pack)[action_tokens(pack).to(self.device).slots]

    def values(self, states: Tensor) -> Tensor:
        """[A] values from the [A, H] states before each token; carries a graph to all that learns."""
        raw = states.float() @ self.weight + self.bias
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

    def learn(self, lessons: Sequence[Lesson], *, num_tokens: int | None = None, ranks: Ranks = ALONE) -> float:
        """The steps of one batch towards its targets; returns the squared error before them, halved.

        `lessons` are those of this rank's packs, `num_tokens` the action tokens of the packs of all ranks.
        """
        total = sum(len(lesson.targets) for lesson in lessons) if num_tokens is None else num_tokens
        losses = [self._step(lessons, total, ranks) for _ in range(self.settings.steps)]
        self.num_updates += 1
        return losses[0]

    def _step(self, lessons: Sequence[Lesson], num_tokens: int, ranks: Ranks) -> float:
        """One step on the mean over all tokens, once loss and gradient are known to be finite."""
        self.optimizer.zero_grad(set_to_none=True)
        sum_of_losses = torch.zeros((), dtype=torch.float64, device=self.device)
        for lesson in lessons:
            every = torch.ones_like(lesson.targets, dtype=torch.bool)
            states = lesson.hidden.detach() if lesson.pack is None else self.states(lesson.pack, lesson.hidden)
            loss = values.value_loss(self.values(states), lesson.targets.float(), every)
            shared = loss * (len(lesson.targets) / num_tokens)
            shared.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            sum_of_losses += shared.detach()
        for parameter in self.parameters.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        ranks.sum_(
            sum_of_losses, *(parameter.grad for parameter in self.parameters.values() if parameter.grad is not None)
        )
        if not bool(torch.isfinite(sum_of_losses)):
            raise TrainingError(
                f"critic: loss {float(sum_of_losses)}; expected a finite number; it was not changed: lower "
                "train.critic.learning_rate, or look for rewards that are far out of range"
            )
        self.optimizer.step()
        return float(sum_of_losses)

    def save(self, folder: Path) -> None:
        """Write head, optimizer and facts into a folder that is there."""
        tensors = {name: parameter.detach().cpu().clone() for name, parameter in self.parameters.items()}
        tensors |= optimizer_tensors(self.optimizer, self.parameters)
        save_file(tensors, folder / _WEIGHTS)
        facts = {
            "num_updates": self.num_updates,
            "value_range": self.value_range,
            "hidden_size": self.hidden_size,
            "trunk": self.settings.trunk,
        }
        (folder / _FACTS).write_text(json.dumps(facts) + "\n")

    def load(self, folder: Path) -> None:
        """Go on where the critic of that folder stopped; refused when it is of another trunk or another range."""
        try:
            facts = json.loads((folder / _FACTS).read_text())
            tensors = load_file(folder / _WEIGHTS, device=str(self.device))
            num_updates = int(facts["num_updates"])
            self._require_same(folder, facts)
            kept = {name: tensors.pop(name) for name in self.parameters}
            self._require_shapes(folder, kept)
        except CheckpointError:
            raise
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise CheckpointError(
                f"{folder}: the critic cannot be read ({error}); expected {_WEIGHTS} and {_FACTS}; remove them to "
                "begin with a new critic, which has to warm up"
            ) from error
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(kept[name])
        try:
            restore_optimizer(self.optimizer, self.parameters, tensors)
        except KeyError as error:
            raise CheckpointError(
                f"{folder}: state of {error.args[0]!r}, which is no weight of a critic; expected {', '.join(kept)}; "
                "remove the folder to begin with a new critic"
            ) from error
        self.num_updates = num_updates

    def _require_shapes(self, folder: Path, kept: Mapping[str, Tensor]) -> None:
        for name, parameter in self.parameters.items():
            if kept[name].shape != parameter.shape:
                raise CheckpointError(
                    f"{folder}: {name} of shape {tuple(kept[name].shape)}; expected {tuple(parameter.shape)}; it was "
                    "made with another train.lora: put that back, or remove the folder to begin with a new critic"
                )

    def _require_same(self, folder: Path, facts: Mapping[str, object]) -> None:
        stated = (facts.get("hidden_size"), facts.get("value_range"), facts.get("trunk", "shared"))
        own = (self.hidden_size, None if self.value_range is None else list(self.value_range), self.settings.trunk)
        if stated != own:
            raise CheckpointError(
                f"{folder}: a critic of hidden size, value range and trunk {stated}; expected {own}; it was made for "
                "another model, another reward_range or another critic.trunk: remove the folder to begin with a new "
                "critic"
            )


def keep_critic(critic: Critic, folder: Path) -> None:
    """Write the critic as `folder`, whole or not at all, in place of what is there."""
    temporary = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(mode=0o700, parents=True)
    critic.save(temporary)
    commit(temporary, folder)
