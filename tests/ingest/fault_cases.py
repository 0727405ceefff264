"""How a case of a known fault is written down: a few lines of a log, and what becomes of them."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from ingest.meaning import Deployment
from tests.ingest.hand_made import DEPLOYMENTS, G1, L1, P1, entries, envelope, line, response
from tests.ingest.tracing_made import TRACE

Packing = Literal["plain", "gzip", "cut gzip"]

PROMPT, FIRST = "F" * 6, "FFFFFFTTTT"
"""Action masks of the toy's first prompt alone, and of the first call."""
UNUSED = "F" * 10
"""The mask of a first call that is masked out."""
BOTH = "FFFFFFTTTTFFFFTTT"
"""The mask of both calls in one sequence."""
SECOND = "F" * 14 + "TTT"
"""The mask of a second call that goes on from no other."""

SETTINGS = {
    **DEPLOYMENTS,
    "kindless": DEPLOYMENTS["toy"].model_copy(update={"logprobs_mode": None}),
    "raw": DEPLOYMENTS["toy"].model_copy(update={"logprobs_mode": "raw_logprobs"}),
    "auto": Deployment(logprobs_mode="processed_logprobs", policy_version="v7"),
    "unversioned": Deployment(logprobs_mode="processed_logprobs", generation_config="vllm"),
}
"""The deployments that the cases name; `toy` states everything that a log cannot say."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way in which a fault shows in a log, and what is expected."""

    number: int
    """The fault, by its number in `known_faults`."""
    name: str
    """Stands in the place of the trace id `trace-a`."""
    says: str
    """What the lines hold."""
    lines: tuple[bytes, ...]
    ends: tuple[str, ...]
    """How each line ends: landed, duplicate, blank, or the reason of its reject."""
    codes: tuple[frozenset[str], ...]
    """All codes of each call that landed, in the order of the file."""
    faults: frozenset[str]
    """What keeps the trace of the case from being trained on."""
    masks: tuple[str, ...]
    """The action mask of each of its sequences."""
    notes: dict[str, int]
    """What was odd about how its calls fit together."""
    gate: frozenset[str]
    """What only the gate's look at all numbers of the trace finds."""
    file_notes: frozenset[str]
    packing: Packing
    why: str
    """What else there is to say, above all where the fault cannot be seen in a log."""

    @property
    def trace_ids(self) -> tuple[str, str]:
        """The ids of its trace, as it stands in logs and in spans."""
        return self.name, hex_of(self.name)

    def neighbour(self, place: str) -> bytes:
        """A good line that stands before or after."""
        return line(envelope(response(P1, G1, L1), trace_id=f"{self.name}.{place}"))

    def block(self) -> bytes:
        """The lines between two good ones."""
        return b"\n".join((self.neighbour("before"), *self.lines, self.neighbour("after"))) + b"\n"


def packed(text: bytes, packing: Packing) -> bytes:
    """A file of these lines; a cut one ends in the middle of its last line."""
    if packing == "plain":
        return text
    if packing == "gzip":
        return gzip.compress(text)
    return gzip.compress(text, compresslevel=0)[: -len(text.splitlines()[-1]) // 2]  # stored as it is, so cut there


def hex_of(name: str) -> str:
    """The id of a case's trace where a format wants 16 bytes."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def case(
    number: int,
    name: str,
    says: str,
    *documents: dict[str, Any] | bytes,
    ends: str | tuple[str, ...] = "landed",
    codes: tuple[str, ...] | tuple[tuple[str, ...], ...] | None = (),
    faults: tuple[str, ...] | None = None,
    masks: tuple[str, ...] = (),
    **more: Any,
) -> Case:
    """A case; one end counts for all lines, codes of one call need no tuple around them, None says that there is none.

    The faults of the trace are the codes of its one call, unless stated.
    """
    texts = [one if isinstance(one, bytes) else line(one) for one in documents]
    of_calls: Any = codes if codes and isinstance(codes[0], tuple) else (codes,)
    if codes is None or "landed" not in (ends if isinstance(ends, tuple) else (ends,)):
        of_calls = ()
    return Case(
        number=number,
        name=name,
        says=says,
        lines=tuple(renamed(text, name) for text in texts),
        ends=(ends,) * len(texts) if isinstance(ends, str) else ends,
        codes=tuple(map(frozenset, of_calls)),
        faults=frozenset(faults if faults is not None else of_calls[0] if of_calls else ()),
        masks=masks,
        notes=more.pop("notes", {}),
        gate=frozenset(more.pop("gate", ())),
        file_notes=frozenset(more.pop("file_notes", ())),
        packing=more.pop("packing", "plain"),
        why=more.pop("why", ""),
    )


def renamed(text: bytes, name: str) -> bytes:
    """A line with the names of its case."""
    return text.replace(b"trace-a", name.encode()).replace(TRACE.encode(), hex_of(name).encode())


def first(logprobs: Any = L1, ids: list[int] | None = G1, **changes: Any) -> dict[str, Any]:
    """The toy's first call; `changes` go to the choice, but for those of the envelope, request and response.

    `logprobs` is a list of numbers, or all that a choice has under this name.
    """
    if isinstance(logprobs, dict):
        whole: dict[str, Any] = first(L1, ids, **changes)
        whole["response"]["choices"][0]["logprobs"] = logprobs
        return whole
    outer = {name: changes.pop(name) for name in ("request", "deployment", "call_index", "ts") if name in changes}
    head = changes.pop("head", {})
    return envelope({**response(P1, ids, logprobs, **changes), **head}, **outer)


def chunks(*pieces: dict[str, Any], **head: Any) -> list[dict[str, Any]]:
    """Chunks of a stream with one choice; the last has the server's count of the toy's four tokens."""
    found: list[dict[str, Any]] = [
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_795_420_800, "model": "toy@v7",
         "choices": [{"index": 0, "delta": {"content": "x"}, **piece}]}
        for piece in pieces
    ]  # fmt: skip
    found[0] |= {"prompt_token_ids": P1, **head}
    found[-1]["usage"] = {"prompt_tokens": len(P1), "completion_tokens": len(G1)}
    found[-1]["choices"][0].setdefault("finish_reason", "stop")
    return found


def numbers(*logprobs: float) -> dict[str, Any]:
    """The log-probabilities of one chunk."""
    return {"content": entries(list(logprobs))}


def jumbled(document: dict[str, Any]) -> bytes:
    """The same document with its keys in another order, and spaces."""
    return json.dumps(dict(reversed(document.items()))).encode()
