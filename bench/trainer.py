"""How fast do logged traces become a gradient of the weights, and in how much memory? Against TRL and verl, in one run.

    python bench/trainer.py [--only lengths|prefix|memory|growth] [--runs 3] [--threads 1]

One policy-gradient step on every side: forward pass, loss with a coefficient a token, backward pass to the gradient of
every weight (no LoRA, no activation checkpointing). The optimizer's step is in none of them: it is the same for all.
Ours packs, computes figures and entropies inside of what is timed; TRL its entropies and figures; what TRL pads
beforehand is not timed. All sides have the same random weights, tokens, masks, logged log-probabilities and advantages,
and each gradient is compared with ours before a ratio is printed. Sides take turns; CPU seconds, their median.

"lengths" and "prefix" have a vocabulary of 256, so that next to nothing is spent on the head: traces of all lengths
with nothing in common, and traces that begin with one system prompt. "memory" has 151,936 words and one process a side:
the highest resident memory of a step above what was held before it. "growth" tells both by tokens, by length and by
vocabulary.

TRL and verl want other versions of what is installed here, so they go into an environment of their own, without their
dependencies. A peer that is not installed is named as such; where neither is, a padded forward pass of plain
transformers stands in for them:

    python -m venv /tmp/bench; . /tmp/bench/bin/activate
    pip install -c constraints.txt torch; pip install -c constraints.txt -e .
    pip install --no-deps -r bench/peers.txt -r bench/peers_trainer.txt; python bench/trainer.py

All of it takes some six minutes of one core with the peers. Neither of them packs here: TRL never does in this trainer,
verl needs flash-attn for it, which needs a GPU; what verl does without it is measured too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import trainer_peers
from torch import Tensor
from trainer_work import (
    BUDGET,
    ROWS,
    Draw,
    Logs,
    Naive,
    Ours,
    Shape,
    Side,
    draw,
    gradients_of,
    order,
    peak_mib,
    relative_difference,
)

from train import attention

AGREES = 1e-4
"""Largest relative difference of a loss or a gradient at which a ratio is told. Float32 alone makes 1e-6."""

LARGE = 151_936
"""Words of Qwen2.5's vocabulary."""

FASTER = {"arrival order": 2.0, "length buckets": 1.5, "shared": 3.0, "memory": 2.0}
"""Goals: times as fast as a side with that order, or, by memory, times less."""

VARIED = Draw()
SHARED = Draw(num_traces=16, shared=400, prompt=20, completion=90)
FEW = Draw(num_traces=8)
"""Traces of one micro-batch, for the large vocabulary."""

Making = Callable[[Shape, Logs], Side]


def _trl(*, by_length: bool, rows: int = ROWS) -> Making:
    return lambda shape, logs: trainer_peers.Trl(shape.model("sdpa"), logs, by_length=by_length, rows=rows)


def _verl(*, by_length: bool, packs: bool = False) -> Making:
    return lambda shape, logs: trainer_peers.Verl(shape.model("sdpa"), logs, by_length=by_length, packs=packs)


def _naive(*, by_length: bool) -> Making:
    return lambda shape, logs: Naive(shape.model("sdpa"), logs, by_length=by_length)


OURS: Making = lambda shape, logs: Ours(shape.model(attention.VARLEN), logs)  # noqa: E731 - like those beside it


@dataclass(frozen=True)
class Contestant:
    """A side that can be built, the peer it needs, and the order of traces that a goal is about."""

    making: Making
    peer: str = ""
    judged: str = ""


ARRIVAL, BUCKETS = order(by_length=False), order(by_length=True)

SPEED = (
    Contestant(OURS),
    Contestant(_trl(by_length=False), "TRL", ARRIVAL),
    Contestant(_trl(by_length=True), "TRL", BUCKETS),
    Contestant(_verl(by_length=False), "verl", ARRIVAL),
    Contestant(_verl(by_length=True), "verl", BUCKETS),
    Contestant(_verl(by_length=False, packs=True), "verl"),
    Contestant(_naive(by_length=False), "", ARRIVAL),
    Contestant(_naive(by_length=True), "", BUCKETS),
)

PREFIX = tuple(each for each in SPEED if (each.peer, each.judged) != ("verl", BUCKETS))
"""Sides for traces that begin alike and so are alike in length: order changes little, and is tried on one peer."""

