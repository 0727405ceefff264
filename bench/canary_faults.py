"""How far off the canary is when the log is right, and when it is wrong in one of three ways.

    python bench/canary_faults.py [SETTINGS] [--traces 24]

Reads the lake of the settings, by default of the example (run a whole night first), and scores a sample of traces of
each version under that version's own weights. Prints mean absolute log-ratio and mean Bernoulli KL over action tokens:

    right              as logged: the floor of the numerics, 1e-6 nats and 1e-11 on a float32 server
    wrong adapter      under the weights of the version before, or after for the first
    shift by one       each log-probability laid against the token after its own
    temperature as 1   only traces of another temperature, read as if it were 1

A canary that stands at one of the lower figures says which fault to look for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from flows.settings import load_settings
from train.agreement import open_policy
from train.methods.terms import bernoulli_kl
from train.packing import Trace
from train.policy import Policy
from train.registry import ModelSettings, PolicyRow, policies, weights_of
from train.rescore import DISQUALIFYING
from train.scoring import score_packs
from train.sequences import SEQUENCE_COLUMNS, by_trace, sequences_from_table
from warehouse.lake import Lake

Pairs = list[tuple[np.ndarray, np.ndarray]]
"""Behavior log-probabilities and scores of each sequence."""


@dataclass(frozen=True)
class Sample:
    """A version and traces that it wrote."""

    row: PolicyRow
    other: PolicyRow | None
    plain: list[Trace]
    tempered: list[Trace]


def samples(lake: Lake, num_traces: int, vocabulary_size: int) -> list[Sample]:
    """Traces of each version, so many at temperature 1 and so many at others, that the model can read."""
    rows = policies(lake)
    table = lake.query(
        "train/scorable",
        policy_version="",
        disqualifying=DISQUALIFYING,
        vocabulary_size=vocabulary_size,
        num_positions=None,
    )
    scorable = [trace for trace in table.to_pylist() if trace["misfit"] is None]
    found = []
    for number, row in enumerate(rows):
        own = sorted(
            (t for t in scorable if t["behavior_version"] == row.policy_version), key=lambda t: t["canary_rank"]
        )
        table = lake.read("current_traces", columns=SEQUENCE_COLUMNS, where={"trace_id": [t["trace_id"] for t in own]})
        traces = by_trace(s for s in sequences_from_table(table) if s.num_action_tokens)
        plain = [trace for trace in traces if trace[0].temperature == 1.0][:num_traces]
        tempered = [trace for trace in traces if trace[0].temperature != 1.0][:num_traces]
        others = [rows[number - 1]] if number else rows[1:2]
        found.append(Sample(row, others[0] if others else None, plain, tempered))
    return found


def scored(policy: Policy, traces: Sequence[Trace]) -> Pairs:
    """What was logged and what the policy says, sequence by sequence."""
    return [
        (sequence.action_logprobs, scores)
        for pack, lists in score_packs(policy, traces, token_budget=4096)
        for sequence, scores in zip(pack.sequences, lists, strict=True)
    ]


def at_one(trace: Trace) -> Trace:
    """The trace as if it had been sampled at temperature 1."""
    return tuple(replace(sequence, temperature=1.0) for sequence in trace)


def shifted(pairs: Pairs) -> Pairs:
    """Each logged number laid against the score of the next token."""
    return [(logged[:-1], scores[1:]) for logged, scores in pairs if len(logged) > 1]


def figures(pairs: Pairs) -> str:
    """One line: count and both means."""
    if not pairs:
        return "NOT MEASURED: no such trace"
    logged, scores = (torch.from_numpy(np.concatenate(part).astype(np.float64)) for part in zip(*pairs, strict=True))
    ratios, divergences = (scores - logged).abs().mean(), bernoulli_kl(logged, scores).mean()
    return f"{len(logged):>6} tokens   |log ratio| {float(ratios):.1e}   KL {float(divergences):.1e}"


def measure(lake: Lake, model: ModelSettings, num_traces: int, say: Callable[[str], None]) -> None:
    """Print the four figures over all versions together."""
    policy = open_policy(model)
    lines: dict[str, Pairs] = {"right": [], "wrong adapter": [], "shift by one": [], "temperature as 1": []}
    for sample in samples(lake, num_traces, policy.vocabulary_size):
        policy.become(weights_of(model, sample.row, policies(lake)))
        right = scored(policy, sample.plain)
        lines["right"] += right
        lines["shift by one"] += shifted(right)
        lines["temperature as 1"] += scored(policy, [at_one(trace) for trace in sample.tempered])
        if sample.other is not None:
            policy.become(weights_of(model, sample.other, policies(lake)))
            lines["wrong adapter"] += scored(policy, sample.plain)
    for name, pairs in lines.items():
        say(f"{name:<18} {figures(pairs)}")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("settings", type=Path, nargs="?", default=Path("examples/refund_desk/tracemill.toml"))
    parser.add_argument("--traces", type=int, default=24, help="traces of each version")
    given = parser.parse_args()
    settings = load_settings(given.settings)
    with Lake.open(settings.lake.root) as lake:
        measure(lake, settings.model, given.traces, print)


if __name__ == "__main__":
    main()
