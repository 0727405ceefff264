"""The message graph of a verifiers trace: which tokens come before a reply, and which of it were sampled."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw, Struct

from ingest.call import pack_logprobs
from ingest.formats.chat import NULL
from ingest.formats.sizes import SmallInt, TokenId
from schemas.errors import LineError

MAX_BYTES = 2**28
"""Most bytes that the prompts of a trace's calls may take together: each call holds its whole prompt, so a graph could
grow without bound as it is read. 300 calls of 100,000 tokens fit. Convention, untested."""


class Node(Struct):
    """One message: what it adds to its parent's tokens, and which of them were sampled.

    `mask` has one entry a token; `logprobs` one a sampled token.
    """

    parent: SmallInt | None = None
    sampled: bool = False
    message: Raw = NULL
    token_ids: list[TokenId] = []
    mask: list[bool] = []
    logprobs: list[float | None] = []
    timestamp: float | None = None


def path_to(nodes: list[Node], place: int) -> list[Node]:
    """The messages before a message, from the root on."""
    path: list[Node] = []
    parent = nodes[place].parent
    while parent is not None:
        path.append(nodes[parent])
        parent = nodes[parent].parent
    return path[::-1]


def refuse_too_large(graphs: Iterable[list[Node]]) -> None:
    """Refuse graphs whose parents do not stand before their children, or whose prompts are too large together."""
    total = 0
    for nodes in graphs:
        sizes: list[int] = []
        for place, node in enumerate(nodes):
            if node.parent is not None and not 0 <= node.parent < place:
                raise LineError(
                    "bad_field", f"node {place} has the parent {node.parent}; expected an earlier node: mend the log"
                )
            before = sizes[node.parent] if node.parent is not None else 0
            sizes.append(before + 64 + 4 * len(node.token_ids) + len(bytes(node.message)))
            total += before if node.sampled else 0
    if total > MAX_BYTES:
        raise LineError("bad_field", f"the prompts of all calls take {total} bytes; expected {MAX_BYTES} at most")


def reply_begin(node: Node, place: int) -> int:
    """Where the reply begins: the tokens before the first sampled one belong to the prompt's template."""
    if len(node.mask) != len(node.token_ids):
        raise LineError(
            "bad_field", f"node {place} has {len(node.mask)} mask values for {len(node.token_ids)} tokens; one a token"
        )
    return node.mask.index(True) if True in node.mask else len(node.mask)


def spread_logprobs(node: Node, begin: int) -> tuple[bytes | None, tuple[str, ...]]:
    """The log-probabilities at their positions, NaN where nothing was sampled; a list of another length is as it is."""
    mask = node.mask[begin:]
    num_sampled = sum(mask)
    if num_sampled and not node.logprobs:
        return None, ()
    given = [float("nan") if value is None else value for value in node.logprobs]
    notes = ("no_behavior_logprobs",) if None in node.logprobs else ()
    if len(given) != num_sampled:
        return pack_logprobs(given), (*notes, "len_mismatch")
    if num_sampled == len(mask):
        return pack_logprobs(given), notes
    values = iter(given)
    return pack_logprobs([next(values) if is_sampled else float("nan") for is_sampled in mask]), notes
