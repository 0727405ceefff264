"""Logged sequences, adapters and lakes for tests of the runtime."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from train.optimization import Optimization
from train.registry import ModelSettings, PolicySettings
from train.sequences import LoggedSequence
from train.trace_batch import Facts

NOW = datetime(2026, 11, 29, tzinfo=UTC)
"""The clock of all tests here."""


def logged(tokens, actions, *, trace="t", index=0, temperature=1.0, behavior=None, version="v1"):
    """A sequence whose tokens at the positions `actions` were sampled, with behavior logprobs there."""
    mask = np.isin(np.arange(len(tokens)), list(actions))
    logprobs = np.full(len(tokens), np.nan, dtype=np.float32)
    logprobs[mask] = -1.0 if behavior is None else behavior
    return LoggedSequence(
        trace_id=trace,
        trace_revision=0,
        sequence_index=index,
        behavior_version=version,
        token_ids=np.array(tokens, dtype=np.int32),
        action_mask=mask,
        behavior_logprobs=logprobs,
        temperature=temperature,
    )


def forked_traces(seed=0, num=6, vocabulary=64, name="trace"):
    """Traces of two sequences each, with a common beginning over all and a longer one within each trace."""
    random = np.random.default_rng(seed)
    system = random.integers(3, vocabulary, 20).tolist()
    traces = []
    for number in range(num):
        ask = random.integers(3, vocabulary, 12).tolist()
        first, second = (random.integers(3, vocabulary, size).tolist() for size in (9, 14))
        start = len(system) + len(ask)
        temperature = 0.7 if number % 2 else 1.0
        traces.append(
            tuple(
                logged(
                    [*system, *ask, *rest],
                    range(start + 2 * index, start + len(rest) - 1),
                    trace=f"{name}-{number}",
                    index=index,
                    temperature=temperature,
                )
                for index, rest in enumerate((first, second))
            )
        )
    return traces


def plain_model(folder):
    """The model as transformers loads it, with its own attention."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def plain_action_logprobs(model, sequence):
    """[A] by the model's own forward pass of one sequence, written without anything of train/."""
    ids = torch.tensor([sequence.token_ids.tolist()])
    log_softmax = torch.log_softmax(model(ids, use_cache=False).logits[0] / sequence.temperature, dim=-1)
    positions = np.flatnonzero(sequence.action_mask)
    return torch.stack([log_softmax[at - 1, int(sequence.token_ids[at])] for at in positions])


def save_random_adapter(folder, base, *, seed, scale=0.05, targets=("q_proj", "v_proj"), rank=4):
    """A LoRA adapter with both factors random, saved as peft saves it."""
    torch.manual_seed(seed)
    wrapped = get_peft_model(plain_model(base), LoraConfig(r=rank, lora_alpha=8, target_modules=list(targets)))
    for name, parameter in wrapped.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=scale)
    wrapped.save_pretrained(folder)
    return folder


def served_by(model, traces, *, version):
    """The traces with the log-probabilities that plain transformers gives them, as a server would have logged."""
    served = []
    for trace in traces:
        sequences = []
        for sequence in trace:
            logprobs = np.full(len(sequence.token_ids), np.nan, dtype=np.float32)
            with torch.no_grad():
                scored = plain_action_logprobs(model, sequence)
            logprobs[sequence.action_mask] = np.minimum(scored.numpy(), 0)
            sequences.append(replace(sequence, behavior_logprobs=logprobs, behavior_version=version))
        served.append(tuple(sequences))
    return served


def trace_rows(trace, *, hours=1, **changes):
    """The rows of `traces` for one trace that ended so many hours before NOW."""
    return [_row(sequence, len(trace), NOW - timedelta(hours=hours)) | changes for sequence in trace]


