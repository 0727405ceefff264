"""The refund desk of the examples: its asks, its tool, its checker, and the agent driven over a real server.

An ask names an order; the agent should look it up (`LOOKUP R34`), is told two amounts (`R34: 3 + 4 dollars`, or an
error when the look-up was wrong) and should answer with the sum. The checker passes an answer whose last number is the
sum.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx

SHOTS = (
    {"role": "system", "content": "You are a refund desk assistant. Look an order up before you answer."},
    {"role": "user", "content": "Please refund order R11."},
    {"role": "assistant", "content": "LOOKUP R11"},
    {"role": "tool", "content": "R11: 3 + 4 dollars"},
    {"role": "assistant", "content": "3 + 4 = 7"},
    {"role": "user", "content": "Please refund order R25."},
    {"role": "assistant", "content": "LOOKUP R25"},
    {"role": "tool", "content": "R25: 12 + 9 dollars"},
    {"role": "assistant", "content": "12 + 9 = 21"},
)
PHRASES = (
    "Please refund order {}.",
    "I want my money back for order {}.",
    "Order {} arrived broken, refund it please.",
    "Can you refund {}?",
)
AMOUNTS = range(1, 31)
SAMPLING = {"max_tokens": 14, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True, "return_token_ids": True}
LOOPBACK = ("127.0.0.1", "localhost", "::1")
CONCURRENCY = 32
"""Traces in flight, as many as the server was told to batch."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a user wants, and what the order system knows of it."""

    ask_id: str
    phrase: str
    order: str
    amounts: tuple[int, int]

    @property
    def text(self) -> str:
        """The user's message."""
        return self.phrase.format(self.order)

    @property
    def answer(self) -> int:
        """The sum to be paid back."""
        return sum(self.amounts)

    @property
    def result(self) -> str:
        """What the tool says to a right look-up."""
        return f"{self.order}: {self.amounts[0]} + {self.amounts[1]} dollars"


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the server, and what came back."""

    request: dict[str, Any]
    response: dict[str, Any]

    @property
    def content(self) -> str:
        """The text that was sampled."""
        return str(self.response["choices"][0]["message"]["content"] or "")


@dataclass(frozen=True, slots=True)
class Try:
    """One trace: an ask, a seed, two calls."""

    ask: Ask
    seed: int
    calls: tuple[Call, Call]

    @property
    def passes(self) -> bool:
        """Whether the last number of the answer is the sum: the reward."""
        numbers = re.findall(r"\d+", self.calls[-1].content)
        return bool(numbers) and int(numbers[-1]) == self.ask.answer


def draw_asks(
    number: int, *, seed: int, orders: Sequence[str], unlike: frozenset[tuple[int, int]], first: int
) -> list[Ask]:
    """So many asks of these orders, every one with amounts of its own that are not in `unlike`."""
    source = random.Random(seed)  # noqa: S311 - a reproducible draw, no secret
    free = [(a, b) for a in AMOUNTS for b in AMOUNTS if (a, b) not in unlike]
    return [
        Ask(f"ask-{first + index:05d}", PHRASES[index % len(PHRASES)], source.choice(orders), amounts)
        for index, amounts in enumerate(source.sample(free, number))
    ]


def tool(ask: Ask, content: str) -> str:
    """What the order system answers to a call's text."""
    found = re.search(r"LOOKUP (R\d+)", content)
    return ask.result if found and found[1] == ask.order else "error: unknown order"


def attempt(client: httpx.Client, model: str, ask: Ask, seed: int) -> Try:
    """Both calls of one trace."""
    messages = [*SHOTS, {"role": "user", "content": ask.text}]
    first = _call(client, model, messages, seed)
    said = {"role": "assistant", "content": first.content}
    told = {"role": "tool", "content": tool(ask, first.content)}
    return Try(ask, seed, (first, _call(client, model, [*messages, said, told], seed)))


def attempts(url: str, model: str, wanted: Sequence[tuple[Ask, int]]) -> Iterator[Try]:
    """A trace for each ask and seed, in that order, many at a time; the server must be on this machine."""
    if urlsplit(url).hostname not in LOOPBACK:
        raise SystemExit(f"{url}: not on this machine; expected one of {', '.join(LOOPBACK)}")
    with httpx.Client(base_url=url, timeout=600) as client, ThreadPoolExecutor(CONCURRENCY) as threads:
        asks, seeds = zip(*wanted, strict=True)
        yield from threads.map(partial(attempt, client, model), asks, seeds)


def trace_id(model: str, ask: Ask, seed: int) -> str:
    """An id that tells the trace from every other one."""
    return hashlib.sha256(f"{model}\t{ask.ask_id}\t{seed}".encode()).hexdigest()[:32]


def _call(client: httpx.Client, model: str, messages: Sequence[dict[str, str]], seed: int) -> Call:
    request = {"model": model, **SAMPLING, "seed": seed, "messages": list(messages)}
    response = client.post("/v1/chat/completions", json=request)
    response.raise_for_status()
    return Call(request, response.json())
