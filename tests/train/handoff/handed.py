"""Admitted traces in memory and in a lake, and other trainers' settings read as plain numbers."""

import numpy as np

from tests.train.logged import admit, land, logged
from train.handoff.admitted import AdmittedTrace
from train.handoff.agreements import BatchShapes

TWO_TURNS = logged([5, 6, 7, 8, 9, 10], [2, 3, 5], trace="two-turns", behavior=np.float32([-0.5, -0.25, -1.5]))
"""Prompt 5 6, reply 7 8, tool 9, reply 10."""

FORKED = tuple(
    logged([5, 6, 11 + index, 12], [2, 3], trace="forked", index=index, behavior=np.float32([-0.75, -2.0]))
    for index in range(2)
)
"""A trace of two sequences with two action tokens each."""

SHORT = logged([5, 20], [1], trace="short", behavior=np.float32([-0.125]))
"""A trace of one action token."""


def admitted(*sequences, reward, ask=None, lag=0, workload=None):
    """A trace of these sequences that the gate let through."""
    return AdmittedTrace(
        trace_id=sequences[0].trace_id,
        trace_revision=0,
        reward=reward,
        ask_id=ask,
        workload=workload,
        policy_lag=lag,
        sequences=sequences,
    )


def three(**changes):
    """Rewards 1, 0, 0: mean 1/3; T = 3, 4 and 1, N = 8, B = 3."""
    return [
        admitted(TWO_TURNS, reward=1.0, **changes),
        admitted(*FORKED, reward=0.0, **changes),
        admitted(SHORT, reward=0.0, **changes),
    ]


def shapes(*num_sequences, temperatures=(1.0,)):
    """Batches of so many sequences, none longer than 6 tokens."""
    return BatchShapes(num_sequences=num_sequences or (4,), temperatures=temperatures, num_positions=6)


def land_two_turns(lake, **changes):
    """Put the trace of two calls into a lake."""
    places = [(2, 4), (5, 6)]
    spans = [
        {"call_id": f"call-{at}", "call_index": at, "start": start, "end": end, "owned": True, "fault": None}
        for at, (start, end) in enumerate(places)
    ]
    versions = [{"policy_version": "v1", "start": start, "end": end} for start, end in places]
    land(lake, [(TWO_TURNS,)], **{"spans": spans, "version_spans": versions, "num_calls": 2} | changes)


def fill(lake, **changes):
    """The three traces in a lake, all admitted by run r."""
    land_two_turns(lake, **changes)
    land(lake, [FORKED, (SHORT,)], **changes)
    admit(lake, {"two-turns": 1.0, "forked": 0.0, "short": 0.0})
