"""Whether training raises the pass rate: the parent and trained versions on asks that no trace has.

    python bench/gain.py sample URL RESULTS --models refund-desk@v109 refund-desk@seed0 ... [--asks 150] [--tries 4]
    python bench/gain.py expect BASE RESULTS/expected --adapters refund-desk@v109=FOLDER refund-desk@seed0=FOLDER ...
    python bench/gain.py table RESULTS --parent refund-desk@v109

`sample` has each served model try the same held-out asks with the same sampling seeds, at temperature 1, and writes
one JSON file a model into the folder RESULTS. One server can serve all of them: bench/serving.py says how, with several
`--lora-modules`. The asks have order numbers of R10 to R29, which the recordings leave out, and pairs of amounts that
no line of `--logs` has. The reward is the refund desk's own checker.

`expect` needs no server and no draw: the probability, under each adapter over BASE, of the one right trace that a human
would write (`LOOKUP R12`, then `3 + 4 = 7`). It bounds the pass rate from below, closely: of the 447 traces of
examples/refund_groups that passed, 437 are that one.

`table` prints pass rates and, against the parent, the paired difference by ask, averaged over tries. Its 95% interval
resamples asks, and for all versions together asks and versions (each a training seed) independently: Owen 2007's
pigeonhole bootstrap, which errs to the wide side. With few versions the spread between them is poorly known.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from refund_desk import SHOTS, Ask, attempts, draw_asks

from train.scoring import score_packs
from train.sequences import LoggedSequence

SHOWN = {int(number) for shot in SHOTS for number in re.findall(r"R(\d+)", shot["content"])}
ORDERS = tuple(f"R{number}" for number in range(10, 30) if number not in SHOWN)
LOGS = (Path("examples/refund_desk/logs"), Path("examples/refund_groups/logs"))
NUM_RESAMPLES = 10_000
RESULT = re.compile(r'"tool",\s*"content":\s*"R(\d+): (\d+) \+ (\d+) dollars"')
"""What the tool said, in a log line; the model says such things too, and those are no asks."""

Rates = npt.NDArray[np.float64]


def logged(folders: Sequence[Path]) -> tuple[frozenset[tuple[int, int]], frozenset[str]]:
    """The pairs of amounts and the order numbers that any line of these logs has, the shots' own left out."""
    pairs, orders = set(), set()
    for path in (path for folder in folders for path in sorted(folder.iterdir())):
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode(errors="replace")
        for order, first, second in RESULT.findall(text):
            pairs.add((int(first), int(second)))
            orders.add(int(order))
    return frozenset(pairs), frozenset(f"R{number}" for number in orders - SHOWN)


def sample(given: argparse.Namespace) -> None:
    """Try the held-out asks with each model; a model whose file is there is not asked again."""
    pairs, orders = logged(given.logs)
    if orders & set(ORDERS):
        raise SystemExit(f"orders {sorted(orders & set(ORDERS))} are in the logs; expected none; hold others out")
    asks = draw_asks(given.asks, seed=given.seed, orders=ORDERS, unlike=pairs, first=0)
    print(f"{len(asks)} asks of {len(ORDERS)} orders; {len(pairs)} pairs of amounts are in the logs, and left out")
    wanted = [
        (ask, given.seed + 17 * (at * given.tries + try_)) for at, ask in enumerate(asks) for try_ in range(given.tries)
    ]
    given.results.mkdir(parents=True, exist_ok=True)
    for model in given.models:
        path = given.results / f"{model}.json"
        if path.is_file():
            continue
        began = time.perf_counter()
        passes = [int(tried.passes) for tried in attempts(given.url, model, wanted)]
        path.write_text(json.dumps({"model": model, "tries": given.tries, "seed": given.seed, "passes": passes}) + "\n")
        print(f"{model}: {np.mean(passes):.3f} of {len(passes)} tries, {time.perf_counter() - began:.0f} s", flush=True)


def expect(given: argparse.Namespace) -> None:
    """Write the probability of the right trace of each held-out ask, for each adapter, in the form of `sample`."""
    from transformers import AutoTokenizer

    from train.agreement import open_policy
    from train.registry import ModelSettings

    tokenizer = AutoTokenizer.from_pretrained(given.base, local_files_only=True)
    pairs, _ = logged(given.logs)
    asks = draw_asks(given.asks, seed=given.seed, orders=ORDERS, unlike=pairs, first=0)
    traces = [right_trace(tokenizer, ask) for ask in asks]
    policy = open_policy(ModelSettings(base=given.base))
    given.results.mkdir(parents=True, exist_ok=True)
    for model, folder in (one.split("=", 1) for one in given.adapters):
        policy.use(Path(folder))
        sums = dict.fromkeys((ask.ask_id for ask in asks), 0.0)
        for pack, lists in score_packs(policy, traces, token_budget=4096):
            for sequence, scores in zip(pack.sequences, lists, strict=True):
                sums[sequence.trace_id] += float(scores.sum(dtype=np.float64))
        passes = [math.exp(total) for total in sums.values()]
        told = {"model": model, "tries": 1, "seed": given.seed, "passes": passes}
        (given.results / f"{model}.json").write_text(json.dumps(told) + "\n")
        print(f"{model}: {np.mean(passes):.4f} over {len(passes)} asks", flush=True)


