"""Recorded tokens: what the behavior policy might have sampled at each action token, with its log-probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from schemas.errors import BatchError, TrainingError
from schemas.numbers import SENTINEL
from train.action_axis import first_true

if TYPE_CHECKING:
    from train.batch import Batch

Kind = Literal["draws", "top_k", "full", "expected"]
KINDS = ("draws", "top_k", "full", "expected")

MASS_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5}
"""How far the probabilities of distinct tokens may add up beyond 1. The KLPO release, arXiv:2610.08963, has 1e-6;
float32 log-softmax alone is off by up to that much a token, so that numbers in it get ten times more."""

FULL_TOLERANCE = 1e-3
"""How far those of a whole vocabulary may be from 1. As measured 2026-12-01, 150,000 logarithms in float32 were off by
5e-5; what a server sends has more rounding."""

HEAD_AGREEMENT = 1e-4
"""How far a recorded log-probability of the sampled token may be from the logged one, in nats: numbers printed with
four decimals pass, a shift by one token does not. Convention, untested."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Records:
    """K recorded tokens for each token of a batch, on its axis of N tokens. Off the action mask they may be anything.

    The kinds, and what the K tokens of a token are:

    - "draws": sampled independently and with replacement from the behavior policy, beside the rollout: another random
      generator, never the sampled token itself, duplicates kept;
    - "top_k": its K most likely tokens, each once;
    - "full": its whole vocabulary;
    - "expected": no tokens but two sums over the vocabulary, sum q log q and sum q log p, with K = 1, as they are made
      by a trainer that goes over a vocabulary by parts and cannot hold it.

    Refused: shapes that differ, another kind; in a batch also what is no log-probability on an action token. Where the
    behavior policy cannot sample a token of a "top_k" or "full" record, its log-probability is -inf.
    """

    kind: Kind
    """What the recorded tokens are."""
    behavior_logprobs: Tensor
    """[N, K] natural-log probabilities under the behavior policy; [N, 1] sum q log q for "expected"."""
    logprobs: Tensor | None = None
    """[N, K] the same under the current policy; [N, 1] sum q log p for "expected"; None until they are scored."""
    token_ids: Tensor | None = None
    """[N, K] ids of the recorded tokens; without them duplicates and shifts cannot be seen."""
    sampled_ids: Tensor | None = None
    """[N] ids of the batch's own tokens, for the check that the records stand at the right ones."""
    sampled_logprobs: Tensor | None = None
    """[N] what whoever made the records says of the batch's own tokens: the log's numbers, computed once more."""

    def __post_init__(self) -> None:
        """Check kind, shapes and number types; half precision is promoted, and no graph is kept."""
        if self.kind not in KINDS:
            raise BatchError(f"records: kind {self.kind!r}; expected one of {', '.join(KINDS)}; say what was recorded")
        shape = self.behavior_logprobs.shape
        if len(shape) != 2 or not shape[1] or (self.kind == "expected" and shape[1] != 1):
            wanted = "[N, 1]" if self.kind == "expected" else "[N, K]"
            raise BatchError(
                f"records: behavior_logprobs of shape {tuple(shape)} for kind {self.kind!r}; expected {wanted}; give "
                f"one row for each token of the batch"
            )
        for name, tensor in self._tensors().items():
            wanted_shape = shape[:1] if name.startswith("sampled") else shape
            if tensor.shape != wanted_shape:
                raise BatchError(
                    f"records: {name} of shape {tuple(tensor.shape)}; expected {tuple(wanted_shape)}; pack them beside "
                    f"behavior_logprobs"
                )
        for name, tensor in self._tensors().items():
            if not name.endswith("logprobs"):
                continue
            if not tensor.is_floating_point():
                raise BatchError(f"records: {name} of {tensor.dtype}; expected floating-point numbers; convert them")
            object.__setattr__(self, name, tensor.detach().to(torch.promote_types(torch.float32, tensor.dtype)))

    @property
    def num_records(self) -> int:
        """K, the recorded tokens of each token."""
        return int(self.behavior_logprobs.shape[1])

    def select(self, tokens: Tensor) -> Records:
        """The records of these tokens, by index."""
        return replace(self, **{name: tensor[tokens] for name, tensor in self._tensors().items()})

    def to(self, device: torch.device | str) -> Records:
        """The same records on `device`."""
        return replace(self, **{name: tensor.to(device) for name, tensor in self._tensors().items()})

    def with_logprobs(self, logprobs: Tensor | None) -> Records:
        """The same records scored by the policy being trained, [N, K]; None forgets what other weights said."""
        if logprobs is not None and logprobs.shape != self.behavior_logprobs.shape:
            raise TrainingError(
                f"recorded logprobs of shape {tuple(logprobs.shape)}; expected {tuple(self.behavior_logprobs.shape)}, "
                f"one for each recorded token; score the ids of the records in the batch's own packing order"
            )
        return replace(self, logprobs=logprobs)

    def checked(self, batch: Batch, snap: float) -> tuple[Records, int, int]:
        """These records as a batch may hold them, and how many logged and scored ones were read as 0."""
        if len(self.behavior_logprobs) != len(batch.action_mask):
            raise BatchError(
                f"batch: records of {len(self.behavior_logprobs)} tokens; expected {len(batch.action_mask)}, one row a "
                f"token; pack them in the order of action_mask"
            )
        heads = self.kind in ("top_k", "full")
        behavior, above = _snapped(
            batch, "behavior_logprobs", self.behavior_logprobs, None if heads else SENTINEL, snap
        )
        if self.logprobs is None:
            return (replace(self, behavior_logprobs=behavior) if above else self), above, 0
        current, more = _snapped(batch, "logprobs", self.logprobs, -torch.inf, snap)
        return (
            replace(self, behavior_logprobs=behavior, logprobs=current) if above + more else self,
            above,
            more,
        )

    def scored(self) -> tuple[Tensor, Tensor]:
        """`behavior_logprobs` and `logprobs`, refused when the current policy has not scored the recorded tokens."""
        if self.logprobs is None:
            raise BatchError(
                "batch: the records have no logprobs; expected one for each recorded token under the policy being "
                "trained; score their ids and use batch.with_logprobs(logprobs, recorded)"
            )
        return self.behavior_logprobs, self.logprobs

    def _tensors(self) -> dict[str, Any]:
        names = ("behavior_logprobs", "logprobs", "token_ids", "sampled_ids", "sampled_logprobs")
        found = {name: getattr(self, name) for name in names}
        return {name: tensor for name, tensor in found.items() if tensor is not None}


