"""What does age cost? Expected reward after a fixed number of updates, by how old the traces are, for each method.

    python bench/lag.py [--seeds 12] [--first-seed 1000] [--lags 0 1 2 4 8 16 32] [--write]

A policy that is a table of probabilities begins with a strong habit of one wrong word at each place, as a served policy
has habits, and learns from single tries by plain gradient ascent. Each batch was written by the policy of so many
updates before, or by the first one while there are fewer: at lag 32 that is more than half of them. The baseline is
REINFORCE without a correction, which takes old traces for new ones. Means over seeds
with the 95% interval of Student's t, and of each method its paired difference to the baseline on the same seeds.

A table says which mechanism acts at which age, and nothing about a language model: methods differ in their baselines
too, and critics of eighteen numbers are not critics. `--write` puts the tables into docs/lag.md, whose prose stays, and
the curves into docs/lag.svg.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from train.batch import Batch
from train.methods import BPCO, BPO, GRPO, KLPO, RAE, SAO, FlashReinforce, Method, Reinforce, after
from train.records import Records

NUM_ASKS, NUM_WORDS, NUM_PLACES = 6, 8, 3
HABIT = 2.0
"""Logit of the wrong word that the first policy prefers: it says it half the time, and the right one in 1 of 14."""
NUM_TRACES, NUM_UPDATES = 128, 60
LEARNING_RATE = 12.0
"""Of 4 and 12, the one at which the baseline leaves its habit within those updates. Convention, untested otherwise."""
CRITIC_RATE = 0.3

STUDENT = {7: 2.365, 9: 2.262, 11: 2.201, 15: 2.131, 23: 2.069, 31: 2.040}
"""97.5% point of Student's t by degrees of freedom, from its tables."""

FIRST_SEED = 1000
"""The learning rate and the scale of this world were settled on seeds 0 to 15; these are others."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A method, and what its coefficients are scaled by so that all have the step of a mean over tokens."""

    name: str
    method: Method
    scale: float = 1.0
    kind: str | None = None
    """Records that its batches carry."""


BASELINE = Contestant("reinforce, none", Reinforce(aggregation="trace_mean"))

_PER_TOKEN = 1.0 / NUM_PLACES

CONTESTANTS = (
    BASELINE,
    Contestant("reinforce, tis", Reinforce(aggregation="trace_mean", correction="tis")),
    Contestant("reinforce, ppo", Reinforce(aggregation="trace_mean", correction="ppo")),
    Contestant("reinforce, dppo_tv", Reinforce(aggregation="trace_mean", correction="dppo_tv")),
    Contestant("flash_reinforce, 0.003", FlashReinforce(overflow="clamp")),
    Contestant("flash_reinforce, 0.05", FlashReinforce(trust=0.05, overflow="clamp")),
    Contestant("flash_reinforce, open", FlashReinforce(trust=math.inf, overflow="clamp")),
    Contestant("sao, coding band", SAO(band=(0.2, 4.0))),
    Contestant("bpco", BPCO(), _PER_TOKEN),
    Contestant("klpo, exact", KLPO(centering="exact"), _PER_TOKEN, "full"),
    Contestant("klpo, binary", KLPO(centering="binary", certain="floor"), _PER_TOKEN),
    Contestant("bpo, practical", BPO()),
    Contestant("bpo, exact residual", BPO(form="exact_residual", certain="floor"), _PER_TOKEN),
    Contestant("grpo, ppo", GRPO(aggregation="trace_mean")),
    Contestant("rae, none", RAE(aggregation="trace_mean")),
)


def learn(contestant: Contestant, *, lag: int, seed: int, num_updates: int = NUM_UPDATES) -> float:
    """Expected share of right words after the updates, every batch written `lag` updates ago."""
    random = torch.Generator().manual_seed(seed)
    right = torch.randint(NUM_WORDS, (NUM_ASKS, NUM_PLACES), generator=random)
    habit = (right + torch.randint(1, NUM_WORDS, right.shape, generator=random)) % NUM_WORDS
    logits = torch.zeros(NUM_ASKS, NUM_PLACES, NUM_WORDS).scatter_(-1, habit[..., None], HABIT).requires_grad_()
    critic, past, method = torch.full((NUM_ASKS, NUM_PLACES), 0.1), [logits.detach().clone()], contestant.method
    for number in range(num_updates):
        asks = torch.randint(NUM_ASKS, (NUM_TRACES,), generator=random)
        written = torch.log_softmax(past[max(0, number - lag)], -1)[asks]
        words = torch.multinomial(written.exp().reshape(-1, NUM_WORDS), 1, generator=random).reshape(-1, NUM_PLACES)
        rewards = (words == right[asks]).float().mean(1)
        now = torch.log_softmax(logits, -1)[asks]
        batch = _batch(contestant, asks, rewards, _picked(written, words), critic[asks].flatten(), written)
        logprobs = _picked(now, words)
        recorded = now.reshape(-1, NUM_WORDS) if contestant.kind else None
        update = method.update(batch.with_logprobs(logprobs.detach(), None if recorded is None else recorded.detach()))
        loss = update.loss(logprobs, recorded) if update.auxiliary_coefficients is not None else update.loss(logprobs)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
        method = after(method, update)
        with torch.no_grad():
            if logits.grad is not None:
                logits -= LEARNING_RATE * contestant.scale * logits.grad
                logits.grad.zero_()
            _teach(critic, asks, update.value_targets)
        past.append(logits.detach().clone())
    return float(torch.softmax(logits.detach(), -1).gather(-1, right[..., None]).mean())


