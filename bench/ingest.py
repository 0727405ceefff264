"""How fast do log lines become rows? Against DuckDB's `read_json` with explicit columns over the same file.

    python bench/ingest.py [--mb 200] [--shape vllm] [--memory]

Makes its own files in three shapes: `openai` (chat completions with five alternatives a token, no ids), `vllm`
(ids and log-probabilities) and `compact` (tracemill's own lines). Each reader runs in a process of its own, in
turns, and the best of its runs counts. DuckDB decodes into the columns that we keep: `read` hands them over as Arrow,
`copy` also writes them to Parquet with zstd. We decode, validate, hash, tell duplicates, write Parquet and commit.

A fourth shape, `otlp` (GenAI spans, text only), is read by whileai as well, if it is installed (the extra `bench`).

`--memory` compares our peak memory over a small and a large file instead.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NUM_RUNS = 3
"""Each reader's runs, in turns with the other's; the best counts, for the machine is not ours alone."""

MEAN_REPLY, MEAN_PROMPT = 1_500, 2_260
"""Tokens of a call on average. Those of the traces on which the data path was first measured, 2026-11."""

VOCABULARY = 60_000
START = datetime(2026, 11, 22, tzinfo=UTC)
TEXT = "The order was paid on Monday and shipped two days later, so a refund is due under the usual terms. "
_REQUEST = "struct(model varchar, temperature double, top_p double, top_k integer, messages json)"
_HEAD = "ts: 'varchar', trace_id: 'varchar', call_index: 'integer', ask_id: 'varchar', session_id: 'varchar'"
_ENTRY = "struct(token varchar, logprob float)"
_USAGE = "struct(prompt_tokens integer, completion_tokens integer)"
_MESSAGE = "struct(content varchar)"
COLUMNS = {
    "openai": f"{{{_HEAD}, request: '{_REQUEST}', response: 'struct(id varchar, created bigint, model varchar, "
    f'choices struct("index" integer, finish_reason varchar, message {_MESSAGE}, '
    f"logprobs struct(content {_ENTRY}[]))[], usage {_USAGE})'}}",
    "vllm": f"{{{_HEAD}, request: '{_REQUEST}', response: 'struct(id varchar, created bigint, model varchar, "
    f'prompt_token_ids integer[], choices struct("index" integer, finish_reason varchar, token_ids integer[], '
    f"message {_MESSAGE}, logprobs struct(content {_ENTRY}[]))[], usage {_USAGE})'}}",
    "compact": "{trace_id: 'varchar', call_index: 'integer', model: 'varchar', started_at: 'varchar', "
    "temperature: 'double', top_p: 'double', top_k: 'integer', prompt_token_ids: 'integer[]', token_ids: 'integer[]', "
    "token_logprobs: 'float[]', finish_reason: 'varchar', reply_text: 'varchar'}",
}


OTLP = "otlp"


class Maker:
    """Draws calls and spells them as log lines."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - made-up logs, not secrets

    def _ids(self, mean: int) -> list[int]:
        length = max(8, int(self._random.lognormvariate(0, 0.5) * mean))
        return [int(VOCABULARY * self._random.random() ** 3) for _ in range(length)]

    def _logprobs(self, length: int) -> list[float]:
        return [-self._random.expovariate(2.5) for _ in range(length)]

    def line(self, shape: str, number: int) -> bytes:
        """One line of a shape."""
        prompt, ids = self._ids(MEAN_PROMPT), self._ids(MEAN_REPLY)
        logprobs = self._logprobs(len(ids))
        text = (TEXT * (len(ids) * 4 // len(TEXT) + 1))[: len(ids) * 4]
        asked = (TEXT * (len(prompt) * 4 // len(TEXT) + 1))[: len(prompt) * 4]
        when = (START + timedelta(seconds=number)).isoformat()
        if shape == OTLP:
            return _spelled(_span(number, asked, text))
        if shape == "compact":
            return _spelled(
                {
                    "trace_id": f"trace-{number}",
                    "call_index": 0,
                    "model": "toy@v7",
                    "started_at": when,
                    "temperature": 1.0,
                    "top_p": 1.0,
                    "top_k": -1,
                    "prompt_token_ids": prompt,
                    "token_ids": ids,
                    "token_logprobs": logprobs,
                    "finish_reason": "stop",
                    "reply_text": text,
                }
            )
        content = [self._entry(shape, token, logprob) for token, logprob in zip(ids, logprobs, strict=True)]
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "logprobs": {"content": content},
            "finish_reason": "stop",
        }
        response: dict[str, Any] = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": int(START.timestamp()) + number,
            "model": "toy@v7",
            "choices": [choice],
            "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(ids)},
        }
        if shape == "vllm":
            choice |= {"stop_reason": None, "token_ids": ids}
            response["prompt_token_ids"] = prompt
        return _spelled(
            {
                "ts": when,
                "trace_id": f"trace-{number}",
                "call_index": 0,
                "ask_id": f"ask-{number}",
                "session_id": f"session-{number // 3}",
                "request": {
                    "model": "toy@v7",
                    "messages": [{"role": "user", "content": asked}],
                    "temperature": 1.0,
                    "top_p": 1.0,
                    "top_k": -1,
                    "logprobs": True,
                },
                "response": response,
            }
        )

    def _entry(self, shape: str, token: int, logprob: float) -> dict[str, Any]:
        name = f" w{token % 997}"
        told = {"token": name, "logprob": logprob, "bytes": list(name.encode()), "top_logprobs": []}
        if shape == "openai":
            told["top_logprobs"] = [
                {"token": f" w{(token + rank) % 997}", "logprob": logprob - rank, "bytes": list(name.encode())}
                for rank in range(5)
            ]
        return told


def _span(number: int, asked: str, text: str) -> dict[str, Any]:
    begun = (int(START.timestamp()) + number) * 10**9
    texts = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "toy@v7",
        "gen_ai.response.id": f"chatcmpl-{number}",
        "gen_ai.conversation.id": f"ask-{number}",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": asked}]}]),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": "stop"}]
        ),
    }
    span = {
        "traceId": f"{number + 2**64:032x}",
        "spanId": f"{number + 2**32:016x}",
        "name": "chat toy",
        "kind": 3,
        "startTimeUnixNano": str(begun),
        "endTimeUnixNano": str(begun + 10**9),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in texts.items()],
        "status": {},
    }
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": [span]}]}]}


