"""Alarms: silent on what good runs look like, loud on a run that runs away."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.train.logged import OPTIMIZATION, facts
from train.alarms import AlarmSettings, first_alarm, last_word
from train.learner import Learner
from train.methods import FlashReinforce
from train.policy import Policy
from train.watching import common_figures

SETTINGS = AlarmSettings()
NAMES = ("drift", "entropy", "explained_variance", "in_trust")
# (figure, inside its bound, beyond it), all far from the bound itself.
BEYOND = {
    "drift": {"mean_drift": 0.2},
    "entropy": {"mean_entropy": 0.01},
    "explained_variance": {"critic_explained_variance": -0.9},
    "in_trust": {"num_in_trust": 2},
}


def good(**changes):
    """An update within all bounds."""
    figures = {
        "is_critic_warming_up": False,
        "num_traces": 10,
        "num_in_trust": 9,
        "mean_drift": 0.001,
        "mean_entropy": 0.5,
        "mean_surprise": 0.5,
        "critic_explained_variance": 0.2,
    }
    return figures | changes


GOOD = st.builds(
    good,
    num_in_trust=st.integers(5, 10),
    mean_drift=st.floats(0.0, 0.03),
    mean_entropy=st.floats(0.15, 3.0),
    critic_explained_variance=st.floats(-0.5, 0.0),
)


@settings(deadline=None)
@given(history=st.lists(GOOD, max_size=20))
def test_any_history_within_the_bounds_is_silent(history):
    """Whatever the figures do on the right side of their bounds: the run goes on."""
    assert first_alarm(history, SETTINGS) is None


@settings(deadline=None)
@given(history=st.lists(GOOD, min_size=1, max_size=10), name=st.sampled_from(NAMES))
def test_any_history_that_stays_beyond_a_bound_is_stopped_by_it(history, name):
    """Three updates beyond, after an update that was measured before anything moved."""
    bad = [good(**BEYOND[name])] * 3
    assert first_alarm([*history, *bad[:2]], SETTINGS) is None
    alarm = first_alarm([*history, *bad], SETTINGS)
    assert alarm.name == name
    assert alarm.num_good == len(history) - 1


@settings(deadline=None)
@given(history=st.lists(GOOD, min_size=1, max_size=6), name=st.sampled_from(NAMES), odd=st.sets(st.integers(0, 11)))
def test_any_odd_batches_that_are_no_window_stop_nothing(history, name, odd):
    """One good update in each window is enough."""
    mixed = [good(**BEYOND[name]) if n in odd and n % 3 else good() for n in range(12)]
    assert first_alarm(history + mixed, SETTINGS) is None


@settings(deadline=None)
@given(
    history=st.lists(st.sampled_from([good(), good(mean_drift=0.2), good(num_in_trust=1)]), max_size=8),
    at=st.integers(0, 8),
    drift=st.floats(allow_nan=True),
)
def test_any_warm_up_changes_nothing(history, at, drift):
    """The updates in which a critic learns alone are neither judged nor compared with."""
    waits = good(is_critic_warming_up=True, num_in_trust=0, mean_drift=drift, mean_entropy=0.0)
    with_warm_up = [*history[:at], waits, waits, *history[at:]]
    alarm, expected = first_alarm(with_warm_up, SETTINGS), first_alarm(history, SETTINGS)
    assert (alarm is None) == (expected is None)
    assert alarm is None or alarm.name == expected.name


@pytest.mark.parametrize("nothing", [None, math.nan, "left out"])
@pytest.mark.parametrize("figure", ["mean_drift", "mean_entropy", "mean_surprise", "critic_explained_variance"])
def test_a_figure_that_is_not_there_is_no_alarm(figure, nothing):
    """A method without ratios has no drift, one without a critic explains no variance."""
    bare = good(**{figure: nothing})
    history = [{name: value for name, value in bare.items() if value != "left out"}] * 9
    assert first_alarm(history, SETTINGS) is None


@pytest.mark.parametrize("name", NAMES)
def test_an_alarm_that_is_off_is_silent_and_the_others_are_not(name):
    """Each is turned off by its own name."""
    (other,) = [other for other in NAMES if other > name][:1] or ["drift"]
    only, both = BEYOND[name], BEYOND[name] | BEYOND[other]
    off = AlarmSettings(off=(name,))
    assert first_alarm([good(), *[good(**only)] * 5], off) is None
    assert first_alarm([good(), *[good(**both)] * 5], off).name == other


@pytest.mark.parametrize("name", NAMES)
def test_the_first_updates_sound_no_alarm(name):
    """A run that begins beyond a bound has not crossed it: the first update was measured before it moved anything."""
    assert first_alarm([good(**BEYOND[name])] * 3, SETTINGS) is None


def test_drift_that_the_traces_brought_along_is_not_the_runs():
    """Traces of an old version begin at 0.1 nats; 0.12 is 0.02 more, 0.14 is 0.04 more and over 0.03."""
    old = [good(mean_drift=0.1)]
    assert first_alarm(old + [good(mean_drift=0.12)] * 5, SETTINGS) is None
    assert first_alarm(old + [good(mean_drift=0.14)] * 3, SETTINGS).name == "drift"


def test_explained_variance_is_compared_with_its_own_best():
    """Medians of three in a row: 0.5, 0.6 and 0.7 at best, so 0.2 is the bound; one lucky 0.99 is no level."""
    risen = [good(critic_explained_variance=value) for value in (0.1, 0.5, 0.7, 0.6, 0.99)]
    assert first_alarm([*risen, *[good(critic_explained_variance=0.21)] * 3], SETTINGS) is None
    alarm = first_alarm([*risen, *[good(critic_explained_variance=0.19)] * 3], SETTINGS)
    assert alarm.name == "explained_variance"
    assert "expected at least 0.2," in str(alarm)


def test_entropy_is_compared_with_what_it_began_at():
    """Where tokens were more surprising than the policy is uncertain, 0.3 of 0.5 is the bound."""
    began = [good(mean_entropy=0.25)]
    assert first_alarm(began + [good(mean_entropy=0.08)] * 3, SETTINGS) is None
    assert first_alarm(began + [good(mean_entropy=0.07)] * 3, SETTINGS).name == "entropy"


def test_a_sentence_says_values_bound_updates_and_the_way_out():
    """Everything that a reader of the log needs."""
    shares = [good(num_in_trust=number) for number in (10, 9, 4, 3, 2)]
    said = str(first_alarm(shares, SETTINGS))
    assert said == (
        "the share of traces in trust was 0.4, 0.3, 0.2 in the last 3 updates (2 to 4), after 1 in update 0; expected "
        "at least 0.5, which it last kept after 1 updates; lower train.learning_rate if it fell within the run, train "
        "sooner after serving if it began low, or lower train.alarms.lowest_in_trust_share, or add in_trust to "
        "train.alarms.off"
    )


def test_a_window_of_one_batch_is_refused():
    """One batch says nothing."""
    with pytest.raises(ValidationError, match="window"):
        AlarmSettings(window=1)


def _history(tiny_folder, adapter, traces, learning_rate, num_updates=6):
    """The figures of updates on the same traces at that rate."""
    policy = Policy.load(tiny_folder)
    policy.use(adapter)
    optimization = replace(OPTIMIZATION, learning_rate=learning_rate, max_grad_norm=1.0)
    learner = Learner(policy, FlashReinforce(trust=0.02), optimization, 10_000)
    rewards = {trace[0].trace_id: float(number % 2) for number, trace in enumerate(traces)}
    history = []
    for number in range(num_updates):
        learned = learner.learn(number, traces, facts(rewards))
        num_in_trust = int(learned.update.in_trust.sum())
        history.append({**learned.figures, **common_figures(learned.update), "num_in_trust": num_in_trust})
    return history


def test_a_real_run_at_an_absurd_rate_is_stopped_and_one_at_a_small_rate_is_not(tiny_folder, adapter, traces):
    """The tiny model at 1e-4 stays where it was; at 0.3 it has left its traces after one update."""
    calm = _history(tiny_folder, adapter, traces, 1e-4)
    wild = _history(tiny_folder, adapter, traces, 0.3)
    assert all(first_alarm(calm[:n], SETTINGS) is None for n in range(len(calm) + 1))
    assert first_alarm(wild[:4], SETTINGS).name == "drift"
    assert first_alarm(wild[:4], AlarmSettings(off=("drift",))).name == "in_trust"


def test_a_run_too_short_for_an_alarm_is_judged_by_its_last_update():
    """Two updates, the second with one trace of four in trust: a sentence; the same after a first like it: none."""
    good, bad = ({"num_traces": 4, "num_in_trust": count, "mean_drift": 0.0} for count in (4, 1))
    assert "share of traces in trust was 0.25 in the last of 2 updates" in last_word([good, bad], AlarmSettings())
    assert last_word([bad, bad], AlarmSettings()) is None
    assert last_word([good, good], AlarmSettings()) is None
    assert last_word([good, bad], AlarmSettings(off=("in_trust",))) is None
    assert last_word([good, good, good, bad], AlarmSettings()) is None
