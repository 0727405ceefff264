"""What a row carries for a trainer that averages over the tokens of a batch: the method's advantage and normaliser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from train.batch import Batch
from train.handoff.admitted import AdmittedTrace
from train.methods import terms
from train.methods.catalog import Method
from train.sequences import LoggedSequence
from train.trace_batch import Facts, batch_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Carried:
    """One admitted sequence, ready for a trainer that takes token means."""

    trace: AdmittedTrace
    sequence: LoggedSequence
    group: int
    """The traces of one ask share it within a batch; a trace whose ask is unknown has its own."""
    advantage: float
    """A N / n, where n is the method's own divisor: A itself for 1/N, A N / (T B) for 1/(T B), A N / B for 1/B."""


def carried(traces: Sequence[AdmittedTrace], method: Method, aggregation: str) -> list[Carried]:
    """The sequences of a batch with what they weigh under the mean over its N action tokens.

    The advantage is the method's own, read off its update where the policy is the one that wrote the traces: no ratio
    and no mask touches it. T is counted over all sequences of a trace, so that each of them has the trace's weight.
    """
    batch = checked_batch(traces)
    if batch.behavior_logprobs is None:
        raise AssertionError("a batch of logged traces has behavior_logprobs")
    advantages = method.update(batch.with_logprobs(batch.behavior_logprobs)).advantages
    num_traces, num_tokens = batch.statistics.num_traces, batch.statistics.num_action_tokens
    counts = batch.num_action_tokens
    own, mean = (terms.normalisers(way, counts, num_traces, num_tokens) for way in (aggregation, "token_mean"))
    first = torch.cumsum(counts, 0) - counts
    by_trace = (advantages[first].to(torch.float64) * (own / mean)).tolist()
    groups: dict[str, int] = {}
    numbers = [groups.setdefault(_ask(trace), len(groups)) for trace in traces]
    return [
        Carried(trace=trace, sequence=sequence, group=group, advantage=advantage)
        for trace, group, advantage in zip(traces, numbers, by_trace, strict=True)
        for sequence in trace.sequences
    ]


def checked_batch(traces: Sequence[AdmittedTrace]) -> Batch:
    """The action tokens of the traces as a batch of float64, which refuses what is no log-probability."""
    facts = {trace.trace_id: Facts(trace.reward, trace.ask_id) for trace in traces}
    return batch_of([trace.sequences for trace in traces], facts, dtype=torch.float64)


def _ask(trace: AdmittedTrace) -> str:
    return f"trace {trace.trace_id}" if trace.ask_id is None else f"ask {trace.ask_id}"