def _spelled(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def make(path: Path, shape: str, num_bytes: int) -> int:
    """Write a file of about so many bytes, every call of it another; returns the sampled and prompt tokens in it.

    Large files repeat the drawn numbers under other names: drawing them would take minutes.
    """
    maker = Maker(seed=7)
    models = [maker.line(shape, number) for number in range(64)]
    tokens = [_tokens(shape, line) for line in models]
    written = number = total = 0
    with path.open("wb") as file:
        while written < num_bytes:
            line = models[number % len(models)]
            old, new = number % len(models), number
            for name in ("trace", "chatcmpl", "ask"):
                line = line.replace(f'"{name}-{old}"'.encode(), f'"{name}-{new}"'.encode(), 1)
            line = line.replace(f"{old + 2**64:032x}".encode(), f"{new + 2**64:032x}".encode(), 1)
            written += file.write(line)
            total += tokens[number % len(models)]
            number += 1
    return total


def _tokens(shape: str, line: bytes) -> int:
    document = json.loads(line)
    if shape == OTLP:
        return 0
    if shape == "compact":
        return len(document["prompt_token_ids"]) + len(document["token_ids"])
    return int(document["response"]["usage"]["prompt_tokens"] + document["response"]["usage"]["completion_tokens"])


def run_ours(path: Path) -> None:
    """Land a file in a new lake."""
    from ingest.land import land_calls
    from ingest.meaning import Deployment
    from ingest.settings import LogSettings
    from warehouse.lake import Lake

    root = Path(tempfile.mkdtemp(prefix="bench-", dir=path.parent))
    deployments = {"toy": Deployment(version_pattern="@(v[0-9]+)$", generation_config="vllm")}
    try:
        with Lake.create(root) as lake, _Measured():
            report = land_calls(
                lake, [str(path)], deployments=deployments, settings=LogSettings(), now=datetime.now(UTC)
            )
        if report.num_landed != report.num_lines:
            raise SystemExit(f"only {report.num_landed} of {report.num_lines} lines landed: {report}")
    finally:
        shutil.rmtree(root)


def run_duckdb(path: Path, shape: str, way: str) -> None:
    """Decode a file with DuckDB, and copy it to Parquet if asked to."""
    import duckdb

    source = f"select * from read_json('{path}', format = 'newline_delimited', columns = {COLUMNS[shape]})"  # noqa: S608 - our own path
    with duckdb.connect() as connection, _Measured():
        if way == "copy":
            target = path.with_suffix(".parquet")
            connection.execute(f"copy ({source}) to '{target}' (format parquet, compression zstd)")
            target.unlink()
        else:
            for _ in connection.execute(source).to_arrow_reader():
                pass


def run_whileai(path: Path) -> None:
    """Turn a file of spans into whileai's rows."""
    from whileai.simulations.ingest.otel import rows_from_otel

    with _Measured(), path.open("rb") as file:
        spans = (
            span
            for line in file
            for resource in json.loads(line)["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        )
        rows_from_otel(spans)


class _Measured:
    """Prints the seconds of wall clock and of CPU, and the peak memory of the process in MiB."""

    def __enter__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), _cpu()

    def __exit__(self, *_: object) -> None:
        peak = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
        print(json.dumps({"wall": time.perf_counter() - self._wall, "cpu": _cpu() - self._cpu, "peak_mib": peak}))


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(path: Path, shape: str, way: str) -> dict[str, float]:
    """One run in a process of its own."""
    # -P: this file bears the name of the package that it measures.
    command = [sys.executable, "-P", __file__, "--run", way, "--shape", shape, "--file", str(path)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(told.stdout.splitlines()[-1])
    return figures


def compare(shape: str, folder: Path, num_mb: int) -> None:
    """All readers over one file of a shape, in turns."""
    path = folder / f"{shape}.jsonl"
    num_tokens = make(path, shape, num_mb * 10**6)
    size = path.stat().st_size / 1e6
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ("ours", *_peers(shape))}
    for _ in range(NUM_RUNS):
        for way, runs in found.items():
            runs.append(measure(path, shape, way))
    best = {way: {name: min(run[name] for run in runs) for name in runs[0]} for way, runs in found.items()}
    print(f"\n{shape}: {size:,.0f} MB, {num_tokens:,} tokens")
    for way, figures in best.items():
        print(
            f"  {way:<7} {size / figures['wall']:6.0f} MB/s wall  {size / figures['cpu']:6.0f} MB/s CPU  "
            f"{num_tokens / figures['wall'] / 1e6:6.2f} M tokens/s  peak {figures['peak_mib']:,.0f} MiB"
        )
    for way in _peers(shape):
        wall, cpu = (best[way][name] / best["ours"][name] for name in ("wall", "cpu"))
        print(f"  speed against {PEERS[way]}: {wall:.2f} of wall, {cpu:.2f} of CPU")
    path.unlink()


PEERS = {"read": "DuckDB read_json", "copy": "DuckDB read_json and copy to Parquet", "whileai": "whileai's reader"}


def _peers(shape: str) -> tuple[str, ...]:
    if shape != OTLP:
        return ("read", "copy")
    if find_spec("whileai") is None:
        print("\nwhileai is not installed, so its reader is not measured: pip install -e '.[bench]'")
        return ()
    return ("whileai",)


def compare_memory(folder: Path, shape: str, sizes_mb: tuple[int, int]) -> None:
    """Our peak memory over a small and a large file."""
    peaks = []
    for num_mb in sizes_mb:
        path = folder / "memory.jsonl"
        make(path, shape, num_mb * 10**6)
        figures = measure(path, shape, "ours")
        peaks.append(figures["peak_mib"])
        print(f"{shape}: {num_mb:,} MB, {num_mb / figures['wall']:.0f} MB/s wall, peak {figures['peak_mib']:,.0f} MiB")
        path.unlink()
    print(f"peak memory, large over small: {peaks[1] / peaks[0]:.2f}")


def main() -> None:
    """Compare, or run one reader once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=200, help="size of each file in MB")
    parser.add_argument("--shape", choices=(*COLUMNS, OTLP), help="only this shape")
    parser.add_argument("--memory", action="store_true", help="peak memory over 100 MB and 3,000 MB instead")
    parser.add_argument("--run", choices=("ours", *PEERS), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run == "ours":
        run_ours(given.file)
    elif given.run == "whileai":
        run_whileai(given.file)
    elif given.run is not None:
        run_duckdb(given.file, given.shape, given.run)
    else:
        with tempfile.TemporaryDirectory(prefix="tracemill-bench-") as name:
            if given.memory:
                compare_memory(Path(name), given.shape or "vllm", (100, 3_000))
            else:
                for shape in (given.shape,) if given.shape else (*COLUMNS, OTLP):
                    compare(shape, Path(name), given.mb)


if __name__ == "__main__":
    main()
