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
from train.behavior import BehaviorPolicies
from train.critic import Critic
from train.methods import values
from train.methods.catalog import Method, after
from train.methods.update import Update
from train.packing import Pack, Trace, build_packs
from train.policy import Policy, Scores, joined
from train.records import Records
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


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a trace beside its tokens."""

    reward: float
    ask_id: str | None = None


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
    critic: Critic | None = None
    """For a method that needs values."""
    behavior: BehaviorPolicies | None = None
    """For a method that needs expectations under the policies that wrote the traces."""
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

    def learn(self, number: int, traces: Sequence[Trace], facts: Mapping[str, Facts]) -> Learned:
        """Update number `number` of the run, from 0, on these traces.

        The statistics of the batch are fixed before it is split into packs, and the coefficients hold every
        normaliser, so the gradients of the packs are summed as they are: no split changes the update. The critic
        learns from the batch after its values have been used; while it warms up the policy stays where it is.
        """
        begun = time.perf_counter()
        packs = build_packs(traces, token_budget=self.token_budget)
        ordered = tuple(_traces_of(packs))
        batch = _batch(ordered, facts)
        waits = self.critic is not None and self.critic.is_warming_up
        self.optimizer.zero_grad(set_to_none=True)
        if self.critic is not None:
            self.critic.start_at(batch.statistics.mean_reward)
        seen = self._seen(batch, packs) if waits else self._backward(batch, packs)
        made = self.method.update(seen.batch)
        update = _held(made) if waits else made
        rate = self.optimization.rate(number)
        moved = update.moves
        grad_norm = self._step(rate, number) if moved else 0.0
        of_critic = self._teach(made, seen)
        self.method = after(self.method, made)
        num_tokens = sum(pack.num_tokens for pack in packs)
        figures = {
            "loss": seen.loss,
            "grad_norm": grad_norm,
            "learning_rate": rate,
            "mean_entropy": float(seen.entropies.mean()),
            "num_traces": len(ordered),
            "num_tokens": num_tokens,
            "num_slots": sum(pack.num_slots for pack in packs),
            "tokens_per_second": num_tokens / (time.perf_counter() - begun),
            **of_critic,
            **update.stats,
            "is_critic_warming_up": waits,
        }
        return Learned(update=update, traces=ordered, moved=moved, figures=figures)

    def remember(self, state: Mapping[str, float]) -> None:
        """Give a method with a memory back what it had carried on; the others have none."""
        if state:
            self.method = replace(self.method, state=MappingProxyType(dict(state)))  # type: ignore[type-var]  # a dataclass

    def _backward(self, batch: Batch, packs: Sequence[Pack]) -> _Seen:
        """The batch as the policy and the critic see it, its loss, and the gradients summed over the packs.

        A method that can be split takes its coefficients from the same forward pass; another one first sees the whole
        batch scored.
        """
        first_look = None if self.method.splits or len(packs) == 1 else self._seen(batch, packs).batch
        whole = None if first_look is None else self.method.update(first_look)
        scored, loss = [], 0.0
        first = 0
        for pack in packs:
            members = range(first, first + len(_traces_of([pack])))
            scores = self._score(pack)
            update = (
                self.method.update(self._told(batch.select(members), scores))
                if whole is None
                else whole.select(members)
            )
            if update.moves:
                pack_loss = update.loss(scores.logprobs, scores.recorded_logprobs)
                pack_loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
                loss += float(pack_loss.detach())
            scored.append(scores.detached())
            first = members.stop
        return self._joined(batch, scored, loss)

    def _seen(self, batch: Batch, packs: Sequence[Pack]) -> _Seen:
        """The same without a gradient."""
        with torch.no_grad():
            return self._joined(batch, [self._score(pack) for pack in packs], math.nan)

    def _score(self, pack: Pack) -> Scores:
        """What the policy makes of a pack, with expectations under whoever wrote it where the method reads them."""
        asked = None if self.behavior is None else self.behavior.hidden_states(pack)
        keeps = self.critic is not None
        return self.policy.score(pack, with_entropies=True, with_hidden=keeps, behavior_hidden=asked)

    def _joined(self, batch: Batch, scored: Sequence[Scores], loss: float) -> _Seen:
        whole = joined(scored)
        if whole.entropies is None:
            raise AssertionError("entropies were asked for")
        return _Seen(self._told(batch, whole), whole.entropies, whole.hidden, loss)

    def _told(self, batch: Batch, scores: Scores) -> Batch:
        """The batch, or a part of it, with what the policy, its behavior policies and the critic say of its tokens."""
        own = scores.tokens.expected_behavior_logprobs
        if own is not None:
            batch = replace(batch, records=Records(kind="expected", behavior_logprobs=own[:, None]))
        scored = batch.with_logprobs(scores.logprobs, scores.recorded_logprobs)
        if self.critic is None or scores.hidden is None:
            return scored
        with torch.no_grad():
            return scored.with_values(self.critic.values(scores.hidden))

    def _teach(self, update: Update, seen: _Seen) -> dict[str, float]:
        """Let the critic learn what the method says it should have known; its figures."""
        if self.critic is None or seen.hidden is None:
            return {}
        targets, before = update.value_targets, seen.batch.values
        if targets is None or before is None:
            raise AssertionError(f"{update.method} has a critic, and no values or no targets for it")
        explained = values.explained_variance(targets, before, seen.batch.action_mask)
        loss = self.critic.learn(seen.hidden, targets)
        return {
            "critic_loss": loss,
            "critic_explained_variance": explained,
            "critic_updates": self.critic.num_updates,
        }

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


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """A batch under the policy: with its logprobs and values, entropies [A], the loss, a critic's states [A, H]."""

    batch: Batch
    entropies: Tensor
    hidden: Tensor | None
    loss: float


