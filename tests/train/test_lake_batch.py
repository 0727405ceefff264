"""A batch out of the lake: what the log says beside what a policy says."""

import pytest

from schemas.errors import UsageError
from tests.train.logged import admit, land, logged, score
from train.lake_batch import batch_from_lake

SCORED = (None, None, -0.25)
"""What v2 says of a sequence of one action token."""


def read(lake, policy="v2"):
    """The batch of run r."""
    return batch_from_lake(lake, run_id="r", policy_version=policy)


@pytest.fixture
def three(lake):
    """Traces a, b and c of one action token each; a and b admitted."""
    land(lake, [(logged([5, 6, 7], [2], trace=name),) for name in "abc"])
    admit(lake, {"a": 1.0, "b": 0.0})
    return lake


def test_a_batch_holds_the_admitted_traces_with_their_rewards(three):
    """Not c, which no verdict admits; log-probabilities are those of the policy asked for."""
    for name in "abc":
        score(three, name, "v2", logprobs=SCORED)
        score(three, name, "v9", logprobs=(None, None, -2.0))
    batch = read(three).batch
    assert batch.trace_ids == ("a", "b")
    assert batch.rewards.tolist() == [1.0, 0.0]
    assert batch.action_mask.tolist() == [False, False, True] * 2
    assert batch.logprobs[batch.action_mask].tolist() == [-0.25, -0.25]


def test_a_trace_that_was_not_scored_is_counted_and_left_out(three):
    """B was scored by another policy alone."""
    score(three, "a", "v2", logprobs=SCORED)
    score(three, "b", "v9")
    found = read(three)
    assert (found.batch.trace_ids, found.num_not_scored) == (("a",), 1)


def test_a_trace_with_one_unscored_sequence_is_left_out_whole(lake):
    """Half a trace is not a trace."""
    land(lake, [tuple(logged([5, 6, 7 + index], [2], trace="a", index=index) for index in range(2))])
    land(lake, [(logged([5, 6, 7], [2], trace="b"),)])
    admit(lake, {"a": 1.0, "b": 0.0})
    score(lake, "a", "v2", index=0, logprobs=SCORED)
    score(lake, "b", "v2", logprobs=SCORED)
    found = read(lake)
    assert (found.batch.trace_ids, found.num_not_scored) == (("b",), 1)


def test_asks_become_groups_where_every_trace_has_one(lake):
    """A and b answer one ask, c another."""
    for name, ask in (("a", "refund"), ("b", "refund"), ("c", "return")):
        land(lake, [(logged([5, 6, 7], [2], trace=name),)], ask_id=ask, workload="chat")
        score(lake, name, "v2", logprobs=SCORED)
    admit(lake, {"a": 1.0, "b": 0.0, "c": 0.5})
    batch = read(lake).batch
    assert batch.groups.tolist() == [0, 0, 1]
    assert batch.keys == ("chat",) * 3


def test_an_ask_that_is_missing_makes_no_group(three):
    """The traces of this log name no ask: no trace is put into a group by chance."""
    score(three, "a", "v2", logprobs=SCORED)
    score(three, "b", "v2", logprobs=SCORED)
    batch = read(three).batch
    assert (batch.groups, batch.keys, batch.policy_lags) == (None, None, None)


def test_nothing_scored_is_refused_with_what_to_do(three):
    """Both traces were admitted, none was scored by v2."""
    with pytest.raises(UsageError, match="2 traces admitted, none of them scored by v2; expected some; rescore"):
        read(three)


def test_nothing_admitted_is_refused(lake):
    """A run without verdicts has no batch."""
    with pytest.raises(UsageError, match="0 traces admitted"):
        read(lake)
