"""Sequences to rows of `rescored`: their log-probabilities under one policy, and how far that policy has moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from train.methods import terms
from train.packing import Pack, Trace, build_packs
from train.policy import Policy
from train.sequences import LoggedSequence


def score_packs(policy: Policy, traces: Sequence[Trace], *, token_budget: int) -> Iterator[tuple[Pack, list[Any]]]:
    """Every pack of these traces with the log-probabilities [A] of each of its sequences, as it is scored."""
    for pack in build_packs(traces, token_budget=token_budget):
        # Not in inference mode: weights that are gathered from other ranks would be lost to training afterwards.
        with torch.no_grad():
            logprobs = policy.score(pack).logprobs.cpu().numpy()
        ends = np.cumsum([sequence.num_action_tokens for sequence in pack.sequences])
        yield pack, np.split(logprobs, ends[:-1])


def drift_figures(sequence: LoggedSequence, logprobs: npt.NDArray[np.float32]) -> dict[str, float]:
    """Drift and its relatives over the A action tokens of one sequence, `logprobs` [A] being the scoring policy's."""
    behavior, scored = (torch.from_numpy(values.astype(np.float64)) for values in (sequence.action_logprobs, logprobs))
    every = torch.ones(len(scored), dtype=torch.bool)
    log_ratios = terms.log_ratios(scored, behavior, every)
    ratios = terms.importance_ratios(log_ratios.clamp(max=terms.LARGEST_EXPONENT), every)
    squares = log_ratios.square()
    return {
        # Below 0 only by rounding: the mean of a divergence.
        "mean_bernoulli_kl": max(0.0, float(terms.bernoulli_kl(behavior, scored).mean())),
        "mean_abs_log_ratio": float(log_ratios.abs().mean()),
        "k1": float(-log_ratios.mean()),
        "k2": float(squares.mean() / 2),
        "k3": float((ratios - 1 - log_ratios).mean()),
        "m2": float(squares.mean()),
        "max_ratio": float(ratios.max()),
        "sequence_log_ratio": float(log_ratios.sum()),
    }


def rescored_row(sequence: LoggedSequence, logprobs: npt.NDArray[np.float32]) -> dict[str, Any]:
    """The row of `rescored` for one sequence, but for the policy, the run and the time."""
    placed: list[float | None] = [None] * len(sequence.token_ids)
    for position, value in zip(np.flatnonzero(sequence.action_mask).tolist(), logprobs.tolist(), strict=True):
        placed[position] = value
    return {
        "trace_id": sequence.trace_id,
        "trace_revision": sequence.trace_revision,
        "sequence_index": sequence.sequence_index,
        "behavior_version": sequence.behavior_version,
        "logprobs": placed,
        "num_action_tokens": sequence.num_action_tokens,
        **drift_figures(sequence, logprobs),
    }
