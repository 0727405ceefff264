"""Record traces of the refund desk from a real server, several tries of each ask, with their rewards.

    python bench/record_refund_desk.py URL FOLDER --model refund-desk@v109 --asks 192 --tries 4

URL is any OpenAI-compatible server on this machine that returns token ids, such as vLLM started with

    vllm serve MERGED --served-model-name refund-desk@v109 --host 127.0.0.1 --port 8109 --dtype float32
        --generation-config vllm --logprobs-mode processed_logprobs --max-model-len 512 --max-num-seqs 32

Writes FOLDER/logs/DAY.jsonl.gz, one line a call in the envelope of examples/refund_desk, and FOLDER/outcomes.csv, the
checker's verdict on each trace. Requests and responses are as sent and as received; what was not observed is drawn from
the seed: the hour of the trace (on the day that is asked for), its user, and how late its verdict came.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from refund_desk import Ask, Try, attempts, draw_asks, trace_id

ORDERS = tuple(f"R{number}" for number in range(30, 100))
SECONDS_BETWEEN_CALLS = 2.5
SECONDS_BETWEEN_TRACES = 20.0
MEAN_HOURS_TO_VERDICT = 2.0
OUTCOME_COLUMNS = ("event_id", "trace_id", "name", "value", "source_kind", "source", "scorer_version", "event_time")


def lines_of(tried: Try, model: str, number: int, begun: datetime) -> Iterator[dict[str, Any]]:
    """The log lines of a trace, one a call; `number` is its place in the recording."""
    for index, call in enumerate(tried.calls):
        yield {
            "ts": _stamp(begun + timedelta(seconds=index * SECONDS_BETWEEN_CALLS)),
            "trace_id": trace_id(model, tried.ask, tried.seed),
            "call_index": index,
            "ask_id": tried.ask.ask_id,
            "session_id": f"sess-{number:05d}",
            "user": f"user-{number % 61:03d}@example.com",
            "workload": "refunds",
            "deployment": "refund-desk-cpu",
            "request": call.request,
            "response": call.response,
        }


def outcome_of(tried: Try, model: str, number: int, at: datetime) -> dict[str, Any]:
    """The checker's verdict on a trace."""
    return dict(
        zip(
            OUTCOME_COLUMNS,
            (
                f"ev-{number:05d}",
                trace_id(model, tried.ask, tried.seed),
                "refund_correct",
                int(tried.passes),
                "program",
                "refund-checker",
                "1",
                _stamp(at),
            ),
            strict=True,
        )
    )


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plan(given: argparse.Namespace) -> list[tuple[Ask, int]]:
    """The asks, each as often as it is tried, every time with a seed of its own; the tries of an ask lie apart."""
    asks = draw_asks(given.asks, seed=given.seed, orders=ORDERS, unlike=frozenset(), first=given.first_ask)
    return [
        (ask, given.seed + 13 * (try_ * len(asks) + at)) for try_ in range(given.tries) for at, ask in enumerate(asks)
    ]


def write(folder: Path, day: datetime, lines: Sequence[dict[str, Any]], outcomes: Sequence[dict[str, Any]]) -> None:
    """The recording's two files."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    # No name and no time in the header: the same lines make the same file.
    (folder / "logs" / f"{day:%Y-%m-%d}.jsonl.gz").write_bytes(gzip.compress(content.encode(), 9, mtime=0))
    with (folder / "outcomes.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, OUTCOME_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(outcomes, key=lambda row: row["event_time"]))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--model", default="refund-desk@v109", help="the served model's name, which carries the version"
    )
    parser.add_argument("--asks", type=int, default=192)
    parser.add_argument("--tries", type=int, default=4)
    parser.add_argument("--seed", type=int, default=50_000, help="decides asks, and is the first sampling seed")
    parser.add_argument("--first-ask", type=int, default=2000, help="number of the first ask's id")
    parser.add_argument("--day", default="2026-11-28", help="the day that the traces are dated")
    given = parser.parse_args()
    day = datetime.fromisoformat(given.day).replace(tzinfo=UTC)
    source = random.Random(given.seed)  # noqa: S311 - a reproducible draw, no secret
    lines: list[dict[str, Any]] = []
    outcomes: list[dict[str, Any]] = []
    began, num_passed = time.perf_counter(), 0
    for number, tried in enumerate(attempts(given.url, given.model, plan(given))):
        begun = day + timedelta(hours=8, seconds=number * SECONDS_BETWEEN_TRACES)
        lines += lines_of(tried, given.model, number, begun)
        later = timedelta(hours=source.expovariate(1 / MEAN_HOURS_TO_VERDICT))
        outcomes.append(outcome_of(tried, given.model, number, begun + later))
        num_passed += tried.passes
    write(given.folder, day, lines, outcomes)
    seconds = time.perf_counter() - began
    print(
        f"{len(outcomes)} traces, {len(lines)} calls in {seconds:.0f} s, mean reward {num_passed / len(outcomes):.3f}"
    )


if __name__ == "__main__":
    main()