def _picked(table: Tensor, words: Tensor) -> Tensor:
    """[B * places] the entries of the words that were said."""
    return table.gather(-1, words[..., None])[..., 0].flatten()


def _batch(
    contestant: Contestant, asks: Tensor, rewards: Tensor, behavior: Tensor, values: Tensor, written: Tensor
) -> Batch:
    num = len(asks)
    whole = Records(kind="full", behavior_logprobs=written.reshape(-1, NUM_WORDS))
    return Batch(
        trace_ids=tuple(map(str, range(num))),
        rewards=rewards,
        sequence_lengths=torch.full((num,), NUM_PLACES),
        sequence_traces=torch.arange(num),
        sequence_index=torch.zeros(num, dtype=torch.int64),
        action_mask=torch.ones(num * NUM_PLACES, dtype=torch.bool),
        behavior_logprobs=behavior,
        values=values,
        groups=asks,
        keys=tuple(map(str, asks.tolist())),
        records=whole if contestant.kind else None,
    )


def _teach(critic: Tensor, asks: Tensor, targets: Tensor | None) -> None:
    """Move the critic's table, by ask and place, towards what a method says it should have known."""
    if targets is None:
        return
    errors = targets.reshape(-1, NUM_PLACES) - critic[asks]
    counts = torch.bincount(asks, minlength=NUM_ASKS).clamp(min=1)[:, None]
    critic += CRITIC_RATE * torch.zeros_like(critic).index_add_(0, asks, errors) / counts


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half the 95% interval of Student's t."""
    return statistics.mean(values), STUDENT[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))


def difference(contestant: Contestant, *, lag: int, seeds: Sequence[int]) -> tuple[float, float]:
    """Mean over seeds of its reward less the baseline's on the same seed, and half the interval."""
    return interval([learn(contestant, lag=lag, seed=seed) - learn(BASELINE, lag=lag, seed=seed) for seed in seeds])


@dataclass(frozen=True, slots=True)
class Curve:
    """Of one contestant, by lag: mean and half the interval of its reward, and of its difference to the baseline."""

    name: str
    rewards: Mapping[int, tuple[float, float]]
    differences: Mapping[int, tuple[float, float]]


def curves(lags: Sequence[int], seeds: Sequence[int]) -> list[Curve]:
    """Of every contestant; each is printed when it is there."""
    of_baseline: dict[int, list[float]] = {}
    made = []
    for contestant in CONTESTANTS:
        rewards, differences = {}, {}
        for lag in lags:
            found = [learn(contestant, lag=lag, seed=seed) for seed in seeds]
            base = of_baseline.setdefault(lag, found)
            rewards[lag] = interval(found)
            differences[lag] = interval([own - other for own, other in zip(found, base, strict=True)])
        made.append(Curve(contestant.name, rewards, differences))
        _tell(contestant.name, rewards, "")
        if contestant is not BASELINE:
            _tell("  less the baseline", differences, "+")
    return made


def _tell(name: str, cells: Mapping[int, tuple[float, float]], sign: str) -> None:
    told = [f"{mean:{sign}.3f} +-{half:.3f}".rjust(17) for mean, half in cells.values()]
    print(name.ljust(24) + "".join(told), flush=True)


def main() -> None:
    """Print rewards and paired differences by lag, and write them down if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=12, choices=[degrees + 1 for degrees in STUDENT])
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--lags", type=int, nargs="+", default=[0, 1, 2, 4, 8, 16, 32])
    parser.add_argument("--write", action="store_true", help="write docs/lag.md and docs/lag.svg as well")
    options: Any = parser.parse_args()
    torch.set_num_threads(1)
    last = options.first_seed + options.seeds - 1
    head = f"expected share of right words after {NUM_UPDATES} updates, seeds {options.first_seed} to {last}"
    print(f"{head}, 95% intervals")
    print("method".ljust(24) + "".join(f"lag {lag}".rjust(17) for lag in options.lags))
    made = curves(options.lags, range(options.first_seed, last + 1))
    spent = f"{time.process_time():.0f} s of one core"
    print(spent)
    if options.write:
        from lag_page import write  # It lies beside this file when this is run, and a test needs none of it.

        command = f"python bench/lag.py --seeds {options.seeds} --first-seed {options.first_seed} --write"
        write(made, f"`{command}`, {datetime.now(tz=UTC).date()}, CPU, {spent}. {head.capitalize()}.")


if __name__ == "__main__":
    main()
