"""Traces of packs as one batch of their action tokens, and a batch of two tokens to try a method on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from schemas.errors import BatchError, SettingsError
from train.batch import Batch
from train.methods.catalog import Method
from train.packing import Pack, Trace
from train.records import Records
from train.sequences import LoggedSequence, by_trace

TRIED_LOGPROB = -1.0
"""Log-probability of the tokens that a method is tried on. Any will do."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a trace beside its tokens."""

    reward: float
    ask_id: str | None = None


def traces_of(packs: Sequence[Pack]) -> list[Trace]:
    """The traces of the packs in packing order; the sequences of one trace are neighbours in a pack."""
    return [trace for pack in packs for trace in by_trace(pack.sequences)]


def batch_of(traces: Sequence[Trace], facts: Mapping[str, Facts], *, dtype: torch.dtype = torch.float32) -> Batch:
    """The batch of the action tokens of these traces, in their order; groups are asks, if every trace has one."""
    asks = all(facts[trace[0].trace_id].ask_id is not None for trace in traces)
    return Batch.from_rows(
        [
            {
                "trace_id": sequence.trace_id,
                "sequence_index": sequence.sequence_index,
                "reward": facts[sequence.trace_id].reward,
                "behavior_logprobs": sequence.action_logprobs,
            }
            | ({"group": facts[sequence.trace_id].ask_id} if asks else {})
            for trace in traces
            for sequence in trace
        ],
        dtype=dtype,
    )


FEWEST_DRAWS = 2
"""Recorded tokens of such a token where the options do not say how many: KLPO's sequence route leaves one out."""


def try_method(method: Method) -> None:
    """Refuse a method whose options ask for what no batch of the trainer has: it is given a batch of two tokens."""
    traces = [_trace_of_one_token(name) for name in ("first", "second")]
    low, high = method.value_range or (0.0, 1.0)
    batch = batch_of(traces, {"first": Facts(low, "ask"), "second": Facts(high, "ask")})
    ones = torch.full((len(traces),), TRIED_LOGPROB)
    scored = batch.with_logprobs(ones)
    kind = method.needs_records
    if kind is not None:
        num = 1 if kind == "expected" else getattr(method, "num_records", None) or FEWEST_DRAWS
        recorded = torch.full((len(traces), num), -math.log(2 * num))
        scored = replace(batch, records=Records(kind=kind, behavior_logprobs=recorded)).with_logprobs(ones, recorded)
    if method.needs_critic:
        scored = scored.with_values(torch.full_like(ones, batch.statistics.mean_reward))
    try:
        method.update(scored)
    except BatchError as error:
        raise SettingsError(f"train.options: the trainer cannot run {method.name} with them: {error}") from error


def _trace_of_one_token(name: str) -> Trace:
    sequence = LoggedSequence(
        trace_id=name,
        trace_revision=0,
        sequence_index=0,
        behavior_version=None,
        token_ids=np.zeros(2, dtype=np.int32),
        action_mask=np.array([False, True]),
        behavior_logprobs=np.full(2, TRIED_LOGPROB, dtype=np.float32),
        temperature=1.0,
    )
    return (sequence,)