def _held(update: Update) -> Update:
    """The account of an update that was not made, because the critic is not warm yet."""
    return replace(
        update,
        coefficients=torch.zeros_like(update.coefficients),
        auxiliary_coefficients=None,
        in_trust=torch.zeros_like(update.in_trust),
        stats={**update.stats, "in_trust_share": 0.0},
        notes=[*update.notes, "the critic warms up on this batch: the policy was not moved"],
    )


def _traces_of(packs: Sequence[Pack]) -> list[Trace]:
    """The traces of the packs in packing order; the sequences of one trace are neighbours in a pack."""
    from train.sequences import by_trace

    return [trace for pack in packs for trace in by_trace(pack.sequences)]


def _batch(traces: Sequence[Trace], facts: Mapping[str, Facts]) -> Batch:
    """The batch of the action tokens of these traces, in their order; groups are asks, if every trace has one."""
    asks = all(facts[trace[0].trace_id].ask_id is not None for trace in traces)
    return Batch.from_rows(
        [
            {
                "trace_id": sequence.trace_id,
                "sequence_index": sequence.sequence_index,
                "reward": facts[sequence.trace_id].reward,
                "behavior_logprobs": sequence.action_logprobs,
            }
            | ({"group": facts[sequence.trace_id].ask_id} if asks else {})
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
    low, high = method.value_range or (0.0, 1.0)
    batch = _batch(traces, {"first": Facts(low, "ask"), "second": Facts(high, "ask")})
    ones = torch.full((len(traces),), TRIED_LOGPROB)
    scored = batch.with_logprobs(ones)
    if method.needs_behavior_policy:
        entropy = torch.full((len(traces), 1), TRIED_LOGPROB)
        records = Records(kind="expected", behavior_logprobs=entropy)
        scored = replace(batch, records=records).with_logprobs(ones, entropy)
    if method.needs_critic:
        scored = scored.with_values(torch.full_like(ones, batch.statistics.mean_reward))
    try:
        method.update(scored)
    except BatchError as error:
        raise SettingsError(f"train.options: the trainer cannot run {method.name} with them: {error}") from error