def _row(sequence, num_sequences, ended_at):
    actions = np.flatnonzero(sequence.action_mask)
    start, end = int(actions[0]), int(actions[-1]) + 1
    call = f"{sequence.trace_id}-{sequence.sequence_index}"
    return {
        "trace_id": sequence.trace_id,
        "trace_revision": sequence.trace_revision,
        "sequence_index": sequence.sequence_index,
        "num_sequences": num_sequences,
        "num_calls": num_sequences,
        "branch_kind": "main",
        "token_ids": sequence.token_ids.tolist(),
        "token_logprobs": [None if np.isnan(value) else float(value) for value in sequence.behavior_logprobs],
        "action_mask": sequence.action_mask.tolist(),
        "spans": [{"call_id": call, "call_index": 0, "start": start, "end": end, "owned": True, "fault": None}],
        "version_spans": [{"policy_version": sequence.behavior_version, "start": start, "end": end}],
        "prompt_length": start,
        "num_action_tokens": len(actions),
        "logprob_kind": "processed",
        "logprob_exact": True,
        "temperature": sequence.temperature,
        "top_p": 1.0,
        "top_k": -1,
        "policy_version_min": sequence.behavior_version,
        "policy_version_max": sequence.behavior_version,
        "truncated": False,
        "faults": [],
        "started_at": ended_at,
        "ended_at": ended_at,
        "split": "train",
        "ingested_at": NOW,
    }


OPTIMIZATION = Optimization(
    learning_rate=1e-3,
    schedule="constant",
    warmup_updates=0,
    num_updates=10,
    betas=(0.9, 0.999),
    weight_decay=0.0,
    max_grad_norm=1e9,
)
"""A plain step on every batch: no schedule, no decay, no clip."""


def facts(rewards):
    """What a learner is told of traces with these rewards."""
    return {trace_id: Facts(reward) for trace_id, reward in rewards.items()}


def land(lake, traces, **changes):
    """Put these traces into the lake; the first one ended last."""
    rows = [row for hours, trace in enumerate(traces, 1) for row in trace_rows(trace, hours=hours, **changes)]
    with lake.transaction() as transaction:
        transaction.append("traces", rows)


def model_settings(base, adapters=()):
    """Settings with the base as v0 and an adapter for each later version; the last one is current."""
    versions = [None, *adapters]
    return ModelSettings(
        base=base,
        policies=tuple(
            PolicySettings(
                version=f"v{step}",
                optimizer_step=step,
                adapter=adapter,
                parent=f"v{step - 1}" if step else None,
                state="current" if step == len(versions) - 1 else "retired",
            )
            for step, adapter in enumerate(versions)
        ),
    )


def admit(lake, rewards, *, run_id="r", revision=0):
    """Verdicts that admit these traces with these rewards in that run."""
    rows = [
        {
            "run_id": run_id,
            "trace_id": trace_id,
            "trace_revision": revision,
            "verdict": "admitted",
            "reasons": [],
            "stage": "trained_on",
            "reward": reward,
            "age_hours": 1.0,
            "gate_sha256": "0",
            "decided_at": NOW,
        }
        for trace_id, reward in rewards.items()
    ]
    with lake.transaction() as transaction:
        transaction.append("verdicts", rows)


def score(lake, trace, policy, *, behavior="v1", drift=0.0, index=0, num_tokens=1, logprobs=(None, None, -1.0)):
    """A row of `rescored` for one sequence, in a transaction of its own."""
    row = {
        "trace_id": trace,
        "trace_revision": 0,
        "sequence_index": index,
        "policy_version": policy,
        "behavior_version": behavior,
        "logprobs": list(logprobs),
        "num_action_tokens": num_tokens,
        "mean_bernoulli_kl": drift,
        "mean_abs_log_ratio": drift,
        **dict.fromkeys(("k1", "k2", "k3", "m2", "max_ratio", "sequence_log_ratio"), 1.0),
        "run_id": "r",
        "scored_at": NOW,
    }
    with lake.transaction() as transaction:
        transaction.append("rescored", [row])
