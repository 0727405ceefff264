"""In which order a trace is judged, and where each one ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from schemas.reasons import REASONS
from validate.segments import Booleans, Integers

ADMITTED = "admitted"
"""Stage and verdict of a trace that no stage kept."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the gate: what it asks of a trace, and the reasons for which a trace leaves here."""

    name: str
    title: str
    reasons: tuple[str, ...]


STAGES: tuple[Stage, ...] = (
    Stage(
        "structure",
        "is whole: ids, lengths, calls",
        (
            "redacted_ids",
            "no_token_ids",
            "no_prompt_ids",
            "no_action_tokens",
            "len_mismatch",
            "ids_disagree",
            "stream_cut",
            "ids_out_of_vocab",
            "ambiguous_siblings",
            "best_of_n",
            "conflicting_copies",
            "context_shifted",
            "multimodal_prompt",
            "output_overridden",
            "missing_call",
        ),
    ),
    Stage(
        "logprobs",
        "has usable log-probabilities",
        (
            "provider_no_logprobs",
            "no_behavior_logprobs",
            "sentinel_logprob",
            "nonfinite_logprob",
            "positive_logprob",
            "constant_logprob",
            "logprob_kind_unknown",
            "logprob_kind_mismatch",
            "truncated_support",
            "greedy_sampling",
            "penalised_sampling",
            "grammar_constrained",
            "sampling_params_unknown",
            "sampling_mixed",
        ),
    ),
    Stage(
        "version",
        "was written by a known version",
        (
            "version_unknown",
            "version_unregistered",
            "version_ambiguous",
            "version_spans_incomplete",
            "cache_hit",
        ),
    ),
    Stage(
        "reward",
        "has a mature reward",
        (
            "reward_pending",
            "reward_immature",
            "reward_missing",
            "reward_out_of_range",
            "conflicting_outcomes",
            "ambiguous_join",
            "score_precedes_trace",
        ),
    ),
    Stage("duplicates", "is no copy", ("duplicate_trace",)),
    Stage("holdout", "is not held out", ("heldout",)),
    Stage("scored", "was scored under the current policy", ("not_rescored",)),
    Stage("staleness", "is fresh enough", ("too_old", "lag_over_limit", "drift_over_trust")),
    Stage("already_trained", "has not been trained on", ("already_trained",)),
)
"""The stages in order; a trace leaves at the first that has a reason."""

REASON_ORDER: tuple[str, ...] = tuple(reason for stage in STAGES for reason in stage.reasons)
"""All reasons in the order of the gate."""
_STAGE_OF = np.array([index for index, stage in enumerate(STAGES) for _ in stage.reasons])
_IS_PENDING = np.array([REASONS[code].scope == "pending" for code in REASON_ORDER])
_TEXT_ONLY = ("no_token_ids", "no_prompt_ids")


