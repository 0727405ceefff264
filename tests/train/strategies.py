"""Random plain rows for the properties of the update methods."""

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
            }
        )
    return made


PER_TOKEN = ("logprobs", "behavior_logprobs", "prox_logprobs", "values")
"""The fields of such a row with one number a token."""


@st.composite
def garbled(draw, made):
    """The same rows with anything at all under the mask."""

    def spoilt(row, name):
        entries = zip(row[name], row["action_mask"], strict=True)
        return [value if action else draw(GARBAGE) for value, action in entries]

    return [row | {name: spoilt(row, name) for name in PER_TOKEN} for row in made]


@st.composite
def cut(draw, made):
    """The same traces, each cut into two sequences at some token."""
    parts = []
    for index, row in enumerate(made):
        at = draw(st.integers(0, len(row["action_mask"])))
        for part in (slice(None, at), slice(at, None)):
            if row["action_mask"][part]:
                own = {name: row[name][part] for name in (*PER_TOKEN, "action_mask")}
                parts.append(row | own | {"trace_id": str(index)})
    return parts