MEMORY = {
    "ours": Contestant(OURS),
    "TRL": Contestant(_trl(by_length=False), "TRL", "memory"),
    "TRL, one trace at a time": Contestant(_trl(by_length=False, rows=1), "TRL"),
    "verl": Contestant(_verl(by_length=False), "verl", "memory"),
    "plain transformers": Contestant(_naive(by_length=False), "", "memory"),
}


@dataclass
class Timed:
    """A side, its times, and how far its loss and gradients are from ours."""

    side: Side
    judged: str = ""
    seconds: list[float] = field(default_factory=list)
    off: tuple[float, float] = (0.0, 0.0)

    def once(self) -> float:
        """Run a step, keep its CPU seconds, return its loss."""
        begun = time.process_time()
        loss = self.side.step()
        self.seconds.append(time.process_time() - begun)
        return loss

    @property
    def middle(self) -> float:
        """Median CPU seconds."""
        return statistics.median(self.seconds)

    @property
    def agrees(self) -> bool:
        """Whether it did the same work as ours."""
        return max(self.off) < AGREES


def installed(contestants: Sequence[Contestant]) -> list[Contestant]:
    """Ours, which is first, and the peers that are here; where none is, plain transformers stands in for them."""
    peers = [each for each in contestants if each.peer and not trainer_peers.missing(each.peer)]
    return [contestants[0], *(peers or [each for each in contestants[1:] if not each.peer])]


def race(contestants: Sequence[Contestant], shape: Shape, logs: Logs, num_runs: int) -> list[Timed]:
    """All sides in turns, ours first; the first turn checks and is not kept."""
    timed = [Timed(each.making(shape, logs), each.judged) for each in contestants]
    own_loss, own = 0.0, dict[str, Tensor]()
    for number, each in enumerate(timed):
        loss, gradients = each.once(), gradients_of(each.side.model)
        if number == 0:
            own_loss, own = loss, gradients
        each.off = abs(loss - own_loss) / abs(own_loss), relative_difference(own, gradients)
        each.seconds.clear()
    for _ in range(num_runs):
        for each in timed:
            each.once()
    return timed


def verdict(ratio: float, goal: float | None) -> str:
    """Whether a goal was met, in words; nothing without a goal."""
    if goal is None:
        return ""
    return f"   goal {goal:g}: {'met' if ratio >= goal else f'MISSED, {ratio / goal:.0%} of it'}"


def tell(timed: Sequence[Timed], logs: Logs, *, goal: str = "") -> None:
    """One line a side; `goal` names the goal of all of them where the order does not."""
    ours = timed[0]
    for each in timed:
        line = f"  {each.side.name:<42} {each.side.num_slots / logs.num_tokens:5.2f} slots a token"
        line += f" {each.middle:7.2f} s {logs.num_tokens / each.middle:8,.0f} tokens/s"
        if each is not ours:
            line += f"   loss differs by {each.off[0]:.0e}, gradients by {each.off[1]:.0e}"
            judged = (goal or each.judged) if each.judged else ""
            ratio = each.middle / ours.middle
            told = f": ours is {ratio:.2f} times as fast{verdict(ratio, FASTER.get(judged))}"
            line += told if each.agrees else ": NOT THE SAME WORK, so no ratio"
        print(line, flush=True)


def _tell_of(logs: Logs) -> str:
    lengths = sorted(len(sequence.token_ids) for sequence in logs.sequences)
    return (
        f"{len(lengths)} traces, {logs.num_tokens:,} tokens, {logs.num_actions / logs.num_tokens:.0%} of them actions, "
        f"lengths {lengths[0]} to {lengths[-1]}, median {statistics.median(lengths):g}"
    )


def compare_speed(how: Draw, num_runs: int) -> None:
    """The sides on such traces, the vocabulary's cost taken out."""
    shape = Shape()
    logs = draw(how, shape.vocabulary)
    shared = f"one system prompt of {how.shared} tokens" if how.shared else "no common beginning"
    print(f"\n{shared}: {_tell_of(logs)}; vocabulary {shape.vocabulary}")
    timed = race(installed(PREFIX if how.shared else SPEED), shape, logs, num_runs)
    tell(timed, logs, goal="shared" if how.shared else "")


def _in_a_process(*arguments: str) -> list[float]:
    command = [sys.executable, __file__, *arguments]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found: list[float] = json.loads(told.stdout.splitlines()[-1])
    return found


