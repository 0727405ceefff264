"""What the number type of a model does to its log-probabilities, to be held against a trust bound."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from train.packing import Trace
from train.policy import Policy
from train.scoring import drift_figures, score_packs
from train.sequences import LoggedSequence


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """How far the same weights in two number types are apart, in nats a token."""

    mean_drift: float
    largest_drift: float
    """Of one sequence."""
    num_sequences: int

    def __str__(self) -> str:
        return (
            f"in bfloat16 rounding alone is a drift of {self.mean_drift:.2g} nats a token on average and "
            f"{self.largest_drift:.2g} at most, over {self.num_sequences} sequences"
        )


def half_precision_noise(policy: Policy, traces: Sequence[Trace], *, token_budget: int) -> Noise:
    """The drift between a policy whose trunk is in bfloat16 and the same weights in float32, on these traces.

    Takes the memory of the weights in float32 once more where they are held in bfloat16.
    """
    half = _scored(policy, traces, token_budget)
    with _in_full(policy) as full:
        whole = _scored(full, traces, token_budget)
    drifts = []
    for (sequence, said), (_, meant) in zip(half, whole, strict=True):
        placed = np.full(len(sequence.token_ids), np.nan, dtype=np.float32)
        placed[sequence.action_mask] = meant
        as_logged = LoggedSequence(
            **{name: getattr(sequence, name) for name in LoggedSequence.__slots__ if name != "behavior_logprobs"},
            behavior_logprobs=placed,
        )
        drifts.append(drift_figures(as_logged, said)["mean_bernoulli_kl"])
    return Noise(mean_drift=sum(drifts) / len(drifts), largest_drift=max(drifts), num_sequences=len(drifts))


def _scored(policy: Policy, traces: Sequence[Trace], token_budget: int) -> list[tuple[LoggedSequence, np.ndarray]]:
    return [
        (sequence, logprobs)
        for pack, lists in score_packs(policy, traces, token_budget=token_budget)
        for sequence, logprobs in zip(pack.sequences, lists, strict=True)
    ]


@contextmanager
def _in_full(policy: Policy) -> Iterator[Policy]:
    """The same weights used in float32, for as long as the block lasts."""
    if policy.half_trunk:
        policy.half_trunk = False
        try:
            yield policy
        finally:
            policy.half_trunk = True
        return
    with torch.no_grad():
        yield Policy(copy.deepcopy(policy.model).float(), policy.base)
