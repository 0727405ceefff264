"""The sentences of an update's report that several methods share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from train.batch import Batch
from train.methods import terms

NAMED_TRACES = 5
"""Traces that a note names before it counts the rest. Convention, untested."""


def named(trace_ids: Sequence[str], chosen: Tensor) -> str:
    """The chosen traces in words: "1 trace (3)", "12 traces (a, b, c, d, e and 7 more)"."""
    ids = [trace_ids[index] for index in chosen.nonzero().flatten().tolist()]
    more = f" and {len(ids) - NAMED_TRACES} more" if len(ids) > NAMED_TRACES else ""
    return f"{len(ids)} trace{'s' if len(ids) != 1 else ''} ({', '.join(ids[:NAMED_TRACES])}{more})"


def furthest(batch: Batch, log_ratios: Tensor) -> str:
    """The token whose log-ratio, of [A], is furthest from 0: "furthest is ratio 0.0498 at trace 3, token 0"."""
    size = terms.part_size(log_ratios)
    parts = torch.split(log_ratios, size)
    part = int(torch.stack([each.abs().amax() for each in parts]).argmax())  # Places are slow to find: in one part.
    token = part * size + int(parts[part].abs().argmax())
    ratio = math.exp(min(float(log_ratios[token]), terms.LARGEST_EXPONENT))
    return f"furthest is ratio {ratio:.3g} at {batch.place_of_action(token)}"


def about_batch_mean(batch: Batch) -> list[str]:
    """Why rewards against their batch mean move nothing, if so."""
    statistics = batch.statistics
    if statistics.num_traces == 1:
        return ["the batch is one trace, whose reward is its own mean, so nothing moves: put more traces in a batch"]
    if statistics.equal_rewards:
        told = (
            f"all {statistics.num_traces} rewards are {statistics.mean_reward:g}, so every advantage is 0 and nothing"
        )
        return [f"{told} moves: a batch needs better and worse traces"]
    return []


def about_numbers(batch: Batch) -> list[str]:
    """What was done to the log-probabilities as they came in, if anything."""
    return [f"{batch.num_snapped} log-probabilities just above 0 were read as 0"] if batch.num_snapped else []


def about_empty_traces(batch: Batch) -> list[str]:
    """Which traces have no action token, if any."""
    empty = batch.num_action_tokens == 0
    return [f"{named(batch.trace_ids, empty)} without an action token"] if bool(empty.any()) else []