def right_trace(tokenizer: Any, ask: Ask) -> tuple[LoggedSequence, ...]:
    """The right trace as two sequences, one a call: what is said in each are its actions."""
    asked = [*SHOTS, {"role": "user", "content": ask.text}]
    said = {"role": "assistant", "content": f"LOOKUP {ask.order}"}
    answer = f"{ask.amounts[0]} + {ask.amounts[1]} = {ask.answer}"
    told = [*asked, said, {"role": "tool", "content": ask.result}]
    return tuple(
        _sequence(tokenizer, messages, content, ask.ask_id, index)
        for index, (messages, content) in enumerate(((asked, said["content"]), (told, answer)))
    )


def _sequence(tokenizer: Any, messages: Any, content: str, trace: str, index: int) -> LoggedSequence:
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    prompt = tokenizer.encode(text, add_special_tokens=False)
    action = [*tokenizer.encode(content, add_special_tokens=False), tokenizer.eos_token_id]
    num = len(prompt) + len(action)
    return LoggedSequence(
        trace_id=trace,
        trace_revision=0,
        sequence_index=index,
        behavior_version=None,
        token_ids=np.array([*prompt, *action], dtype=np.int32),
        action_mask=np.arange(num) >= len(prompt),
        behavior_logprobs=np.full(num, np.nan, dtype=np.float32),
        temperature=1.0,
    )


def rates(path: Path) -> Rates:
    """[asks] share of an ask's tries that passed."""
    told: dict[str, Any] = json.loads(path.read_text())
    by_ask: Rates = np.array(told["passes"], dtype=np.float64).reshape(-1, told["tries"]).mean(1)
    return by_ask


def interval(differences: Rates, *, by_version: bool) -> tuple[float, float]:
    """95% interval of the mean of [versions, asks], asks resampled, and versions too where that is asked for."""
    source = np.random.default_rng(0)
    num_versions, num_asks = differences.shape
    means = np.empty(NUM_RESAMPLES)
    for number in range(NUM_RESAMPLES):
        picked = differences[:, source.integers(num_asks, size=num_asks)]
        if by_version:
            picked = picked[source.integers(num_versions, size=num_versions)]
        means[number] = picked.mean()
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def table(given: argparse.Namespace) -> None:
    """Print the table, as markdown."""
    parent = rates(given.results / f"{given.parent}.json")
    others = sorted(path for path in given.results.glob("*.json") if path.stem != given.parent)
    print(f"| version | pass rate, {len(parent)} asks | less {given.parent} | 95% |\n|---|---|---|---|")
    print(f"| {given.parent} | {parent.mean():.3f} | | |")
    differences = np.array([rates(path) - parent for path in others])
    for path, row in zip(others, differences, strict=True):
        low, high = interval(row[None], by_version=False)
        print(f"| {path.stem} | {(parent + row).mean():.3f} | {row.mean():+.3f} | {low:+.3f} to {high:+.3f} |")
    low, high = interval(differences, by_version=True)
    mean = differences.mean()
    print(f"| all {len(others)} | {(parent + differences).mean():.3f} | {mean:+.3f} | {low:+.3f} to {high:+.3f} |")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    sampling = commands.add_parser("sample", help="let served models try the held-out asks")
    sampling.add_argument("url")
    sampling.add_argument("results", type=Path)
    sampling.add_argument("--models", nargs="+", required=True)
    sampling.add_argument("--tries", type=int, default=4)
    expecting = commands.add_parser("expect", help="probability of the right trace, without a draw")
    expecting.add_argument("base", type=Path)
    expecting.add_argument("results", type=Path)
    expecting.add_argument("--adapters", nargs="+", required=True, metavar="NAME=FOLDER")
    for command in (sampling, expecting):
        command.add_argument("--asks", type=int, default=150)
        command.add_argument("--seed", type=int, default=700_000, help="decides asks, and is the first sampling seed")
        command.add_argument("--logs", type=Path, nargs="+", default=LOGS, help="what was trained on")
    showing = commands.add_parser("table", help="pass rates and paired differences")
    showing.add_argument("results", type=Path)
    showing.add_argument("--parent", required=True)
    given = parser.parse_args()
    {"sample": sample, "expect": expect, "table": table}[given.command](given)


if __name__ == "__main__":
    main()
