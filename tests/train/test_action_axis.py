"""The axis of action tokens: what is packed, what is left behind, and the way back."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.strategies import PROPERTY
from train.action_axis import ActionAxis, first_true


def axis(mask, traces):
    """The axis of such tokens of at most three traces."""
    return ActionAxis(torch.tensor(mask), torch.tensor(traces), 3)


def test_action_tokens_stand_trace_by_trace_in_time_order():
    """Trace 1 has a second sequence after that of trace 0; trace 2 has none."""
    actions = axis([True, False, True, True, True], [1, 1, 0, 0, 1])
    assert actions.positions.tolist() == [2, 3, 0, 4]
    assert actions.traces.tolist() == [0, 0, 1, 1]
    assert actions.counts.tolist() == [2, 2, 0]
    assert actions.pack(torch.tensor([1.0, torch.nan, 3.0, 4.0, 5.0])).tolist() == [3.0, 4.0, 1.0, 5.0]
    assert actions.spread(torch.tensor([3, 4, 1, 5])).tolist() == [1, 0, 3, 4, 5]


@PROPERTY
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=9))
def test_what_is_spread_is_what_was_packed_and_nothing_else(tokens):
    """Numbers of action tokens come back to their places, whatever lies between them; rows of numbers too."""
    mask, traces = zip(*tokens, strict=True)
    actions, numbers = axis(mask, traces), torch.arange(1.0, len(mask) + 1.0)
    poisoned = torch.where(torch.tensor(mask), numbers, torch.nan)
    expected = [float(place + 1) if acted else 0.0 for place, acted in enumerate(mask)]
    assert actions.spread(actions.pack(poisoned)).tolist() == expected
    wide = actions.spread(actions.pack(poisoned[:, None].expand(-1, 2)))
    assert wide.tolist() == [[value, value] for value in expected]


def test_without_other_tokens_nothing_is_copied():
    """Both axes are one, unless the sequences of a trace lie apart."""
    numbers = torch.tensor([1.0, 2.0])
    assert axis([True, True], [0, 1]).pack(numbers) is numbers
    assert axis([True, True], [0, 1]).is_whole
    assert not axis([True, True, True], [0, 1, 0]).is_whole


def test_each_action_token_has_the_number_of_its_trace():
    """Traces of one and of two action tokens."""
    actions = axis([True, True, False, True], [0, 2, 2, 2])
    assert actions.of_traces(torch.tensor([7.0, 8.0, 9.0])).tolist() == [7.0, 9.0, 9.0]


def test_the_first_true_is_found_or_there_is_none():
    """By its place."""
    assert first_true(torch.tensor([False, True, True])) == 1
    assert first_true(torch.tensor([False, False])) is None
