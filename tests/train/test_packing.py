"""Packs: every sequence is in one of them, whole, and what is shared is computed once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.train.logged import logged
from train import packing
from train.packing import build_packs, make_pack

# Three tokens, so that common beginnings of every length turn up by themselves.
TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=30)


def _traces(lists):
    return [(logged(tokens, range(1, len(tokens)), trace=f"{number:03d}"),) for number, tokens in enumerate(lists)]


@settings(max_examples=60, deadline=None)
@given(st.lists(TOKENS, min_size=1, max_size=12))
def test_any_sequence_can_be_read_back_from_its_slots(lists):
    """The slots of a sequence hold its tokens, at its positions, in order."""
    pack = make_pack([trace[0] for trace in _traces(lists)])
    for sequence, slots in zip(pack.sequences, pack.sequence_slots, strict=True):
        assert pack.token_ids[slots].tolist() == sequence.token_ids.tolist()
        assert pack.position_ids[slots].tolist() == list(range(len(sequence.token_ids)))


@settings(max_examples=60, deadline=None)
@given(st.lists(TOKENS, min_size=1, max_size=12))
def test_a_segment_follows_exactly_the_slots_before_it_in_each_sequence_through_it(lists):
    """What a segment attends to is what its sequences have before it."""
    pack = make_pack([trace[0] for trace in _traces(lists)])
    owners = {slot: number for number, segment in enumerate(pack.layout.segments) for slot in segment.slots.tolist()}
    assert sorted(owners) == list(range(pack.num_slots))
    for slots in pack.sequence_slots:
        path = list(dict.fromkeys(owners[slot] for slot in slots.tolist()))
        assert pack.layout.segments[path[-1]].before == tuple(path[:-1])


@settings(max_examples=40, deadline=None)
@given(st.lists(TOKENS, min_size=1, max_size=12), st.integers(1, 80))
def test_any_budget_keeps_every_trace_in_one_pack(lists, budget):
    """No trace is lost, doubled or cut, and a pack over the budget holds one trace."""
    packs = build_packs(_traces(lists), token_budget=budget)
    names = [sequence.trace_id for pack in packs for sequence in pack.sequences]
    assert sorted(names) == [f"{number:03d}" for number in range(len(lists))]
    unshared = 30 + packing.WORTH_SHARING * len(lists)
    assert all(pack.num_slots <= budget + unshared or len(pack.sequences) == 1 for pack in packs)


def test_a_common_beginning_is_computed_once():
    """Three sequences of 14, 13 and 12 tokens that share their first ten take 10 + 4 + 3 + 2 slots."""
    shared = list(range(10))
    pack = make_pack([logged([*shared, *rest], [10]) for rest in ([20, 1, 1, 1], [21, 1, 1], [22, 1])])
    assert pack.num_slots == 19
    assert pack.num_tokens == 39
    assert [segment.before for segment in pack.layout.segments] == [(), (0,), (0,), (0,)]


def test_a_fork_within_a_shared_beginning_is_shared_too():
    """Four sequences, two and two alike for nine tokens beyond the ten that all share: 10 + 9 + 9 + 4 slots."""
    root, left, right = list(range(10)), [30] * 9, [40] * 9
    pack = make_pack([logged([*root, *branch, leaf], [19]) for branch in (left, right) for leaf in (1, 2)])
    assert pack.num_slots == 32
    assert pack.layout.segments[1].before == (0,)
    assert pack.layout.segments[2].before == (0, 1)


def test_sharing_that_costs_more_than_it_saves_is_left():
    """Two sequences that share seven tokens save seven slots, less than a segment is worth."""
    pack = make_pack([logged([*range(7), leaf], [7]) for leaf in (20, 21)])
    assert pack.num_slots == 16


def test_without_sharing_each_sequence_is_a_segment():
    """Every token has a slot of its own, and no segment follows another."""
    pack = make_pack([logged([*range(10), leaf], [10]) for leaf in (20, 21)], share=False)
    assert pack.num_slots == 22
    assert [segment.before for segment in pack.layout.segments] == [(), ()]


def test_equal_sequences_share_all_their_slots():
    """A try that was logged twice costs nothing more."""
    pack = make_pack([logged(range(12), [11], trace=name) for name in "ab"])
    assert pack.num_slots == 12
    assert np.array_equal(*pack.sequence_slots)


def test_sequences_of_one_trace_are_never_parted():
    """The second sequence of a trace goes where the first one goes, over the budget if need be."""
    traces = [
        tuple(logged([number, *range(20), index], [21], trace=f"t{number}", index=index) for index in range(2))
        for number in range(3)
    ]
    packs = build_packs(traces, token_budget=30)
    assert [[sequence.trace_id for sequence in pack.sequences] for pack in packs] == [
        ["t0"] * 2,
        ["t1"] * 2,
        ["t2"] * 2,
    ]


def test_the_order_of_traces_does_not_change_the_packs():
    """Packs depend on what the traces are, not on how they came."""
    traces = _traces([[2, 0, 1], [0, 1], [2, 0, 2], [1]])
    names = [
        [[sequence.trace_id for sequence in pack.sequences] for pack in build_packs(order, token_budget=4)]
        for order in (traces, traces[::-1])
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_sequence_that_begins_another_ends_inside_it(order):
    """A sequence that is the beginning of another adds no slot, whichever comes first."""
    both = [logged(range(12), [11], trace="short"), logged(range(15), [14], trace="long")]
    pack = make_pack([both[number] for number in order])
    assert pack.num_slots == 15
