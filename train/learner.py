"""One optimizer update on one global batch of traces, blind to the method that weighs them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from schemas.errors import BatchError, SettingsError, TrainingError
from train import adapters
from train.batch import Batch
from train.methods.catalog import Method, after
from train.methods.update import Update
from train.packing import Pack, Trace, build_packs
from train.policy import Policy
from train.sequences import LoggedSequence


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimization:
    """How coefficients become weights: AdamW on the adapter, its rate by the number of the update."""

    learning_rate: float
    schedule: Literal["constant", "cosine"]
    warmup_updates: int
    num_updates: int
    betas: tuple[float, float]
    weight_decay: float
    max_grad_norm: float

    def rate(self, update: int) -> float:
        """Learning rate of the update of that number, from 0: a linear warm-up, then constant or down to a tenth."""
        if update < self.warmup_updates:
            return self.learning_rate * (update + 1) / (self.warmup_updates + 1)
        if self.schedule == "constant":
            return self.learning_rate
        done = (update - self.warmup_updates) / max(1, self.num_updates - self.warmup_updates)
        return self.learning_rate * (LOWEST_RATE + (1 - LOWEST_RATE) * (1 + math.cos(math.pi * done)) / 2)


LOWEST_RATE = 0.1
"""Share of the learning rate at which a cosine ends. FlashREINFORCE reference repository, its docs/training.md."""


TRIED_LOGPROB = -1.0
"""Log-probability of the tokens that a method is tried on. Any will do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """What one global batch came to."""

    update: Update
    """The update of the whole batch, whatever packs it was computed in."""
    traces: tuple[Trace, ...]
    """The traces in the order of the batch."""
    moved: bool
    """Whether the weights were changed: not when every coefficient is 0."""
    figures: Mapping[str, float]
    """Loss, gradient norm, rate, speed and the method's own figures, for the metrics file."""


