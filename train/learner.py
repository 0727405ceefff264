"""One optimizer update on one global batch of traces, blind to the method that weighs them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import torch
from torch import Tensor

from schemas.errors import BatchError, TrainingError
from train import sharding
from train.batch import Batch
from train.critic import Critic, Lesson
from train.methods import values
from train.methods.catalog import Method, after
from train.methods.update import Update
from train.optimization import Optimization
from train.packing import Pack, Trace, build_packs
from train.policy import Policy, Scores
from train.ranks import ALONE, Ranks
from train.recorded import Question, Recorder, records_of
from train.speed import Shape, mfu, shape_of, update_flops
from train.trace_batch import Facts, batch_of, traces_of


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


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """A batch under the policy: with its logprobs and values, entropies [A], the loss, what this rank's critic read."""

    batch: Batch
    entropies: Tensor
    loss: float
    lessons: Sequence[tuple[int, Pack, Tensor]]
    """First action token, pack and states of each pack of this rank; empty without a critic."""


@dataclass(frozen=True, slots=True)
class _Split:
    """The packs of a batch, where their tokens lie on its axis, and whose they are."""

    packs: Sequence[Pack]
    owners: Sequence[int]
    lengths: Sequence[int]
    """Action tokens of each pack."""
    members: Sequence[range]
    """Traces of each pack."""


