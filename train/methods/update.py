"""What a method made of a batch: the coefficient of each token, and an account of it in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from schemas.errors import TrainingError
from train.batch import Batch
from train.methods import requirements, terms

_BY_TOKEN = ("coefficients", "auxiliary_coefficients", "value_targets")
"""The fields of an update with an entry a token."""


class _Weighed(torch.autograd.Function):
    """The sum of coefficients times logprobs, and as its gradient the coefficients, with nothing made on the way."""

    @staticmethod
    def forward(ctx: Any, logprobs: Tensor, coefficients: Tensor, read: Tensor) -> Tensor:
        """Over the tokens that are `read`; the others may be anything."""
        ctx.save_for_backward(coefficients)
        widest = torch.promote_types(logprobs.dtype, coefficients.dtype)
        return torch.where(read, logprobs, 0.0).to(widest).mul_(coefficients).sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Coefficients are 0 where nothing is read."""
        (coefficients,) = ctx.saved_tensors
        return gradient * coefficients, None, None


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceUpdate:
    """What an update did to one trace, as plain numbers; tokens of its sequences one after the other."""

    trace_id: str
    coefficients: list[float]
    advantages: list[float]
    in_trust: bool
    value_targets: list[float] | None
    auxiliary_coefficients: list[list[float]] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceUpdate:
    """What an update did to one sequence: a row of the `replays` table, in the words of that table."""

    trace_id: str
    sequence_index: int
    reward: float
    advantage: float
    drift: float
    in_trust: bool
    mean_ratio: float
    max_ratio: float
    masked_share: float
    positive_mass: float
    negative_mass: float


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Actions:
    """What the coefficients of an update were made of, at its A action tokens; an `Update` has it at all N."""

    advantages: Tensor
    """[A] advantage of each, before any ratio or mask."""
    log_ratios: Tensor | None = None
    """[A] log importance ratios; None without behavior_logprobs."""
    weights: Tensor | None = None
    """[A] what the method made of each importance ratio; None for a method that weighs no token."""

    def at(self, actions: Tensor) -> Actions:
        """The same of some of them, by index."""
        log_ratios, weights = (
            None if own is None else own.index_select(0, actions) for own in (self.log_ratios, self.weights)
        )
        return Actions(advantages=self.advantages.index_select(0, actions), log_ratios=log_ratios, weights=weights)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Update:
    """The update of one batch by one method.

    `coefficients` [N] are what multiplies the gradient of each token's logprob, in the ascent direction and with every
    normaliser inside: `loss` is all that a trainer needs. They are 0 off the action mask and on masked tokens.
    `auxiliary_coefficients` [N, K] are the same for the logprobs of the batch's recorded tokens.
    """

    method: str
    """Name of the method."""
    batch: Batch
    """What was updated on."""
    coefficients: Tensor
    """[N] ascent coefficients, constants."""
    in_trust: Tensor
    """[B] traces that the method lets move the policy."""
    of_actions: Actions
    """What the coefficients were made of, at the action tokens alone."""
    auxiliary_coefficients: Tensor | None = None
    """[N, K] ascent coefficients of the recorded tokens, constants; None for a method that reads none."""
    value_targets: Tensor | None = None
    """[N] what the critic should have predicted at each token; None for a method without a critic."""
    state: Mapping[str, float] = field(default_factory=dict)
    """What a method with a memory carries on to its next batch; empty for the others."""
    stats: Mapping[str, float] = field(default_factory=dict)
    """Figures of the batch at hand, in the order in which they are printed."""
    notes: Sequence[str] = ()
    """What a reader should know: which traces were masked and why, and which knob moves the line."""

    @property
    def advantages(self) -> Tensor:
        """[N] advantage of each action token before any ratio or mask; 0 elsewhere."""
        return self.batch.actions.spread(self.of_actions.advantages)

    @property
    def log_ratios(self) -> Tensor | None:
        """[N] log importance ratios on action tokens, 0 elsewhere; None without behavior_logprobs."""
        found = self.of_actions.log_ratios
        return None if found is None else self.batch.actions.spread(found)

    @property
    def weights(self) -> Tensor | None:
        """[N] what the method made of each token's importance ratio; None for one that weighs no token, such as KLPO.

        1 is plain policy gradient, 0 a masked token; 0 off the action mask.
        """
        found = self.of_actions.weights
        return None if found is None else self.batch.actions.spread(found)

    def loss(self, logprobs: Tensor, auxiliary_logprobs: Tensor | None = None) -> Tensor:
        """The scalar whose gradient is the update: -(coefficients * logprobs).sum() over action tokens.

        `logprobs` [N] carries the graph. What it holds off the action mask is not read, forward or backward. So does
        `auxiliary_logprobs` [N, K], of the recorded tokens, for a method that reads them; a token that its record gives
        no weight is not read either. Refused when it is missing: without it the scores would not be centred.
        """
        loss = -_weighed(logprobs, self.coefficients, self.batch.action_mask)
        if self.auxiliary_coefficients is None:
            return loss
        if auxiliary_logprobs is None or auxiliary_logprobs.shape != self.auxiliary_coefficients.shape:
            said = "none" if auxiliary_logprobs is None else f"shape {tuple(auxiliary_logprobs.shape)}"
            raise TrainingError(
                f"{self.method}: auxiliary_logprobs: {said}; expected {tuple(self.auxiliary_coefficients.shape)}, "
                f"those of the recorded tokens with their graph; without them the scores are not centred"
            )
        return loss - _weighed(auxiliary_logprobs, self.auxiliary_coefficients, self.auxiliary_coefficients != 0)

    def select(self, traces: Sequence[int]) -> Update:
        """The part of the update that moves `traces`, in that order; stats and notes stay those of the whole."""
        tokens, batch = self.batch.token_index(traces), self.batch.select(traces)
        stated = {name: getattr(self, name) for name in _BY_TOKEN}
        places = self.batch.actions.spread(torch.arange(len(self.batch.actions), device=tokens.device))
        return replace(
            self,
            batch=batch,
            of_actions=self.of_actions.at(batch.actions.pack(places[tokens])),
            in_trust=self.in_trust[list(traces)],
            **{name: tensor[tokens] for name, tensor in stated.items() if tensor is not None},
        )

    @property
    def drift(self) -> Tensor | None:
        """[B] mean Bernoulli KL of each trace, in nats a token, found when asked for; None without log-ratios."""
        return None if self.of_actions.log_ratios is None else requirements.drift(self.batch, self.method)

    @property
    def moves(self) -> bool:
        """Whether any coefficient differs from 0; when none does, skip the optimizer step, whose momentum would act."""
        auxiliary = self.auxiliary_coefficients
        return bool((self.coefficients != 0).any()) or (auxiliary is not None and bool((auxiliary != 0).any()))

    def per_trace(self) -> list[TraceUpdate]:
        """The update as lists, one entry a trace, in the order of the batch."""
        order = torch.argsort(self.batch.trace_index, stable=True)
        sizes = torch.bincount(self.batch.trace_index, minlength=len(self.batch.trace_ids)).tolist()

        def lists(values: Tensor) -> list[list[float]]:
            return [part.tolist() for part in torch.split(values[order], sizes)]

        coefficients, advantages, in_trust = lists(self.coefficients), lists(self.advantages), self.in_trust.tolist()
        targets = None if self.value_targets is None else lists(self.value_targets)
        auxiliary: Any = None if self.auxiliary_coefficients is None else lists(self.auxiliary_coefficients)
        return [
            TraceUpdate(
                trace_id=trace_id,
                coefficients=coefficients[trace],
                advantages=advantages[trace],
                in_trust=in_trust[trace],
                value_targets=None if targets is None else targets[trace],
                auxiliary_coefficients=None if auxiliary is None else auxiliary[trace],
            )
            for trace, trace_id in enumerate(self.batch.trace_ids)
        ]

    def per_sequence(self) -> list[SequenceUpdate]:
        """One entry a sequence, in packing order; figures are over its action tokens, NaN where it has none."""
        batch = self.batch
        num = len(batch.sequence_lengths)
        sequence = torch.repeat_interleave(torch.arange(num, device=batch.rewards.device), batch.sequence_lengths)
        mask, counts = batch.action_mask, torch.bincount(sequence[batch.action_mask], minlength=num)
        ratios, drift = self._diagnostic_ratios(), self.drift
        traces = batch.sequence_traces
        nan = torch.full((num,), torch.nan, dtype=torch.float64, device=batch.rewards.device)
        columns = {
            "sequence_index": batch.sequence_index,
            "reward": batch.rewards[traces],
            "advantage": terms.trace_means(self.advantages, mask, sequence, counts),
            "drift": nan if drift is None else drift[traces],
            "in_trust": self.in_trust[traces],
            "mean_ratio": nan if ratios is None else terms.trace_means(ratios, mask, sequence, counts),
            "max_ratio": nan if ratios is None else terms.trace_maxima(ratios, mask, sequence, num),
            "masked_share": terms.trace_means((self.coefficients == 0).to(torch.float64), mask, sequence, counts),
            "positive_mass": terms.trace_sums(self.coefficients.clamp(min=0), sequence, num),
            "negative_mass": terms.trace_sums(self.coefficients.clamp(max=0), sequence, num),
        }
        names = [batch.trace_ids[trace] for trace in traces.tolist()]
        lists = {name: column.tolist() for name, column in columns.items()}
        return [
            SequenceUpdate(trace_id=names[row], **{name: values[row] for name, values in lists.items()})
            for row in range(num)
        ]

    def _diagnostic_ratios(self) -> Tensor | None:
        """Importance ratios in float64 of all action tokens, masked ones too, cut where exp would overflow."""
        log_ratios = self.log_ratios
        if log_ratios is None:
            return None
        cut = log_ratios.to(torch.float64).clamp(max=terms.LARGEST_EXPONENT)
        return terms.importance_ratios(cut, self.batch.action_mask)

    def __str__(self) -> str:
        """What was kept, what was masked and why, and which knob moves the line."""
        head = f"{self.method} update: {int(self.in_trust.sum())} of {len(self.in_trust)} traces in trust"
        figures = [
            f"  {name.replace('_', ' ')}: {value:.4g}"
            for name, value in self.stats.items()
            if not name.startswith("num_")
        ]
        return "\n".join([head, *figures, *(f"  {note}" for note in self.notes)])

    __repr__ = __str__


def _weighed(logprobs: Tensor, coefficients: Tensor, read: Tensor) -> Tensor:
    """The sum of coefficients times the logprobs that are read."""
    made: Tensor = _Weighed.apply(logprobs, coefficients, read)  # type: ignore[no-untyped-call]  # torch has no type for it
    return made
