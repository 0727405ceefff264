"""What is asked about a pack's tokens beside their own log-probability: the behavior policy's other tokens.

Expectations over the whole vocabulary, fresh draws and the likeliest tokens, all three from the weights that wrote the
traces, and the heads that the server logged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from schemas.errors import BatchError
from train.behavior import BehaviorPolicies
from train.logprobs import BehaviorStates, action_tokens
from train.packing import Pack, Trace
from train.policy import Scores
from train.records import Kind, Records
from train.sequences import LoggedSequence


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What a pack is scored with, and what of the behavior policy is known already."""

    behavior: BehaviorStates | None = None
    """What the behavior policy makes of the pack, for expectations under it."""
    token_ids: Tensor | None = None
    """[A, K] tokens to be scored."""
    behavior_logprobs: Tensor | None = None
    """[A, K] what the behavior policy said of them."""

    def to(self, device: torch.device) -> Question:
        """The same on `device`; what an engine of ours said is there already."""
        moved = (None if tensor is None else tensor.to(device) for tensor in (self.token_ids, self.behavior_logprobs))
        return Question(self.behavior, *moved)


class Recorder(Protocol):
    """A source of recorded tokens."""

    @property
    def kind(self) -> Kind:
        """The records that come of it."""

    @property
    def was_logged(self) -> bool:
        """Whether they were logged with the sampled tokens, and not asked of an engine of ours."""

    def begin(self, number: int, traces: Sequence[Trace]) -> None:
        """Be told of update `number` and of all traces in it, before the first pack is asked about."""

    def ask(self, pack: Pack) -> Question:
        """What `pack` is to be scored with."""


@dataclass(slots=True)
class Expectations:
    """Sums over the whole vocabulary under the version that wrote each trace."""

    behavior: BehaviorPolicies
    kind: Kind = "expected"
    was_logged: bool = False

    def begin(self, number: int, traces: Sequence[Trace]) -> None:
        """Nothing is remembered from update to update."""

    def ask(self, pack: Pack) -> Question:
        """The states of whoever wrote the pack's sequences."""
        return Question(behavior=self.behavior.states(pack))


@dataclass(slots=True)
class Draws:
    """Independent draws from the version that wrote each trace, at the temperature of each token, new in every update.

    Which tokens are drawn depends on seed, update and sequence alone, never on the packs.
    """

    behavior: BehaviorPolicies
    num_draws: int
    seed: int
    kind: Kind = "draws"
    was_logged: bool = False
    _number: int = 0

    def begin(self, number: int, traces: Sequence[Trace]) -> None:  # noqa: ARG002 - one signature for all recorders
        """Draw anew: draws that trained before are no fresh ones."""
        self._number = number

    def ask(self, pack: Pack) -> Question:
        """The draws of each action token, and their log-probabilities under whoever made them."""
        tokens = action_tokens(pack).to(self.behavior.policy.device)
        states = self.behavior.states(pack)
        ids, logprobs, start = [], [], 0
        for sequence in pack.sequences:
            own = slice(start, start + sequence.num_action_tokens)
            drawn, said = states.draws(
                own, tokens.temperatures[own], num=self.num_draws, generator=self._generator(sequence)
            )
            ids.append(drawn)
            logprobs.append(said)
            start = own.stop
        return Question(token_ids=torch.cat(ids), behavior_logprobs=torch.cat(logprobs))

    def _generator(self, sequence: LoggedSequence) -> torch.Generator:
        said = f"{self.seed}\t{self._number}\t{sequence.trace_id}\t{sequence.sequence_index}"
        digest = hashlib.sha256(said.encode()).digest()
        return torch.Generator(self.behavior.policy.device).manual_seed(int.from_bytes(digest[:7], "big"))


@dataclass(slots=True)
class Heads:
    """The likeliest tokens under the version that wrote each trace, as many of them at each token."""

    behavior: BehaviorPolicies
    num: int
    kind: Kind = "top_k"
    was_logged: bool = False

    def begin(self, number: int, traces: Sequence[Trace]) -> None:
        """Nothing is remembered from update to update."""

    def ask(self, pack: Pack) -> Question:
        """The heads of each action token, at its temperature."""
        states = self.behavior.states(pack)
        tokens = action_tokens(pack).to(self.behavior.policy.device)
        ids, logprobs = states.likeliest(tokens.temperatures, num=self.num)
        return Question(token_ids=ids, behavior_logprobs=logprobs)


@dataclass(slots=True)
class LoggedHeads:
    """The K most likely tokens that the server logged; K is what every token of the batch has."""

    kind: Kind = "top_k"
    was_logged: bool = True
    _num: int = 0

    def begin(self, number: int, traces: Sequence[Trace]) -> None:
        """Find the K that all of these traces have; refused where one has no list."""
        heads = []
        for trace in traces:
            for sequence in trace:
                if not sequence.num_top:
                    raise BatchError(
                        f"trace {sequence.trace_id}: update {number}: no top-K list at each of its action tokens; "
                        "expected one, as top_logprobs of the request makes the server log it; choose another "
                        "centering, or log it"
                    )
                heads.append(sequence.num_top)
        self._num = min(heads)

    def ask(self, pack: Pack) -> Question:
        """The logged heads, cut to K."""
        columns: list[list[np.ndarray[tuple[int, int], np.dtype[np.generic]]]] = [[], []]
        for sequence in pack.sequences:
            if sequence.top_token_ids is None or sequence.top_logprobs is None:
                raise AssertionError("a batch without heads is refused when it begins")
            columns[0].append(sequence.top_token_ids[:, : self._num].astype(np.int64))
            columns[1].append(sequence.top_logprobs[:, : self._num].astype(np.float32))
        ids, logprobs = (torch.from_numpy(np.concatenate(parts)) for parts in columns)
        return Question(token_ids=ids, behavior_logprobs=logprobs)


def records_of(recorder: Recorder, scores: Scores) -> Records:
    """The behavior policy's side of scored packs, as a batch carries it."""
    if recorder.kind == "expected":
        own, again = scores.tokens.expected_behavior_logprobs, scores.tokens.sampled_behavior_logprobs
        if own is None:
            raise AssertionError("expectations were asked for")
        return Records(kind=recorder.kind, behavior_logprobs=own[:, None], sampled_logprobs=again)
    if scores.asked_logprobs is None or scores.asked_ids is None:
        raise AssertionError("recorded tokens were asked for")
    return Records(
        kind=recorder.kind,
        behavior_logprobs=scores.asked_logprobs,
        token_ids=scores.asked_ids,
        # What was asked here stands at its token by construction, and differs from what was logged of it by the noise
        # of another engine; a head was logged with it.
        sampled_ids=scores.sampled_ids if recorder.was_logged else None,
    )
