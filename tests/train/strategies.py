"""Random plain rows for the properties of the update methods."""

import functools
import math
import operator
import random

from hypothesis import settings
from hypothesis import strategies as st

PROPERTY = settings(max_examples=20, deadline=None)
"""Small batches find what there is to find in a few tries, and there are many methods; a busy machine is no failure."""

EVERY_METHOD = settings(max_examples=8, deadline=None)
"""For properties that run for two dozen methods."""

LOGPROB = st.floats(-12.0, -1e-4)
DRIFT = st.floats(-0.3, 0.3)
GARBAGE = st.sampled_from([float("nan"), float("inf"), float("-inf"), 7.0, -9999.0, 0.0])
REWARD = st.sampled_from([0.0, 1.0, 0.25, -1.5, 3.0])


IN_RANGE = st.sampled_from([0.0, 1.0, 0.25, 0.5])
"""Rewards that every method takes, a bounded critic too."""


@st.composite
def rows(draw, min_traces=1, max_traces=5, reward=REWARD, on_policy=False):
    """Plain rows, each a trace, with tool tokens anywhere and at least one action token."""
    made = []
    for _ in range(draw(st.integers(min_traces, max_traces))):
        mask = draw(st.lists(st.booleans(), min_size=1, max_size=6).filter(any))
        behavior = [draw(LOGPROB) for _ in mask]
        current, prox = (
            [min(0.0, logprob + (0.0 if on_policy else draw(DRIFT))) for logprob in behavior] for _ in range(2)
        )
        made.append(
            {
                "reward": draw(reward),
                "logprobs": current,
                "behavior_logprobs": behavior,
                "prox_logprobs": prox,
                "policy_lag": draw(st.integers(0, 9)),
                "values": [draw(st.floats(0.0, 1.0)) for _ in mask],
                "action_mask": mask,
                "group": draw(st.integers(0, 1)),
                "key": draw(st.sampled_from(["agent", "other"])),
                "recorded": recorded(behavior, current, draw(st.integers(0, 999))),
            }
        )
    return made


PER_TOKEN = ("logprobs", "behavior_logprobs", "prox_logprobs", "values")
"""The fields of such a row with one number a token."""

RECORDED = ("behavior_logprobs", "logprobs", "token_ids", "sampled_ids")
"""The fields of its records with one entry a token."""

VOCABULARY = 4


def recorded(behavior, current, seed):
    """Records of every kind for tokens of id 0 with these logprobs, among four; `row["records"]` is to be one of them."""
    dice = random.Random(seed)  # noqa: S311 - numbers for a test
    kinds = {kind: {"kind": kind, **{name: [] for name in RECORDED}} for kind in ("draws", "top_k", "full")}
    for logged, now in zip(behavior, current, strict=True):
        shares = [dice.uniform(0.1, 1.0) for _ in range(VOCABULARY - 1)]
        moved = [share * math.exp(dice.gauss(0.0, 0.3 if logged != now else 0.0)) for share in shares]
        then, here = (
            [own, *(math.log(max(-math.expm1(own), 1e-9) * share / sum(rest)) for share in rest)]
            for own, rest in ((logged, shares), (now, moved))
        )
        drawn = dice.choices(range(VOCABULARY), [math.exp(logprob) for logprob in then], k=3)
        for kind, ids in (("draws", drawn), ("top_k", [0, 1]), ("full", list(range(VOCABULARY)))):
            kinds[kind]["behavior_logprobs"].append([then[token] for token in ids])
            kinds[kind]["logprobs"].append([here[token] for token in ids])
            kinds[kind]["token_ids"].append(ids)
            kinds[kind]["sampled_ids"].append(0)
    return kinds


def recording(made, kind):
    """The same rows with their records of one kind, or as they are."""
    return made if kind is None else [row | {"records": row["recorded"][kind]} for row in made]


def changed(row, change):
    """The row with `change` made of each of its lists of one entry a token, the action mask aside."""
    kinds = {
        kind: record | {name: change(record[name]) for name in RECORDED} for kind, record in row["recorded"].items()
    }
    return row | {name: change(row[name]) for name in PER_TOKEN} | {"recorded": kinds}


def padded(row, left, right):
    """The row with masked tokens before and after."""

    def change(entries):
        before, after = (None, None) if isinstance(entries[0], list) else (math.nan, 7.0)
        return [before] * left + entries + [after] * right

    mask = [False] * left + row["action_mask"] + [False] * right
    return changed(row, change) | {"action_mask": mask}


@st.composite
def garbled(draw, made):
    """The same rows with anything at all under the mask."""

    def garbage(value):
        if isinstance(value, int):  # An id is never read as a number.
            return value
        if isinstance(value, list):
            return (
                None if draw(st.booleans()) else [draw(GARBAGE) if type(entry) is float else entry for entry in value]
            )
        return draw(GARBAGE)

    def spoilt(row, entries):
        return [value if action else garbage(value) for value, action in zip(entries, row["action_mask"], strict=True)]

    return [changed(row, functools.partial(spoilt, row)) for row in made]


@st.composite
def cut(draw, made):
    """The same traces, each cut into two sequences at some token."""
    parts = []
    for index, row in enumerate(made):
        at = draw(st.integers(0, len(row["action_mask"])))
        for part in (slice(None, at), slice(at, None)):
            if row["action_mask"][part]:
                own = changed(row, operator.itemgetter(part))
                parts.append(own | {"action_mask": row["action_mask"][part], "trace_id": str(index)})
    return parts