def examined(batch: Batch, reader: str, kinds: tuple[str, ...], fallback: str) -> Records:
    """The records of a batch, refused where they cannot be what they say; `fallback` is what needs none.

    Refused: no records, another kind, not scored; a duplicate in a head; probabilities of distinct tokens beyond 1, or
    of a whole vocabulary away from it; a recorded log-probability of the sampled token that is not the logged one; two
    of one token at one place.

    What was drawn from a head that somebody renormalised shows in those numbers only where the sampled token is among
    the draws and the ids are given: its renormalised probability is not the logged one. Draws from such a head under
    probabilities of the whole vocabulary cannot be told from honest ones, and can be worse than no centering.
    """
    records = batch.records
    if records is None:
        raise BatchError(
            f"{reader}: trace {batch.trace_ids[0]} and the rest of the batch have no records; expected "
            f"{' or '.join(kinds)} of the behavior policy at each action token; record them when serving, or use "
            f"{fallback}"
        )
    if records.kind not in kinds:
        raise BatchError(
            f"{reader}: records of kind {records.kind!r}; expected {' or '.join(kinds)}; choose the centering for what "
            f"was recorded, never make one kind out of another"
        )
    behavior, current = records.scored()
    _check_sampled(batch, records, reader)
    if records.kind == "draws":
        _check_draws(batch, records, reader)
    elif records.kind != "expected":
        _check_heads(batch, records, (behavior, current), reader)
    return records


def _snapped(batch: Batch, name: str, numbers: Tensor, lowest: float | None, snap: float) -> tuple[Tensor, int]:
    """The numbers with those in (0, snap] as 0; refused where one is no log-probability. `lowest` None allows -inf."""
    # Comparisons are False for NaN, so that it counts as bad.
    good = numbers <= snap if lowest is None else (numbers <= snap) & (numbers > lowest)
    token = first_true(batch.action_mask & ~good.all(1))
    if token is not None:
        which = int((~good[token]).nonzero()[0])
        least = "" if lowest is None else f" above {lowest:g} and"
        raise BatchError(
            f"{batch.place(token)}: {name} {float(numbers[token, which])} of recorded token {which}; expected a "
            f"natural-log probability{least} not above 0; quarantine the trace, or record it again"
        )
    above = batch.action_mask[:, None] & (numbers > 0)
    count = int(above.sum())
    return (torch.where(above, torch.zeros_like(numbers), numbers) if count else numbers), count


def behavior_gap(batch: Batch) -> float | None:
    """How far logged log-probabilities of sampled tokens are from recomputed ones, the largest of the batch, in nats.

    None where the batch does not have both. Other kernels, another precision or other weights than those that served
    the trace show here.
    """
    records, logged = batch.records, batch.behavior_logprobs
    if records is None or logged is None:
        return None
    again = _sampled_again(records)
    if again is None:
        return None
    gaps = torch.where(batch.action_mask & again.isfinite(), (again - logged).abs(), 0.0)
    return float(gaps.max())


