"""Logged traces packed on one token axis: what an update method reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from schemas.errors import BatchError, TrainingError
from schemas.numbers import SENTINEL
from train.action_axis import ActionAxis, first_true
from train.batch_statistics import BatchStatistics, GroupStatistics
from train.records import Records

SNAP = 1e-6
"""A log-probability in (0, SNAP] is float32 rounding and is read as 0. Convention, untested."""

_Made = TypeVar("_Made")

_TOKEN_NUMBERS = ("behavior_logprobs", "logprobs", "prox_logprobs", "values", "entropies")
"""The fields of a batch with one number a token."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """B traces in S sequences, packed on one axis of N tokens without padding.

    The axis holds the sequences one after the other, either with all their tokens or with their action tokens only:
    every number comes out the same. What lies off the action mask is never read and may be anything.

    A trace with several sequences is still one trace: one reward, one length T over all its action tokens, one gate
    decision. Its sequences come in time order and need not be neighbours.

    Numbers are kept in float32, or all in float64 if one of them is; half precision is promoted. They are held as
    constants: nothing back-propagates through a batch.

    Refused: no trace, no action token, lengths that differ, a reward that is not finite, an action token whose
    log-probability is missing, not finite, positive or a placeholder.
    """

    trace_ids: tuple[str, ...]
    """[B] names of the traces, for messages and reports."""
    rewards: Tensor
    """[B] one score a trace, kept in float64."""
    sequence_lengths: Tensor
    """[S] tokens of each sequence, in packing order; they add up to N."""
    sequence_traces: Tensor
    """[S] index of the trace that each sequence belongs to."""
    sequence_index: Tensor
    """[S] position of each sequence among those of its trace, rising within a trace."""
    action_mask: Tensor
    """[N] True on tokens that the behavior policy sampled."""
    behavior_logprobs: Tensor | None = None
    """[N] natural-log probabilities as the serving stack returned them."""
    logprobs: Tensor | None = None
    """[N] the same under the current policy."""
    values: Tensor | None = None
    """[N] the critic's prediction of the reward from the tokens before each token; read by methods with a critic."""
    entropies: Tensor | None = None
    """[N] entropy of the current policy at each token, in nats; read by entropy filters alone."""
    failures: Tensor | None = None
    """[B] traces that failed, as somebody said it, not as a low reward; read by entropy filters alone."""
    prox_logprobs: Tensor | None = None
    """[N] natural-log probabilities under the weights that training began from; read by decoupled PPO alone."""
    policy_lags: Tensor | None = None
    """[N] updates between the policy that wrote each token and the one being trained; read by A-3PO alone."""
    groups: Tensor | None = None
    """[B] a number for each trace, the same for traces of one ask; read by methods that compare such traces."""
    keys: tuple[str, ...] | None = None
    """[B] whose running baseline each trace has, such as an agent or an environment; read by RAE alone."""
    records: Records | None = None
    """[N, K] tokens that the behavior policy recorded beside each token; read by KLPO and score centering alone."""
    group_statistics: GroupStatistics | None = None
    """Of the groups in the whole batch; found from the rewards when it is the whole."""
    whole: BatchStatistics | None = None
    """Statistics of the batch that this one is a part of; None when it is the whole."""
    num_snapped_logged: int = 0
    """Logged log-probabilities in (0, SNAP] that were read as 0, counted as they come in."""
    num_snapped_scored: int = 0
    """The same of the current policy's, in its last scores."""

    trace_index: Tensor = field(init=False)
    """[N] index of the trace that each token belongs to."""
    num_action_tokens: Tensor = field(init=False)
    """[B] action tokens of each trace, over all its sequences: the T of the equations."""
    actions: ActionAxis = field(init=False)
    """The A action tokens alone, on whose axis updates are computed."""
    _own: BatchStatistics = field(init=False)
    _packed: dict[str, Tensor] = field(init=False)
    _made: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Check the shapes, then the numbers, and derive what every method needs."""
        self._set("_made", {})
        self._set("_packed", {})
        self._check_traces()
        self._check_layout()
        self._unify_numbers()
        self._set("trace_index", torch.repeat_interleave(self.sequence_traces, self.sequence_lengths))
        self._set("actions", ActionAxis(self.action_mask, self.trace_index, len(self.trace_ids)))
        counts = self.actions.counts
        self._set("num_action_tokens", counts)
        if not len(self.actions):
            raise BatchError("batch: no action token in any trace; expected at least one; mend the action masks")
        logged = self._check_logprobs("behavior_logprobs", SENTINEL) + self._check_logprobs("prox_logprobs", -torch.inf)
        scored = self._check_logprobs("logprobs", -torch.inf)
        if self.records is not None:
            records, in_log, in_scores = self.records.checked(self, SNAP)
            self._set("records", records)
            logged, scored = logged + in_log, scored + in_scores
        self._set("num_snapped_logged", self.num_snapped_logged + logged)
        self._set("num_snapped_scored", self.num_snapped_scored + scored)
        self._set("_own", BatchStatistics.of(self.rewards, counts))
        if self.groups is not None and self.group_statistics is None:
            self._set("group_statistics", GroupStatistics.of(self.rewards, self.groups))

    @staticmethod
    def from_rows(rows: Sequence[Mapping[str, Any]], *, dtype: torch.dtype = torch.float32) -> Batch:
        """A batch of plain rows, one a sequence; see `train.rows.batch_from_rows`."""
        from train.rows import batch_from_rows

        return batch_from_rows(rows, dtype=dtype)

    def to_rows(self) -> list[dict[str, Any]]:
        """The batch as plain rows again, one a sequence; see `train.batch_rows.rows_of_batch`."""
        from train.batch_rows import rows_of_batch

        return rows_of_batch(self)

    @property
    def statistics(self) -> BatchStatistics:
        """Statistics of the whole batch, of which this may be a part."""
        return self.whole or self._own

    @property
    def num_snapped(self) -> int:
        """Log-probabilities in (0, SNAP] that were read as 0."""
        return self.num_snapped_logged + self.num_snapped_scored

    @property
    def dtype(self) -> torch.dtype:
        """float32 or float64: what the update is computed in and returned as."""
        numbers = (getattr(self, name) for name in _TOKEN_NUMBERS)
        return next((tensor.dtype for tensor in numbers if tensor is not None), torch.float32)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was split off it."""
        return self.whole is None or self.whole.num_traces == len(self.trace_ids)

    def token_index(self, traces: Sequence[int]) -> Tensor:
        """Positions on this token axis of the tokens of `traces`, in the order in which `select` packs them."""
        return self._token_positions(self._sequences_of(traces))

    def select(self, traces: Sequence[int]) -> Batch:
        """The part of the batch that holds `traces`, in that order, under the statistics of the whole.

        The update of a part is the update of the whole at its tokens, for every method that says it can be split.
        """
        sequences = self._sequences_of(traces)
        tokens = self._token_positions(sequences)
        chosen = torch.tensor(list(traces), device=self.rewards.device)
        renumbered = torch.empty(len(self.trace_ids), dtype=torch.int64, device=self.rewards.device)
        renumbered[chosen] = torch.arange(len(chosen), device=self.rewards.device)
        numbers: dict[str, Any] = {name: tensor[tokens] for name, tensor in self._token_numbers().items()}
        return Batch(
            trace_ids=tuple(self.trace_ids[trace] for trace in traces),
            rewards=self.rewards[chosen],
            sequence_lengths=self.sequence_lengths[sequences],
            sequence_traces=renumbered[self.sequence_traces[sequences]],
            sequence_index=self.sequence_index[sequences],
            action_mask=self.action_mask[tokens],
            failures=None if self.failures is None else self.failures[chosen],
            policy_lags=None if self.policy_lags is None else self.policy_lags[tokens],
            groups=None if self.groups is None else self.groups[chosen],
            keys=None if self.keys is None else tuple(self.keys[trace] for trace in traces),
            records=None if self.records is None else self.records.select(tokens),
            group_statistics=None if self.group_statistics is None else self.group_statistics.of_traces(chosen),
            whole=self.statistics,
            **numbers,
        )

    def with_logprobs(self, logprobs: Tensor, recorded: Tensor | None = None) -> Batch:
        """The same batch on the device of `logprobs` [N], which come from the policy being trained.

        `recorded` [N, K] are those of the recorded tokens, from the same pass; without them the records have none.
        Entropies are dropped: they are those of other weights. A number that is not finite or is positive there is our
        own fault, not the log's: `TrainingError`.
        """
        if logprobs.shape != self.action_mask.shape:
            raise TrainingError(
                f"logprobs of shape {tuple(logprobs.shape)} for a batch of {len(self.action_mask)} tokens; expected "
                f"one number a token; score the batch in its own packing order"
            )
        moved = self.to(logprobs.device)
        try:
            if moved.records is None and logprobs.dtype == moved.dtype:
                return moved._with_own_logprobs(logprobs.detach())
            records = None if moved.records is None else moved.records.with_logprobs(recorded)
            return replace(moved, logprobs=logprobs, records=records, entropies=None, num_snapped_scored=0)
        except BatchError as error:
            raise TrainingError(str(error)) from error

    def _with_own_logprobs(self, logprobs: Tensor) -> Batch:
        """The same batch with these; nothing else has changed, so nothing else is checked a second time."""
        scored = self._with("logprobs", logprobs)
        scored._set("entropies", None)
        scored._set("num_snapped_scored", scored._check_logprobs("logprobs", -torch.inf))
        return scored

    def _with(self, name: str, tokens: Tensor) -> Batch:
        """The same batch with another field [N] of its type; what was found on the others' axis of actions stays."""
        made = copy(self)
        made._set(name, tokens)
        made._set("_made", {})
        made._set("_packed", {known: packed for known, packed in self._packed.items() if known != name})
        return made

    def with_values(self, values: Tensor) -> Batch:
        """The same batch on the device of `values` [N], the critic's predictions before it learns from this batch."""
        if values.shape != self.action_mask.shape:
            raise TrainingError(
                f"values of shape {tuple(values.shape)} for a batch of {len(self.action_mask)} tokens; expected one "
                f"number a token, from the tokens before it; run the critic in the batch's own packing order"
            )
        moved = self.to(values.device)
        return moved._with("values", values.detach()) if values.dtype == moved.dtype else replace(moved, values=values)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch with its tensors on `device`."""
        if self.rewards.device == torch.device(device):
            return self
        tensors = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        moved: dict[str, Any] = {
            name: part.to(device)
            for name, part in tensors.items()
            if isinstance(part, Tensor | GroupStatistics | Records)
        }
        return replace(self, **moved)

    def once(self, name: str, make: Callable[[], _Made]) -> _Made:
        """What `make` gives of this batch, kept under `name`: a batch does not change, so nor does what follows."""
        if name not in self._made:
            self._made[name] = make()
        made: _Made = self._made[name]
        return made

    def on_actions(self, name: str) -> Tensor | None:
        """The field of that name at the action tokens alone, [N] to [A], kept; None where the batch has none."""
        tokens = getattr(self, name)
        if tokens is not None and name not in self._packed:
            self._packed[name] = self.actions.pack(tokens)
        return self._packed.get(name)

    def place_of_action(self, action: int) -> str:
        """Where an action token lies, by its place among the A, in the words of `place`."""
        return self.place(int(self.actions.positions[action]))

    def place(self, token: int) -> str:
        """Where a packed token lies, in words: its trace, its sequence if there are several, its position."""
        ends = torch.cumsum(self.sequence_lengths, 0)
        sequence = int(torch.searchsorted(ends, token, right=True))
        start = int(ends[sequence] - self.sequence_lengths[sequence])
        trace = int(self.sequence_traces[sequence])
        several = int((self.sequence_traces == trace).sum()) > 1
        part = f", sequence {int(self.sequence_index[sequence])}" if several else ""
        return f"trace {self.trace_ids[trace]}{part}, token {token - start}"

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _token_numbers(self) -> dict[str, Tensor]:
        found = {name: getattr(self, name) for name in _TOKEN_NUMBERS}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def _sequences_of(self, traces: Sequence[int]) -> Tensor:
        """Packed sequences of the traces, by the order of `traces` and then of the packing."""
        wanted = torch.tensor(list(traces), dtype=torch.int64, device=self.rewards.device)
        if not len(wanted) or len(set(traces)) != len(wanted):
            raise BatchError(
                f"select: {list(traces)[:8]} names no trace, or one twice; expected at least one; name each once"
            )
        if int(wanted.min()) < 0 or int(wanted.max()) >= len(self.trace_ids):
            raise BatchError(
                f"select: traces {list(traces)[:8]}; expected indices from 0 to {len(self.trace_ids) - 1}; number them "
                f"by their place in trace_ids"
            )
        rank = torch.full((len(self.trace_ids),), len(self.trace_ids), device=self.rewards.device)
        rank[wanted] = torch.arange(len(wanted), device=self.rewards.device)
        ranks = rank[self.sequence_traces]
        order = torch.argsort(ranks, stable=True)
        return order[: int((ranks < len(self.trace_ids)).sum())]

    def _token_positions(self, sequences: Tensor) -> Tensor:
        lengths = self.sequence_lengths[sequences]
        starts = (torch.cumsum(self.sequence_lengths, 0) - self.sequence_lengths)[sequences]
        packed_starts = torch.cumsum(lengths, 0) - lengths
        shift = torch.repeat_interleave(starts - packed_starts, lengths)
        return shift + torch.arange(len(shift), device=shift.device)

    def _check_traces(self) -> None:
        num = len(self.trace_ids)
        if not num:
            raise BatchError("batch: no trace; expected at least one; skip the update instead")
        if len(set(self.trace_ids)) != num:
            raise BatchError(
                "batch: a trace id occurs twice in trace_ids; expected each once; give its sequences one index in "
                "sequence_traces"
            )
        if self.rewards.shape != (num,) or self.rewards.dtype == torch.bool:
            raise BatchError(
                f"batch: rewards of shape {tuple(self.rewards.shape)} and {self.rewards.dtype} for {num} traces; "
                f"expected one number a trace; give one for each of trace_ids"
            )
        rewards = self.rewards.detach().to(torch.float64)
        trace = first_true(~torch.isfinite(rewards))
        if trace is not None:
            raise BatchError(
                f"trace {self.trace_ids[trace]}: reward {float(rewards[trace])}; expected a finite number; "
                f"leave a trace without a reward out of the batch"
            )
        self._set("rewards", rewards)

    def _check_layout(self) -> None:
        lengths, traces, num_tokens = self.sequence_lengths, self.sequence_traces, len(self.action_mask)
        if not len(lengths) == len(traces) == len(self.sequence_index):
            raise BatchError(
                f"batch: {len(lengths)} sequence_lengths, {len(traces)} sequence_traces, {len(self.sequence_index)} "
                f"sequence_index; expected one of each a sequence; let Batch.from_rows make them"
            )
        if self.action_mask.dtype != torch.bool:
            raise BatchError(
                f"batch: action_mask of {self.action_mask.dtype}; expected torch.bool; convert it with .bool()"
            )
        if int(lengths.min()) < 1 or int(lengths.sum()) != num_tokens:
            raise BatchError(
                f"batch: sequence_lengths add up to {int(lengths.sum())}, the least is {int(lengths.min())}; expected "
                f"the {num_tokens} tokens of action_mask, at least one a sequence; let Batch.from_rows make them"
            )
        missing = set(range(len(self.trace_ids))) - set(traces.tolist())
        if missing:
            raise BatchError(
                f"trace {self.trace_ids[min(missing)]}: no sequence; expected at least one; leave the trace out"
            )
        for name, tensor in self._token_numbers().items():
            if tensor.shape != (num_tokens,):
                raise BatchError(
                    f"batch: {name} of shape {tuple(tensor.shape)}; expected one number for each of the {num_tokens} "
                    f"tokens; pack it in the order of action_mask"
                )
        expected = {"policy_lags": num_tokens, **dict.fromkeys(("failures", "groups", "keys"), len(self.trace_ids))}
        for name, size in expected.items():
            stated = getattr(self, name)
            if stated is not None and len(stated) != size:
                each = "token" if name == "policy_lags" else "trace"
                raise BatchError(f"batch: {len(stated)} {name}; expected {size}; give one for each {each}")

    def _unify_numbers(self) -> None:
        """One float type for all per-token numbers, detached from any graph."""
        dtype = torch.float32
        numbers = self._token_numbers()
        for name, tensor in numbers.items():
            if not tensor.is_floating_point():
                raise BatchError(
                    f"batch: {name} of {tensor.dtype}; expected floating-point numbers; convert it with .float()"
                )
            dtype = torch.promote_types(dtype, tensor.dtype)
        for name, tensor in numbers.items():
            self._set(name, tensor.detach().to(dtype))

    def _check_logprobs(self, name: str, lowest: float) -> int:
        """Refuse what is no log-probability on an action token; snap rounding above 0 and count it."""
        logprobs, acted = getattr(self, name), self.on_actions(name)
        if acted is None:
            return 0
        # The extremes tell at once that nothing is wrong. Comparisons are False for NaN, so that it counts as bad.
        least, most = acted.aminmax()
        if bool((least > lowest) & (most <= 0.0)):
            return 0
        bad = first_true(~((acted > lowest) & (acted <= SNAP)))
        if bad is not None:
            raise BatchError(
                f"{self.place_of_action(bad)}: {name} {float(acted[bad])} on an action token; expected a natural-log "
                f"probability above {lowest:g} and not above 0; quarantine the trace, or mend the action mask if the "
                f"policy did not sample that token"
            )
        above = self.action_mask & (logprobs > 0)
        self._set(name, torch.where(above, torch.zeros_like(logprobs), logprobs))
        self._packed[name] = acted.clamp(max=0.0)
        return int(above.sum())
