"""Logged sequences in memory, as scoring and training read them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.errors import InputError

SEQUENCE_COLUMNS = (
    "trace_id",
    "trace_revision",
    "sequence_index",
    "policy_version_max",
    "token_ids",
    "token_logprobs",
    "action_mask",
    "temperature",
)
"""Columns of `traces` that a logged sequence is made of."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LoggedSequence:
    """One training sequence of a trace: its T tokens, which of them were sampled, and how likely they were then."""

    trace_id: str
    trace_revision: int
    sequence_index: int
    behavior_version: str | None
    token_ids: npt.NDArray[np.int32]
    """[T] all tokens, as the engine saw them."""
    action_mask: npt.NDArray[np.bool_]
    """[T] True on tokens that the behavior policy sampled."""
    behavior_logprobs: npt.NDArray[np.float32]
    """[T] as logged; NaN where nothing was logged."""
    temperature: float
    """Sampling temperature, which is also that of the logged log-probabilities; refused when it is unknown."""

    def __post_init__(self) -> None:
        """Refuse what cannot be scored."""
        where = f"trace {self.trace_id}, sequence {self.sequence_index}"
        lengths = {len(self.token_ids), len(self.action_mask), len(self.behavior_logprobs)}
        if len(lengths) > 1:
            raise InputError(f"{where}: per-token lists of lengths {sorted(lengths)}; expected one; ingest it again")
        if len(self.action_mask) and self.action_mask[0]:
            raise InputError(
                f"{where}: its first token is an action, with no token before it; expected a prompt; quarantine it as "
                "no_prompt_ids"
            )
        if not 0 < self.temperature < math.inf:
            raise InputError(
                f"{where}: temperature {self.temperature}; expected a known one above 0, at which tokens are "
                "sampled; quarantine it"
            )

    @property
    def num_action_tokens(self) -> int:
        """Tokens that the behavior policy sampled."""
        return int(self.action_mask.sum())

    @property
    def action_logprobs(self) -> npt.NDArray[np.float32]:
        """Behavior log-probabilities of the action tokens alone."""
        return self.behavior_logprobs[self.action_mask]


def sequences_from_table(table: pa.Table) -> list[LoggedSequence]:
    """The sequences of a table with `SEQUENCE_COLUMNS`, sorted by trace and position."""
    rows = table.select(list(SEQUENCE_COLUMNS)).sort_by([("trace_id", "ascending"), ("sequence_index", "ascending")])
    lists = {name: _lists(rows[name]) for name in ("token_ids", "token_logprobs", "action_mask")}
    plain = rows.drop_columns(list(lists)).to_pylist()
    return [
        LoggedSequence(
            trace_id=row["trace_id"],
            trace_revision=row["trace_revision"],
            sequence_index=row["sequence_index"],
            behavior_version=row["policy_version_max"],
            token_ids=lists["token_ids"][at].astype(np.int32),
            action_mask=lists["action_mask"][at].astype(np.bool_),
            behavior_logprobs=lists["token_logprobs"][at].astype(np.float32),
            temperature=math.nan if row["temperature"] is None else row["temperature"],
        )
        for at, row in enumerate(plain)
    ]


def by_trace(sequences: Iterable[LoggedSequence]) -> list[tuple[LoggedSequence, ...]]:
    """Sequences of one trace together, in the order of the traces; those of a trace must be neighbours."""
    return [tuple(group) for _, group in groupby(sequences, key=lambda sequence: sequence.trace_id)]


def _lists(column: pa.ChunkedArray) -> list[npt.NDArray[np.generic]]:
    """One array a row; a null inside a list becomes NaN, never a number."""
    whole = column.combine_chunks()
    values = whole.flatten().to_numpy(zero_copy_only=False)
    ends = np.cumsum(whole.value_lengths().to_numpy(zero_copy_only=False))
    return np.split(values, ends[:-1]) if len(whole) else []