def _sampled_again(records: Records) -> Tensor | None:
    """[N] what the records say of the batch's own tokens, not finite where they do not; None where they never do."""
    if records.sampled_logprobs is not None:
        return records.sampled_logprobs
    if records.sampled_ids is None or records.kind != "full":
        return None
    if records.token_ids is None:
        return _at_own_ids(records.behavior_logprobs, records.sampled_ids)
    found = records.token_ids == records.sampled_ids[:, None]
    own = records.behavior_logprobs.gather(1, found.to(torch.uint8).argmax(1, keepdim=True))
    return torch.where(found.any(1), own[:, 0], torch.nan)


def _at_own_ids(behavior: Tensor, sampled: Tensor) -> Tensor:
    """[N] the log-probability of each sampled token in those of its whole vocabulary [N, V]; inf outside of it."""
    inside = (sampled >= 0) & (sampled < behavior.shape[1])
    own = behavior.gather(1, torch.where(inside, sampled, 0)[:, None].long())
    return torch.where(inside, own[:, 0], torch.inf)


def _check_sampled(batch: Batch, records: Records, reader: str) -> None:
    """Refuse a record of the sampled token that is not what was logged of it."""
    sampled, ids, logged = records.sampled_ids, records.token_ids, batch.behavior_logprobs
    if sampled is None or logged is None or records.kind == "expected":
        return
    behavior = records.behavior_logprobs
    if ids is not None:
        apart = ((ids == sampled[:, None]) & ~((behavior - logged[:, None]).abs() <= HEAD_AGREEMENT)).any(1)
    elif records.kind == "full":
        apart = ~((_at_own_ids(behavior, sampled) - logged).abs() <= HEAD_AGREEMENT)
    else:
        return
    token = first_true(batch.action_mask & apart)
    if token is not None:
        raise BatchError(
            f"{reader}: {batch.place(token)}: the sampled token {int(sampled[token])} was logged with "
            f"{float(logged[token]):.6g} and recorded with another log-probability, or lies outside of the record; "
            f"expected one number within {HEAD_AGREEMENT:g}; the records are shifted, renormalised or of another "
            f"version: record them again"
        )


def _check_heads(batch: Batch, records: Records, scored: tuple[Tensor, Tensor], reader: str) -> None:
    """Refuse a duplicate, and probabilities that add up to more than 1 or, of a vocabulary, to something else."""
    if records.token_ids is not None:
        ids = records.token_ids.sort(1).values
        bad = first_true(batch.action_mask & (ids[:, 1:] == ids[:, :-1]).any(1))
        if bad is not None:
            raise BatchError(
                f"{reader}: {batch.place(bad)}: a token id occurs twice among its {records.num_records} "
                f"recorded tokens; expected each once; draws are another kind"
            )
    for policy, logprobs in zip(("behavior", "current"), scored, strict=True):
        masses = torch.exp(logprobs).sum(1, dtype=torch.float64)
        if records.kind == "full":
            wrong, wanted = ~((masses - 1.0).abs() <= FULL_TOLERANCE), "1, as of a whole vocabulary"
        else:
            wrong, wanted = ~(masses <= 1.0 + MASS_TOLERANCE[logprobs.dtype]), "at most 1"
        _refuse_mass(batch, reader, f"{policy} probabilities of its recorded tokens", masses, wrong, wanted)


def _check_draws(batch: Batch, records: Records, reader: str) -> None:
    """Refuse draws of one token under two probabilities, and distinct ones whose probabilities exceed 1."""
    if records.token_ids is None:
        return
    ids, order = records.token_ids.sort(1)
    behavior = records.behavior_logprobs.gather(1, order)
    same = ids[:, 1:] == ids[:, :-1]
    apart = same & ~((behavior[:, 1:] - behavior[:, :-1]).abs() <= HEAD_AGREEMENT)
    bad = first_true(batch.action_mask & apart.any(1))
    if bad is not None:
        raise BatchError(
            f"{reader}: {batch.place(bad)}: two draws of one token with two behavior_logprobs; expected one, "
            f"the sampler's; never make draws out of a head"
        )
    first = torch.nn.functional.pad(~same, (1, 0), value=True)
    masses = torch.exp(torch.where(first, behavior, -torch.inf)).sum(1, dtype=torch.float64)
    wrong = ~(masses <= 1.0 + MASS_TOLERANCE[behavior.dtype])
    _refuse_mass(batch, reader, "behavior probabilities of its distinct draws", masses, wrong, "at most 1")


def _refuse_mass(batch: Batch, reader: str, what: str, masses: Tensor, wrong: Tensor, wanted: str) -> None:
    token = first_true(batch.action_mask & wrong)
    if token is not None:
        raise BatchError(
            f"{reader}: {batch.place(token)}: the {what} add up to {float(masses[token]):.9g}; expected {wanted}; they "
            f"are of another temperature, renormalised, or of another token: record and score them again"
        )
