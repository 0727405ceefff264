"""Logged sequences in memory, as scoring and training read them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

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

HEAD_COLUMNS = ("top_token_ids", "top_token_logprobs")
"""Columns of `traces` with the logged heads, read only for a method that needs them."""

LARGEST_HEAD_MASS = 1.0 + 1e-5
"""What the probabilities of distinct tokens may add up to: a float32 log-softmax is off by so much at most."""


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
    top_token_ids: npt.NDArray[np.int32] | None = None
    """[A, K] the K most likely tokens at each action token, likeliest first; None where one of them has none."""
    top_logprobs: npt.NDArray[np.float32] | None = None
    """[A, K] their log-probabilities, as logged."""

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
    def num_top(self) -> int:
        """K of the logged heads, 0 where an action token has none."""
        return 0 if self.top_token_ids is None else int(self.top_token_ids.shape[1])

    @property
    def action_logprobs(self) -> npt.NDArray[np.float32]:
        """Behavior log-probabilities of the action tokens alone."""
        return self.behavior_logprobs[self.action_mask]


def sequences_from_table(table: pa.Table) -> list[LoggedSequence]:
    """The sequences of a table with `SEQUENCE_COLUMNS`, sorted by trace and position; with heads where it has them."""
    heads = [name for name in HEAD_COLUMNS if name in table.column_names]
    rows = table.select([*SEQUENCE_COLUMNS, *heads]).sort_by(
        [("trace_id", "ascending"), ("sequence_index", "ascending")]
    )
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
            **(_head(row["top_token_ids"], row["top_token_logprobs"], lists["action_mask"][at]) if heads else {}),
        )
        for at, row in enumerate(plain)
    ]


def by_trace(sequences: Iterable[LoggedSequence]) -> list[tuple[LoggedSequence, ...]]:
    """Sequences of one trace together, in the order of the traces; those of a trace must be neighbours."""
    return [tuple(group) for _, group in groupby(sequences, key=lambda sequence: sequence.trace_id)]


def _head(
    ids: list[list[int] | None] | None, logprobs: list[list[float] | None] | None, mask: npt.NDArray[np.generic]
) -> dict[str, Any]:
    """The heads of the action tokens, cut to the K that all of them have; nothing where one of them is no head."""
    if ids is None or logprobs is None:
        return {}
    pairs = [(ids[at] or [], logprobs[at] or []) for at in np.flatnonzero(mask)]
    length = min((len(own) for own, _ in pairs), default=0)
    if not length or any(len(own) != len(said) or None in own or None in said for own, said in pairs):
        return {}
    # A server lists the sampled token last where it is not among the likeliest.
    sorted_ids, sorted_logprobs = [], []
    for own_ids, own_logprobs in pairs:
        order = sorted(range(len(own_ids)), key=lambda at, said=own_logprobs: -said[at])[:length]  # type: ignore[misc]  # mypy takes no default of a lambda
        sorted_ids.append([own_ids[at] for at in order])
        sorted_logprobs.append([own_logprobs[at] for at in order])
    found = np.array(sorted_logprobs, dtype=np.float64)
    is_sound = bool((found <= 0).all() and (np.exp(found).sum(1) <= LARGEST_HEAD_MASS).all())
    if not is_sound or any(len(set(own)) < length for own in sorted_ids):
        return {}
    return {"top_token_ids": np.array(sorted_ids, dtype=np.int32), "top_logprobs": found.astype(np.float32)}


def _lists(column: pa.ChunkedArray) -> list[npt.NDArray[np.generic]]:
    """One array a row; a null inside a list becomes NaN, never a number."""
    whole = column.combine_chunks()
    values = whole.flatten().to_numpy(zero_copy_only=False)
    ends = np.cumsum(whole.value_lengths().to_numpy(zero_copy_only=False))
    return np.split(values, ends[:-1]) if len(whole) else []
