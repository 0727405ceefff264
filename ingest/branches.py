"""The parts of stitching: a call as it was logged, its sampled spans, and the training sequence that they form."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

BranchKind = Literal["main", "fork", "subagent", "compaction", "abandoned"]

ID_BYTES = 4
"""Token ids are packed as int32 and log-probabilities as float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCall:
    """What stitching needs of a call: ids packed as int32 and log-probabilities as float32, None where not logged.

    `fault` is the first reason for which the call's tokens cannot be used. `masked` are positions in `token_ids` that
    are no action tokens: forced ones, and those behind a stop string. `unserved` is true where the settings say that
    another choice of the response was delivered.
    """

    call_id: str
    prompt: bytes | None
    token_ids: bytes | None
    token_logprobs: bytes | None
    started_at: datetime
    ended_at: datetime | None = None
    call_index: int | None = None
    response_id: str | None = None
    choice_index: int = 0
    fault: str | None = None
    masked: frozenset[int] = frozenset()
    unserved: bool = False

    @property
    def full(self) -> bytes:
        """Prompt and sampled tokens: how the next call's prompt begins if it goes on from here."""
        return (self.prompt or b"") + (self.token_ids or b"")

    @property
    def num_sampled(self) -> int:
        """Tokens of the reply, masked ones included."""
        return len(self.token_ids or b"") // ID_BYTES

    @property
    def cuts(self) -> tuple[int, ...]:
        """The masked positions that there are, in order."""
        if not self.masked:
            return ()
        return tuple(sorted(position for position in self.masked if 0 <= position < self.num_sampled))

    @property
    def order(self) -> tuple[datetime, int, str]:
        """Sorts calls by time, and always in the same way."""
        return (self.started_at, -1 if self.call_index is None else self.call_index, self.call_id)


@dataclass(frozen=True, slots=True)
class Span:
    """Sampled tokens from `start` to `end` of a sequence; they train in the one sequence that owns them.

    `skipped` is the number of the call's own tokens before the span, above 0 only after a masked token.
    """

    call: LoggedCall
    start: int
    end: int
    owned: bool
    skipped: int = 0

    @property
    def is_action(self) -> bool:
        """Whether the tokens are action tokens here."""
        return self.owned and self.call.fault is None


@dataclass(frozen=True, slots=True)
class Branch:
    """One training sequence: the calls on its way from the first one, and their sampled spans."""

    kind: BranchKind
    path: tuple[LoggedCall, ...]
    spans: tuple[Span, ...]

    @property
    def token_ids(self) -> bytes:
        """All tokens, prompt and sampled, packed int32."""
        return self.path[-1].full