@dataclass(slots=True)
class Learner:
    """A policy with a trainable adapter, a method and an optimizer."""

    policy: Policy
    method: Method
    optimization: Optimization
    token_budget: int
    parameters: dict[str, torch.nn.Parameter] = field(init=False)
    """LoRA weights by name: all that is trained."""
    optimizer: torch.optim.AdamW = field(init=False)

    def __post_init__(self) -> None:
        """Put an optimizer on the adapter that the policy has in use."""
        self.parameters = dict(adapters.trainable(self.policy.wrapped))
        self.optimizer = torch.optim.AdamW(
            list(self.parameters.values()),
            lr=self.optimization.learning_rate,
            betas=self.optimization.betas,
            weight_decay=self.optimization.weight_decay,
        )

    def learn(self, number: int, traces: Sequence[Trace], rewards: Mapping[str, float]) -> Learned:
        """Update number `number` of the run, from 0, on these traces.

        The statistics of the batch are fixed before it is split into packs, and the coefficients hold every
        normaliser, so the gradients of the packs are summed as they are: no split changes the update.
        """
        begun = time.perf_counter()
        packs = build_packs(traces, token_budget=self.token_budget)
        ordered = tuple(_traces_of(packs))
        batch = _batch(ordered, rewards)
        self.optimizer.zero_grad(set_to_none=True)
        logprobs, entropies, loss = self._backward(batch, packs)
        update = self.method.update(batch.with_logprobs(logprobs))
        rate = self.optimization.rate(number)
        grad_norm = self._step(rate, number) if update.moves else 0.0
        self.method = after(self.method, update)
        num_tokens = sum(pack.num_tokens for pack in packs)
        figures = {
            "loss": loss,
            "grad_norm": grad_norm,
            "learning_rate": rate,
            "mean_entropy": float(entropies.mean()),
            "num_traces": len(ordered),
            "num_tokens": num_tokens,
            "num_slots": sum(pack.num_slots for pack in packs),
            "tokens_per_second": num_tokens / (time.perf_counter() - begun),
            **update.stats,
        }
        return Learned(update=update, traces=ordered, moved=update.moves, figures=figures)

    def remember(self, state: Mapping[str, float]) -> None:
        """Give a method with a memory back what it had carried on; the others have none."""
        if state:
            self.method = replace(self.method, state=MappingProxyType(dict(state)))  # type: ignore[type-var]  # a dataclass

    def _backward(self, batch: Batch, packs: Sequence[Pack]) -> tuple[Tensor, Tensor, float]:
        """Log-probabilities and entropies [N] of the batch, its loss, and the gradients summed over the packs.

        A method that can be split takes its coefficients from the same forward pass; another one first sees the whole
        batch scored.
        """
        whole = None if self.method.splits or len(packs) == 1 else self.method.update(self._scored(batch, packs))
        logprobs, entropies, loss = [], [], 0.0
        first = 0
        for pack in packs:
            members = range(first, first + len(_traces_of([pack])))
            scores = self.policy.score(pack, with_entropies=True)
            part = batch.select(members).with_logprobs(scores.logprobs)
            coefficients = (
                self.method.update(part).coefficients
                if whole is None
                else whole.coefficients[batch.token_index(members)]
            )
            pack_loss = -(coefficients * scores.logprobs).sum()
            if bool((coefficients != 0).any()):
                pack_loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            logprobs.append(scores.logprobs.detach())
            entropies.append(scores.entropies)
            loss += float(pack_loss.detach())
            first = members.stop
        return torch.cat(logprobs), torch.cat([values for values in entropies if values is not None]), loss

    def _scored(self, batch: Batch, packs: Sequence[Pack]) -> Batch:
        with torch.no_grad():
            return batch.with_logprobs(torch.cat([self.policy.score(pack).logprobs for pack in packs]))

    def _step(self, rate: float, number: int) -> float:
        """Clip and step, once the gradient is known to be finite; returns its norm before the clip."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        norm = torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), self.optimization.max_grad_norm)
        if not bool(torch.isfinite(norm)):
            raise TrainingError(
                f"update {number}: gradient norm {float(norm)}; expected a finite number; the weights were not "
                "changed: look for a ratio or a log-probability out of range in this batch, or lower "
                "train.learning_rate"
            )
        self.optimizer.step()
        return float(norm)


def _traces_of(packs: Sequence[Pack]) -> list[Trace]:
    """The traces of the packs in packing order; the sequences of one trace are neighbours in a pack."""
    from train.sequences import by_trace

    return [trace for pack in packs for trace in by_trace(pack.sequences)]


def _batch(traces: Sequence[Trace], rewards: Mapping[str, float]) -> Batch:
    """The batch of the action tokens of these traces, in their order."""
    return Batch.from_rows(
        [
            {
                "trace_id": sequence.trace_id,
                "sequence_index": sequence.sequence_index,
                "reward": rewards[sequence.trace_id],
                "behavior_logprobs": sequence.action_logprobs,
            }
            for trace in traces
            for sequence in trace
        ]
    )


def _trace_of_one_token(name: str) -> Trace:
    sequence = LoggedSequence(
        trace_id=name,
        trace_revision=0,
        sequence_index=0,
        behavior_version=None,
        token_ids=np.zeros(2, dtype=np.int32),
        action_mask=np.array([False, True]),
        behavior_logprobs=np.full(2, TRIED_LOGPROB, dtype=np.float32),
        temperature=1.0,
    )
    return (sequence,)


def try_method(method: Method) -> None:
    """Refuse a method whose options ask for what no batch of the trainer has: it is given a batch of two tokens."""
    traces = [_trace_of_one_token(name) for name in ("first", "second")]
    batch = _batch(traces, {"first": 0.0, "second": 1.0})
    try:
        method.update(batch.with_logprobs(torch.full((len(traces),), TRIED_LOGPROB)))
    except BatchError as error:
        raise SettingsError(f"train.options: the trainer cannot run {method.name} with them: {error}") from error