class Reasons:
    """[N, R] which reason applies to which trace; starts empty, and only adds."""

    def __init__(self, num_traces: int) -> None:
        self.flags = np.zeros((num_traces, len(REASON_ORDER)), np.bool_)

    def add(self, found: Mapping[str, Booleans]) -> None:
        """Add the reasons that a check found, one boolean a trace each."""
        for code, flags in found.items():
            self.flags[:, REASON_ORDER.index(code)] |= flags

    def has(self, code: str) -> Booleans:
        """[N] whether this reason applies."""
        return np.asarray(self.flags[:, REASON_ORDER.index(code)], np.bool_)

    def any_but(self, code: str) -> Booleans:
        """[N] whether any other reason applies."""
        return np.asarray(np.delete(self.flags, REASON_ORDER.index(code), axis=1).any(axis=1), np.bool_)

    def any_in(self, *stages: str) -> Booleans:
        """[N] whether any reason of these stages applies."""
        wanted = [index for index, stage in enumerate(STAGES) if stage.name in stages]
        assert len(wanted) == len(stages), f"unknown stage among {stages}"  # noqa: S101 - only our own bug could break it
        return np.asarray(self.flags[:, np.isin(_STAGE_OF, wanted)].any(axis=1), np.bool_)

    def leading(self) -> Integers:
        """[N] the reason that decides, as a position in `REASON_ORDER`; -1 where none applies.

        It is the first in gate order, but missing log-probabilities lead over missing ids: a log of text alone lacks
        everything, and the switch that turns the log-probabilities on comes first.
        """
        flags = self.flags.copy()
        text_only = flags[:, REASON_ORDER.index("no_behavior_logprobs")]
        for code in _TEXT_ONLY:
            flags[text_only, REASON_ORDER.index(code)] = False
        return np.where(flags.any(axis=1), flags.argmax(axis=1), -1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class StageCount:
    """How many traces came to a stage, and what became of them."""

    name: str
    title: str
    num_entered: int
    num_quarantined: int
    num_pending: int
    reasons: Mapping[str, int]
    """Traces by the reason that decided, in gate order; reasons of no trace are left out."""

    @property
    def num_left(self) -> int:
        """Traces that go on to the next stage."""
        return self.num_entered - self.num_quarantined - self.num_pending


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Where each of N traces ended."""

    leading: Integers
    """[N] the reason that decided, -1 for an admitted trace."""
    reasons: pa.Array
    """[N] lists of all reasons, the deciding one first."""

    @property
    def is_admitted(self) -> Booleans:
        """[N] whether no stage kept the trace."""
        return self.leading < 0

    @property
    def is_pending(self) -> Booleans:
        """[N] whether the deciding reason only asks to wait."""
        return np.asarray(~self.is_admitted & _IS_PENDING[self.leading], np.bool_)

    def verdicts(self) -> pa.Array:
        """[N] admitted, pending or quarantined."""
        names = np.array(["quarantined", "pending", ADMITTED], dtype=object)
        return pa.array(names[self.is_pending + 2 * self.is_admitted], pa.string())

    def stages(self) -> pa.Array:
        """[N] name of the stage that decided, `admitted` where none did."""
        names = np.array([*(stage.name for stage in STAGES), ADMITTED], dtype=object)
        return pa.array(names[np.where(self.is_admitted, len(STAGES), _STAGE_OF[self.leading])], pa.string())

    def counts(self) -> tuple[StageCount, ...]:
        """What became of the traces, stage by stage; the counts add up to all traces."""
        counted = tuple(_counted(self.leading))
        kept = sum(count.num_quarantined + count.num_pending for count in counted)
        admitted = int(self.is_admitted.sum())
        assert kept + admitted == self.leading.size, "a trace ended nowhere or twice"  # noqa: S101 - our own bug
        assert counted[-1].num_left == admitted, "stages and admitted traces disagree"  # noqa: S101 - our own bug
        return counted


def decide(found: Reasons) -> Waterfall:
    """Where each trace ends, and all reasons that apply to it."""
    leading = found.leading()
    rows, columns = np.nonzero(found.flags)
    # Sorting by (trace, not the deciding reason, gate order) puts the deciding reason first.
    order = np.lexsort((columns, columns != leading[rows], rows))
    codes = np.array(REASON_ORDER, dtype=object)[columns[order]]
    offsets = np.concatenate([[0], np.cumsum(found.flags.sum(axis=1))]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(codes, pa.string()))
    return Waterfall(leading, lists)


def waterfall_from(reasons: pa.ChunkedArray) -> Waterfall:
    """The same, from the lists of reasons that were written with the verdicts."""
    lists = pa.concat_arrays(reasons.chunks) if reasons.num_chunks else pa.array([], pa.list_(pa.string()))
    # The deciding reason is written first; an admitted trace has none.
    decided = [codes[0] if codes else None for codes in lists.to_pylist()]
    leading = np.array([-1 if code is None else REASON_ORDER.index(code) for code in decided], np.int64)
    return Waterfall(leading, lists)


def _counted(leading: Integers) -> Iterator[StageCount]:
    entered = leading.size
    by_reason = np.bincount(leading[leading >= 0], minlength=len(REASON_ORDER))
    for index, stage in enumerate(STAGES):
        here = index == _STAGE_OF
        pending, all_of = int(by_reason[here & _IS_PENDING].sum()), int(by_reason[here].sum())
        reasons = {code: int(by_reason[REASON_ORDER.index(code)]) for code in stage.reasons}
        yield StageCount(
            stage.name,
            stage.title,
            entered,
            all_of - pending,
            pending,
            {code: number for code, number in reasons.items() if number},
        )
        entered -= all_of
