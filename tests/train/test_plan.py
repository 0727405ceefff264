"""The plan: which trace in which update, by what was admitted and a seed alone."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import UsageError
from train.plan import Admitted, Plan, make_plan


def _admitted(num):
    return [Admitted(f"t{number}", 0, float(number % 2)) for number in range(num)]


def _plan(admitted, **changes):
    options = {"batch_size": 4, "max_updates": 10, "seed": 0, "parent": "v1", "settings_sha256": "s", **changes}
    return make_plan(admitted, **{"began_at": "2026-11-29T00:00:00+00:00", **options})


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 5))
def test_every_trace_is_in_one_batch_or_left(num, size, most):
    """Nothing is lost or trained twice, and what is left is counted."""
    plan = _plan(_admitted(num), batch_size=size, max_updates=most)
    planned = [trace for batch in plan.batches for trace in batch]
    assert len(set(planned)) == len(planned) == plan.num_traces == num - plan.num_left
    assert len(plan.batches) == min(most, max(1, num // size))


@given(st.randoms(use_true_random=False))
def test_the_order_in_which_traces_come_changes_nothing(random):
    """The plan is a function of the set."""
    shuffled = _admitted(9)
    random.shuffle(shuffled)
    assert _plan(shuffled) == _plan(_admitted(9))


def test_a_seed_gives_another_order():
    """Two seeds, two orders of the same traces."""
    assert _plan(_admitted(9), seed=1).batches != _plan(_admitted(9), seed=2).batches


def test_another_reward_gives_another_digest():
    """The digest is over ids, revisions and rewards."""
    changed = [*_admitted(8), Admitted("t8", 0, 0.5)]
    assert _plan(changed).manifest_sha256 != _plan(_admitted(9)).manifest_sha256


def test_fewer_traces_than_a_batch_make_one_smaller_batch():
    """Three traces at a batch size of four are one batch of three."""
    assert [len(batch) for batch in _plan(_admitted(3)).batches] == [3]


def test_a_saved_plan_is_read_back(tmp_path):
    """Plans survive JSON."""
    plan = _plan(_admitted(9))
    plan.save(tmp_path / "run" / "plan.json")
    assert Plan.load(tmp_path / "run" / "plan.json") == plan


def test_a_plan_is_on_disk_before_it_is_acted_on(tmp_path, monkeypatch):
    """A power failure after the first update must not take the plan of the run with it."""
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), sync(descriptor)))
    _plan(_admitted(9)).save(tmp_path / "plan.json")
    assert len(synced) == 2


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (_plan(_admitted(9), settings_sha256="other"), "other training settings"),
        (_plan(_admitted(8)), "other admitted traces"),
    ],
)
def test_a_run_is_not_continued_as_another(other, said, tmp_path):
    """Half a run under other settings or traces would be no run at all."""
    with pytest.raises(UsageError, match=said):
        _plan(_admitted(9)).require_same(other, tmp_path)


def _of_asks(**asks):
    """So many traces of each ask."""
    return [Admitted(f"{ask}{number}", 0, 1.0, ask) for ask, num in asks.items() for number in range(num)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=8).filter(lambda sizes: max(sizes) > 1), st.integers(2, 6))
def test_traces_of_one_ask_stay_together(sizes, batch_size):
    """All of an ask in one batch, or all of it left; nobody is alone."""
    admitted = _of_asks(**{f"ask{number}": size for number, size in enumerate(sizes)})
    plan = _plan(admitted, batch_size=batch_size, by_ask=True)
    for batch in plan.batches:
        for ask in {trace.ask_id for trace in batch}:
            assert sum(trace.ask_id == ask for trace in batch) == sizes[int(ask.removeprefix("ask"))] > 1
    assert plan.num_traces + plan.num_left == len(admitted)


def test_a_batch_by_ask_is_at_least_as_large_as_it_should_be():
    """Three asks of three, batches of four: the first holds two asks, the third ask waits."""
    plan = _plan(_of_asks(a=3, b=3, c=3), batch_size=4, by_ask=True)
    assert [len(batch) for batch in plan.batches] == [6]
    assert plan.num_left == 3


@pytest.mark.parametrize("admitted", [_of_asks(a=1, b=1), _admitted(3)])
def test_traces_that_are_all_alone_are_refused_for_a_method_of_groups(admitted):
    """One try an ask, or asks that no log names: there is nothing to compare."""
    with pytest.raises(
        UsageError, match=r"each alone with its ask, .*expected at least two traces of an ask; use flash"
    ):
        _plan(admitted, by_ask=True)


def test_no_pass_is_left_unfinished():
    """Five updates are enough for two batches twice, in the same order, and not for three."""
    plan = _plan(_admitted(12), max_updates=5, passes=2)
    assert len(plan.batches) == 4
    assert plan.batches[:2] == plan.batches[2:]
