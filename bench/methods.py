"""How fast does a batch become a gradient? Against whileai's updates and the losses of verl and TRL, in one run.

    python bench/methods.py [--tokens 1000000] [--threads 1] [--runs 9] [--only grpo] [--device cpu] [--cpu-time]
    python bench/methods.py --memory [--only grpo]

Timed on every side: from log-probabilities that carry a graph, those of the behavior policy, mask and rewards, to the
gradient with respect to the former. Ours is `with_logprobs`, `update` and `loss(...).backward()`, with every check,
figure and note; theirs are the loss functions that they train with, called as they are, their figures too. Drifts and
advantages, ratios and weights on the axis of all tokens are made when they are asked for, which a loss does not. What a
side needs to be laid out beforehand is timed apart: of ours the batch, with its axis of action tokens and the logged
numbers on it. Sides take turns, each first in its turn, and the best and the median of the runs are told.

Peers compute on [traces, longest trace] with padding. "padding-free" calls the same functions on [1, tokens], which
spares them the padding wherever a function looks at no trace as such. Each gradient is compared with ours.

whileai (the extra `bench`) is pure Python: it is timed on 20,000 tokens and scaled. verl and TRL want other versions of
what is installed here, so they go into an environment of their own, without their dependencies; a peer that is not
installed is named as such, and the others are measured:

    python -m venv /tmp/bench; . /tmp/bench/bin/activate
    pip install -c constraints.txt torch; pip install -c constraints.txt -e '.[bench]'
    pip install --no-deps -r bench/peers.txt; python bench/methods.py

`--cpu-time` counts the seconds that the process had a core instead of those that passed, on a machine that others use
too: for one thread and no accelerator. `--memory` tells our peak memory over 0.25, 0.5, 1 and 2 million tokens instead,
each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from method_peers import CAP, EPSILON, Layout, Loss, Traces, Trl, Verl, draw
from torch import Tensor

from train.batch import Batch
from train.methods.baselines import GRPO
from train.methods.bpco import BPCO
from train.methods.catalog import METHODS, Method
from train.methods.corrections import CISPO, DPPOKL, DPPOTV, PPO, TIS
from train.methods.sao import SAO

SCALED_TOKENS = 20_000
"""Tokens on which whileai is timed."""

READS_RECORDS = ("klpo",)
"""Methods that are given the recorded draws."""

PADDED_RUNS = 3
"""Runs of a side that computes on padding, at most: it is slow, and its figure need not be sharp."""

MEMORY_SIZES = (250_000, 500_000, 1_000_000, 2_000_000)


@dataclass(frozen=True)
class Contest:
    """A method, and what computes the same gradient elsewhere: from verl and TRL to the loss."""

    title: str
    method: Method
    verl: Callable[[Verl], Loss] | None = None
    trl: Callable[[Trl], Loss] | None = None


def _grouped(correction: Any) -> GRPO:
    return GRPO(epsilon=EPSILON, correction=correction)


CONTESTS = (
    Contest(
        "grpo, ppo",
        _grouped(PPO(dual=CAP)),
        lambda verl: verl.clipped("vanilla", 0.2, 0.2),
        lambda trl: trl.clipped("bnpo", 0.2, 0.2),
    ),
    Contest(
        "grpo, cispo",
        _grouped(CISPO(low=1.0, high=0.28)),
        lambda verl: verl.clipped("cispo", 1.0, 0.28),
        lambda trl: trl.clipped("cispo", 1.0, 1.28),
    ),
    Contest("grpo, tis", _grouped(TIS(high=2.0)), lambda verl: verl.weighted(2.0)),
    Contest("grpo, dppo_tv", _grouped(DPPOTV(truncate=CAP)), lambda verl: verl.clipped("dppo_tv", 0.15, 0.15)),
    Contest("grpo, dppo_kl", _grouped(DPPOKL()), lambda verl: verl.clipped("dppo_kl", 0.05, 0.05)),
    Contest("bpco", BPCO(), lambda verl: verl.clipped_with_critic("dppo_tv", 0.2)),
    Contest("sao", SAO(gae_alpha=BPCO().gae_alpha), lambda verl: verl.weighted("0.7_6.0", critic=True)),
    *(
        Contest(name, kind())
        for name, kind in METHODS.items()
        if name not in ("grpo", "bpco", "sao")  # Above, with what a peer has in common with them.
    ),
)


@dataclass
class Side:
    """One way from log-probabilities to their gradient, and how long it took."""

    name: str
    laid_out: Tensor
    run: Callable[[Tensor], None]
    packed: Callable[[Tensor], Tensor]
    max_runs: int = 10**6
    seconds: list[float] = field(default_factory=list)
    gradient: Tensor | None = None

    def once(self) -> None:
        """Run it, and keep its time and its gradient."""
        logprobs = self.laid_out.clone().requires_grad_()
        begun = _now(logprobs)
        self.run(logprobs)
        took = _now(logprobs) - begun
        self.seconds.append(sum(self.run.phases[-1]) if isinstance(self.run, Ours) else took)
        if self.gradient is None and logprobs.grad is not None:
            self.gradient = self.packed(logprobs.grad)


CLOCK = {"read": time.perf_counter}
"""What all sides are timed with."""


def _now(tensor: Tensor) -> float:
    if tensor.is_cuda:
        torch.cuda.synchronize()
    return CLOCK["read"]()


class Ours:
    """A method on a batch, phase by phase; with the logprobs of the recorded tokens if it reads those."""

    def __init__(self, method: Method, batch: Batch, recorded: Tensor | None = None) -> None:
        self._method, self._batch, self._recorded = method, batch, recorded
        self.phases: list[tuple[float, float, float]] = []

    def __call__(self, logprobs: Tensor) -> None:
        """From log-probabilities to their gradient."""
        recorded = None if self._recorded is None else self._recorded.clone().requires_grad_()
        times = [_now(logprobs)]
        scored = self._batch.with_logprobs(logprobs, recorded)
        times.append(_now(logprobs))
        update = self._method.update(scored)
        times.append(_now(logprobs))
        update.loss(logprobs, recorded).backward()
        times.append(_now(logprobs))
        self.phases.append((times[1] - times[0], times[2] - times[1], times[3] - times[2]))

    def shares(self) -> str:
        """The phases of the quickest run, as shares of it."""
        best = min(self.phases, key=sum)
        names = ("with_logprobs", "update", "loss and backward")
        return ", ".join(f"{name} {part / sum(best):.0%}" for name, part in zip(names, best, strict=True))


def _peer_side(name: str, loss: Loss, layout: Layout) -> Side:
    def run(logprobs: Tensor) -> None:
        loss(layout, logprobs).backward()  # type: ignore[no-untyped-call]

    way = "padded" if layout.padded else "padding-free"
    runs = PADDED_RUNS if layout.padded else 10**6
    return Side(f"{name}, {way}", layout.current, run, layout.packed, runs)


def _ready(method: Method, traces: Traces, batch: Batch) -> Ours:
    """A method on a batch, which gets the records that it needs."""
    if method.name not in READS_RECORDS:
        return Ours(method, batch)
    records, recorded = traces.draws()
    return Ours(method, traces.batch(records), recorded)


def compete(contest: Contest, batch: Batch, layouts: list[Layout], peers: dict[str, Any], num_runs: int) -> None:
    """All sides of a contest, in turns."""
    ours = _ready(contest.method, layouts[0].traces, batch)
    sides = [Side("ours", layouts[0].traces.current, ours, lambda gradient: gradient)]
    for name, found in peers.items():
        making = getattr(contest, name)
        if making is not None and not isinstance(found, str):
            sides += [_peer_side(found.name, making(found), layout) for layout in layouts]
    for run in range(num_runs + 1):
        first = run % len(sides)  # Whoever comes after a padded side finds the cache cold and the memory given back.
        for side in sides[first:] + sides[:first]:
            if run <= side.max_runs:
                side.once()
    _tell(contest, sides, ours, peers, len(batch.action_mask))


def _tell(contest: Contest, sides: list[Side], ours: Ours, peers: dict[str, Any], num_tokens: int) -> None:
    print(f"\n{contest.title}")
    best, middle = min(sides[0].seconds[1:]), statistics.median(sides[0].seconds[1:])  # The first run warms up.
    for side in sides:
        own, own_middle = min(side.seconds[1:]), statistics.median(side.seconds[1:])
        line = f"  {side.name:<19} {own * 1e3:8.1f} ms best {own_middle * 1e3:8.1f} median"
        line += f" {num_tokens / own / 1e6:7.1f} M tokens/s"
        if side is not sides[0] and side.gradient is not None and sides[0].gradient is not None:
            off = float((side.gradient - sides[0].gradient).abs().max() / sides[0].gradient.abs().max())
            line += f"   ours is {own / best:6.2f} times as fast ({own_middle / middle:.2f} by medians)"
            line += f", gradients differ by {off:.1g}"
        print(line)
    print(f"    of ours: {ours.shares()}")
    for name, found in peers.items():
        if getattr(contest, name) is None:
            continue
        if isinstance(found, str):
            print(f"  {found}")


def against_whileai(traces: Traces, batch: Batch, num_runs: int) -> None:
    """The three methods that whileai has as well."""
    if find_spec("whileai") is None:
        print("\nwhileai: not installed, so not measured: pip install -e '.[bench]'")
        return
    import whileai

    small = draw(SCALED_TOKENS)
    rows, num_small, num = small.rows(), len(small.mask), len(traces.mask)
    print(f"\nagainst whileai (pure Python, {num_small:,} tokens, scaled to {num:,})")
    theirs = {"flash_reinforce": whileai.FlashReinforce(), "sao": whileai.SAO(), "bpco": whileai.BPCO()}
    for name, peer in theirs.items():
        ours, seconds = Ours(METHODS[name](), batch), []
        for _ in range(num_runs + 1):
            begun = CLOCK["read"]()
            peer.update(rows)
            seconds.append((CLOCK["read"]() - begun) * num / num_small)
            ours(traces.current.clone().requires_grad_())
        best, own = min(seconds[1:]), min(sum(phases) for phases in ours.phases[1:])
        middle = statistics.median(seconds[1:]) / statistics.median(sum(phases) for phases in ours.phases[1:])
        print(
            f"  {name:<16} theirs {best:6.2f} s, {num / best / 1e6:5.2f} M tokens/s   ours {own * 1e3:6.1f} ms, "
            f"{num / own / 1e6:5.1f} M tokens/s   ours is {best / own:,.0f} times as fast ({middle:,.0f} by medians)"
        )


def _installed() -> dict[str, Any]:
    """The peers, or what to say of one that is not there."""
    found: dict[str, Any] = {}
    for kind in (Verl, Trl):
        missing = [module for module in kind.modules if find_spec(module) is None]
        field_name = kind.name.lower()
        if missing:
            way_out = "pip install --no-deps -r bench/peers.txt"
            found[field_name] = f"{kind.name}: not installed ({', '.join(missing)}), so not measured: {way_out}"
        else:
            found[field_name] = kind()
    return found


def peak(method: str, num_tokens: int) -> None:
    """Print the memory that one update takes beyond the batch, in MiB."""
    traces = draw(num_tokens)
    ours = _ready(METHODS[method](), traces, traces.batch())
    Path("/proc/self/clear_refs").write_text("5")  # Sets the peak back to what is held now.
    held = _resident("VmRSS")
    ours(traces.current.clone().requires_grad_())
    print(json.dumps({"held": held, "peak": _resident("VmHWM") - held}))


def _resident(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def compare_memory(only: str | None) -> None:
    """Peak memory by tokens, each in a process of its own."""
    print("peak memory of an update beyond its batch, in MiB, and in bytes a token")
    for method in METHODS:
        if only not in (None, method):
            continue
        cells = []
        for size in MEMORY_SIZES:
            command = [sys.executable, __file__, "--peak", method, "--tokens", str(size)]
            told = subprocess.run(command, check=True, capture_output=True, text=True)
            used = json.loads(told.stdout.splitlines()[-1])["peak"]
            cells.append(f"{size / 1e6:g} M: {used:6.0f} ({used * 2**20 / size:4.0f})")
        print(f"  {method:<16} " + "   ".join(cells))


def compare(given: argparse.Namespace) -> None:
    """Every contest over one batch."""
    begun = time.perf_counter()
    traces = draw(given.tokens, given.device)
    drawn = time.perf_counter()
    batch = traces.batch()
    built = time.perf_counter()
    layouts = [Layout(traces, padded=padded) for padded in (False, True)]
    laid_out = time.perf_counter()
    cells = layouts[1].mask.numel()
    print(
        f"{given.tokens:,} tokens in {len(traces.lengths):,} traces, the longest of {int(traces.lengths.max()):,}, "
        f"{int(traces.mask.sum()) / given.tokens:.0%} action tokens; {cells / given.tokens:.1f} cells a token when "
        f"padded\n{batch.dtype}, {given.device}, torch {torch.__version__}, {torch.get_num_threads()} threads, load "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\nnot timed below: drawing {drawn - begun:.2f} s, the "
        f"batch {(built - drawn) * 1e3:.0f} ms, the peers' layouts {(laid_out - built) * 1e3:.0f} ms"
    )
    print(f"times below are those {'on a core' if given.cpu_time else 'that passed'}")
    peers = _installed()
    for contest in CONTESTS:
        if given.only in contest.title:
            compete(contest, batch, layouts, peers, given.runs)
    against_whileai(traces, batch, given.runs)
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")


def main() -> None:
    """Compare speeds or memory, or run one method once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="tokens on the packed axis")
    parser.add_argument("--threads", type=int, help="torch threads; the default is torch's own")
    parser.add_argument("--runs", type=int, default=9, help="runs of each side, after one that warms up")
    parser.add_argument("--only", default="", help="only contests with this in their title")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--cpu-time", action="store_true", help="seconds on a core, for a machine that is shared")
    parser.add_argument("--memory", action="store_true", help="peak memory instead")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    if given.cpu_time:
        CLOCK["read"] = time.process_time
    if given.peak:
        peak(given.peak, given.tokens)
    elif given.memory:
        compare_memory(given.only or None)
    else:
        compare(given)


if __name__ == "__main__":
    main()