@dataclass(slots=True)
class Learner:
    """A policy with trainable weights, a method and an optimizer; one of several where there are ranks."""

    policy: Policy
    method: Method
    optimization: Optimization
    token_budget: int
    critic: Critic | None = None
    """For a method that needs values."""
    recorder: Recorder | None = None
    """For a method that needs the behavior policy's other tokens."""
    ranks: Ranks = ALONE
    """The processes that share the packs of a batch."""
    peak_flops: float | None = None
    """Peak of one device in FLOP/s; None where nobody knows it, and MFU is not told."""
    parameters: dict[str, torch.nn.Parameter] = field(init=False)
    """All that is trained, by name: LoRA weights, or every weight."""
    optimizer: torch.optim.AdamW = field(init=False)
    shape: Shape | None = field(init=False)
    """What the cost of a token depends on."""

    def __post_init__(self) -> None:
        """Open what is trained, spread it over the ranks, and put an optimizer on it."""
        opened = self.policy.trainable()
        self.shape = shape_of(self.policy.model)
        self.policy.shard(self.ranks)
        # Sharding puts another parameter in the place of each.
        self.parameters = self.policy.trainable() if self.ranks.size > 1 else opened
        self.optimizer = self.optimization.optimizer(self.parameters)

    def learn(self, number: int, traces: Sequence[Trace], facts: Mapping[str, Facts]) -> Learned:
        """Update number `number` of the run, from 0, on these traces.

        The statistics of the batch are fixed before it is split into packs, and the coefficients hold every
        normaliser, so the gradients of the packs are summed as they are: no split over packs or ranks changes the
        update. The critic learns from the batch after its values have been used; while it warms up the policy stays
        where it is.
        """
        begun = time.perf_counter()
        split, ordered, batch = self._split(number, traces, facts)
        waits = self.critic is not None and self.critic.is_warming_up
        self.optimizer.zero_grad(set_to_none=True)
        if self.critic is not None:
            self.critic.start_at(batch.statistics.mean_reward)
        seen = self._seen(batch, split) if waits else self._backward(batch, split)
        made = self.method.update(seen.batch)
        update = _held(made) if waits else made
        rate = self.optimization.rate(number)
        moved = update.moves
        grad_norm = self._step(rate, number) if moved else 0.0
        of_critic = self._teach(made, seen)
        self.method = after(self.method, made)
        figures = {
            "loss": seen.loss,
            "grad_norm": grad_norm,
            "learning_rate": rate,
            "mean_entropy": float(seen.entropies.mean()),
            "num_traces": len(ordered),
            "num_tokens": sum(pack.num_tokens for pack in split.packs),
            "num_slots": sum(pack.num_slots for pack in split.packs),
            **self._speed(split, time.perf_counter() - begun, waits=waits),
            **of_critic,
            **update.stats,
            "is_critic_warming_up": waits,
        }
        return Learned(update=update, traces=ordered, moved=moved, figures=figures)

    def _speed(self, split: _Split, seconds: float, *, waits: bool) -> dict[str, float]:
        """Tokens a second, shared beginnings counted in each sequence, and the share of the devices' peak."""
        num_tokens = sum(pack.num_tokens for pack in split.packs)
        num_flops = None
        if self.shape is not None:
            num_flops = update_flops(self.shape, split.packs, is_whole=self.policy.is_whole, with_backward=not waits)
        share = mfu(num_flops, seconds, self.peak_flops, num_devices=self.ranks.size)
        return {"tokens_per_second": num_tokens / seconds, "mfu": math.nan if share is None else share}

    def explained_variance(self, traces: Sequence[Trace], facts: Mapping[str, Facts]) -> float:
        """How much of the targets' variance on these traces the critic explains as it is; NaN where there is none."""
        split, _, batch = self._split(0, traces, facts)
        seen = self._seen(batch, split)
        return self._explained(self.method.update(seen.batch), seen)

    def remember(self, state: Mapping[str, float]) -> None:
        """Give a method with a memory back what it had carried on; the others have none."""
        if state:
            self.method = replace(self.method, state=MappingProxyType(dict(state)))  # type: ignore[type-var]  # a dataclass

    def _split(
        self, number: int, traces: Sequence[Trace], facts: Mapping[str, Facts]
    ) -> tuple[_Split, tuple[Trace, ...], Batch]:
        """The traces in packs, in the order of the packs, and as one batch."""
        for trace in traces:
            if not self.policy.knows(trace):
                raise BatchError(
                    f"trace {trace[0].trace_id}: a token id outside of the model's vocabulary of "
                    f"{self.policy.vocabulary_size}; expected traces of this model; rescore and validate again, which "
                    "leaves it out"
                )
        packs = build_packs(traces, token_budget=self.token_budget)
        ordered = tuple(traces_of(packs))
        if self.recorder is not None:
            self.recorder.begin(number, ordered)
        counts = [len(traces_of([pack])) for pack in packs]
        split = _Split(
            packs=packs,
            owners=self.ranks.shares([pack.num_slots for pack in packs]),
            lengths=[sum(sequence.num_action_tokens for sequence in pack.sequences) for pack in packs],
            members=[range(sum(counts[:at]), sum(counts[: at + 1])) for at in range(len(packs))],
        )
        return split, ordered, batch_of(ordered, facts)

    def _backward(self, batch: Batch, split: _Split) -> _Seen:
        """The batch as the policy and the critic see it, its loss, and the gradients summed over packs and ranks.

        A method that can be split takes its coefficients from the same forward pass; another one first sees the whole
        batch scored.
        """
        first_look = None if self.method.splits or len(split.packs) == 1 else self._seen(batch, split).batch
        whole = None if first_look is None else self.method.update(first_look)
        scored: dict[int, Scores] = {}
        loss = torch.zeros((), dtype=torch.float64)
        rounds = self._rounds(split)
        for number, index in enumerate(rounds):
            sharding.sums_gradients(self.policy.scorer, number == len(rounds) - 1)
            scores = self._score(split.packs[index])
            if index in scored or split.owners[index] != self.ranks.number:
                # Once more only so that every rank passes through the model as often as the others.
                (0.0 * scores.logprobs.sum()).backward()  # type: ignore[no-untyped-call]  # torch has no type for it
                scored.setdefault(index, scores.detached())
                continue
            members = split.members[index]
            update = (
                self.method.update(self._told(batch.select(members), scores))
                if whole is None
                else whole.select(members)
            )
            if update.moves or self.ranks.size > 1:
                pack_loss = update.loss(scores.logprobs, scores.recorded_logprobs)
                pack_loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
                loss += float(pack_loss.detach())
            scored[index] = scores.detached()
        self.ranks.sum_(loss)
        return self._joined(batch, split, scored, float(loss))

    def _seen(self, batch: Batch, split: _Split) -> _Seen:
        """The same without a gradient."""
        scored: dict[int, Scores] = {}
        with torch.no_grad():
            for index in self._rounds(split):
                scored[index] = self._score(split.packs[index])
        return self._joined(batch, split, scored, math.nan)

    def _rounds(self, split: _Split) -> list[int]:
        """The packs that this rank passes through the model: its own, and one again until all ranks had as many."""
        own = [index for index, owner in enumerate(split.owners) if owner == self.ranks.number]
        most = max(split.owners.count(rank) for rank in range(self.ranks.size))
        return own + [own[0] if own else 0] * (most - len(own))

    def _score(self, pack: Pack) -> Scores:
        """What the policy makes of a pack, with what its recorder asks about and its critic says."""
        question = Question() if self.recorder is None else self.recorder.ask(pack).to(self.policy.device)
        scores = self.policy.score(
            pack,
            with_entropies=True,
            with_hidden=self.critic is not None,
            behavior=question.behavior,
            recorded_ids=question.token_ids,
        )
        scores = replace(scores, asked_ids=question.token_ids, asked_logprobs=question.behavior_logprobs)
        if self.critic is None or scores.hidden is None:
            return scores
        with torch.no_grad():
            return replace(scores, values=self.critic.values(self.critic.states(pack, scores.hidden)))

    def _joined(self, batch: Batch, split: _Split, scored: Mapping[int, Scores], loss: float) -> _Seen:
        """What all ranks saw, as one batch on each of them; states that a critic learns from stay where they are."""
        own = {index: scores for index, scores in scored.items() if split.owners[index] == self.ranks.number}
        firsts = [sum(split.lengths[:at]) for at in range(len(split.lengths))]
        lessons = [
            (firsts[index], split.packs[index], scores.hidden)
            for index, scores in sorted(own.items())
            if scores.hidden is not None
        ]
        # A rank without a pack of its own still says what its tensors look like.
        parts = [scores for _, scores in sorted(own.items())] or [next(iter(scored.values())).emptied()]
        columns = {
            name: self.ranks.joined([part.columns()[name] for part in parts], split.owners, split.lengths)
            for name in parts[0].columns()
            if name != "hidden"
        }
        whole = Scores.of_columns(columns)
        if whole.entropies is None:
            raise AssertionError("entropies were asked for")
        return _Seen(self._told(batch, whole), whole.entropies, loss, lessons)

    def _told(self, batch: Batch, scores: Scores) -> Batch:
        """The batch, or a part of it, with what the policy, its behavior policies and the critic say of its tokens."""
        if self.recorder is not None:
            batch = replace(batch, records=records_of(self.recorder, scores))
        scored = batch.with_logprobs(scores.logprobs, scores.recorded_logprobs)
        return scored if scores.values is None else scored.with_values(scores.values)

    def _teach(self, update: Update, seen: _Seen) -> dict[str, float]:
        """Let the critic learn what the method says it should have known; its figures."""
        if self.critic is None:
            return {}
        explained = self._explained(update, seen)
        targets = update.value_targets
        if targets is None:
            raise AssertionError(f"{update.method} has a critic, and no targets for it")
        lessons = [
            Lesson(hidden, targets[first : first + len(hidden)], pack if self.critic.trunk is not None else None)
            for first, pack, hidden in seen.lessons
        ]
        loss = self.critic.learn(lessons, num_tokens=len(targets), ranks=self.ranks)
        return {
            "critic_loss": loss,
            "critic_explained_variance": explained,
            "critic_updates": self.critic.num_updates,
        }

    def _explained(self, update: Update, seen: _Seen) -> float:
        targets, before = update.value_targets, seen.batch.values
        if targets is None or before is None:
            raise AssertionError(f"{update.method} has a critic, and no values or no targets for it")
        return values.explained_variance(targets, before, seen.batch.action_mask)

    def _step(self, rate: float, number: int) -> float:
        """Clip and step, once the gradient is known to be finite on every rank; returns its norm before the clip."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        norm = sharding.clip_to_norm(self.parameters, self.optimization.max_grad_norm)
        if not bool(torch.isfinite(norm)):
            raise TrainingError(
                f"update {number}: gradient norm {float(norm)}; expected a finite number; the weights were not "
                "changed: look for a ratio or a log-probability out of range in this batch, or lower "
                "train.learning_rate"
            )
        self.optimizer.step()
        return float(norm)


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