def compare_memory() -> None:
    """Peak memory of each side at a large vocabulary, in a process of its own."""
    logs = draw(FEW, LARGE)
    size = sum(each.numel() for each in Shape(vocabulary=LARGE).model("sdpa").parameters())
    print(
        f"\nmemory: {_tell_of(logs)}; vocabulary {LARGE:,}; {ROWS} traces at a time, ours in packs of {BUDGET} slots\n"
        f"  gradients alone are {size * 4 / 2**20:.0f} MiB on every side"
    )
    own, entered = 0.0, installed(list(MEMORY.values()))
    for name, each in MEMORY.items():
        if each not in entered:
            continue
        (used,) = _in_a_process("--peak", name)
        own = own or used
        told = f"   ours takes {own / used:.2f} of it{verdict(used / own, FASTER.get(each.judged))}"
        print(f"  {name:<42} {used:7,.0f} MiB above start{'' if name == 'ours' else told}", flush=True)


@dataclass(frozen=True)
class Setting:
    """One row of a table of growth."""

    axis: str
    value: str
    how: Draw
    vocabulary: int = 256

    @property
    def shape(self) -> Shape:
        """The model, with this vocabulary."""
        return Shape(vocabulary=self.vocabulary)


GROWTH = (
    *(Setting("tokens", f"{number} traces", Draw(num_traces=number)) for number in (6, 12, 24)),
    *(
        Setting("length", f"{number} traces", Draw(num_traces=number, prompt=prompt, completion=completion))
        for number, prompt, completion in ((24, 25, 65), (12, 50, 130), (6, 100, 260))
    ),
    *(Setting("vocabulary", f"{words:,} words", Draw(num_traces=2), words) for words in (256, 8_192, 32_768, LARGE)),
)


def _rivals() -> dict[str, Contestant]:
    """Ours, and the first peer that is there."""
    entered = installed(list(MEMORY.values()))[:2]
    return {name: each for name, each in MEMORY.items() if each in entered}


def compare_growth(num_runs: int) -> None:
    """Seconds and memory by tokens, by length and by vocabulary, against one peer in arrival order."""
    rivals = _rivals()
    other = list(rivals)[1]
    peaks = {name: _in_a_process("--peaks", name) for name in rivals}
    print(f"\ngrowth, ours against {other} in arrival order; memory is that of a step above start")
    print(f"  {'':<26} {'tokens':>7} {'longest':>7} {'ours':>15} {other:>18}   ratio")
    for number, setting in enumerate(GROWTH):
        logs = draw(setting.how, setting.vocabulary)
        ours, theirs = race(list(rivals.values()), setting.shape, logs, num_runs)
        own, other_peak = (peaks[name][number] for name in rivals)
        longest = max(len(sequence.token_ids) for sequence in logs.sequences)
        line = f"  {setting.axis:<11}{setting.value:<15} {logs.num_tokens:7,} {longest:7,}"
        line += f" {ours.middle:5.2f} s {own:5,.0f} MiB {theirs.middle:6.2f} s {other_peak:7,.0f} MiB"
        agreed = f"   {theirs.middle / ours.middle:.2f} times the time, {other_peak / own:.2f} times the memory"
        print(line + (agreed if theirs.agrees else "   NOT THE SAME WORK, so no ratio"), flush=True)


def _print_peaks(name: str, settings: Sequence[Setting]) -> None:
    """What a process of its own is asked for."""
    print(json.dumps([peak_mib(MEMORY[name].making(each.shape, draw(each.how, each.vocabulary))) for each in settings]))


def _tell_where() -> None:
    shape = Shape()
    print(
        f"one policy-gradient step, all weights, without the optimizer's; {shape.layers} layers of {shape.hidden}, "
        f"float32, CPU, torch {torch.__version__}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f} on "
        f"{os.cpu_count()} cores; CPU seconds, medians"
    )
    for peer in trainer_peers.MODULES:
        if trainer_peers.missing(peer):
            print(trainer_peers.missing(peer))


def main() -> None:
    """Compare speed, memory and growth, or one part of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("lengths", "prefix", "memory", "growth"), help="one part")
    parser.add_argument("--runs", type=int, default=3, help="steps of each side, after one that is checked")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    parser.add_argument("--peaks", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.peak:
        return _print_peaks(given.peak, [Setting("", "", FEW, LARGE)])
    if given.peaks:
        return _print_peaks(given.peaks, GROWTH)
    _tell_where()
    for part, how in (("lengths", VARIED), ("prefix", SHARED)):
        if given.only in (None, part):
            compare_speed(how, given.runs)
    if given.only in (None, "memory"):
        compare_memory()
    if given.only in (None, "growth"):
        compare_growth(max(1, given.runs - 1))
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")
    return None


if __name__ == "__main__":
    main()
