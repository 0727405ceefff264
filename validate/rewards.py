"""The reward of a trace: which outcome it is, whether it may still change, and what keeps a trace out or waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import model_validator

from schemas.outcome import SourceKind
from schemas.settings import Settings
from validate.segments import Booleans, Floats, Integers
from validate.traces import Texts, Traces


class RewardSettings(Settings):
    """Which outcome is the reward, in which range it lies, and how long a trace waits for it."""

    name: str
    """Name of the outcome that is the reward, as the outcomes state it."""
    source_kind: SourceKind
    """Who scores: human, program, judge, user or webhook."""
    source: str | None = None
    """The one scorer that counts; by default the latest word of any of that kind. Convention, untested."""
    maturity_hours: float = 36.0
    """Hours from the end of a trace until its reward counts as final. Four times the mean delay of 9 hours of the
    recorded example: 98% of exponential delays are shorter. Convention, untested."""
    lowest: float = 0.0
    """Lowest reward there is. Convention, untested."""
    highest: float = 1.0
    """Highest reward there is. Convention, untested."""
    skew_minutes: float = 5.0
    """Minutes by which an outcome may be older than the trace that it scores, for clocks differ.
    Convention, untested."""

    @model_validator(mode="after")
    def _refuse_empty_ranges(self) -> Self:
        if self.maturity_hours < 0:
            raise ValueError(f"maturity_hours = {self.maturity_hours}: expected 0 or more; 0 trusts the first outcome")
        if self.skew_minutes < 0:
            raise ValueError(f"skew_minutes = {self.skew_minutes}: expected 0 or more")
        if self.lowest >= self.highest:
            raise ValueError(f"lowest = {self.lowest} and highest = {self.highest}: expected lowest below highest")
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class Rewards:
    """[N] the reward of each trace by the settings' rule, and where it came from."""

    value: Floats
    """The reward; NaN while none has arrived or when it was withdrawn."""
    has_arrived: Booleans
    """Whether any outcome has reached us, withdrawn ones included."""
    is_conflict: Booleans
    """Whether outcomes of the same time and source disagree."""
    is_ambiguous: Booleans
    """Whether an outcome that stands may be about this trace or about another."""
    is_early: Booleans
    """Whether the reward is older than the trace, by more than the skew of clocks."""
    is_revised: Booleans
    """Whether its source has spoken more than once."""
    is_mature: Booleans
    """Whether the maturity window is over."""
    wait_hours: Floats
    """Hours from the end of the trace until its first outcome reached us; until the run's clock where none did."""
    source: Texts
    """`KIND/NAME` of the scorer; None without a reward."""
    num_orphans: int
    """Outcomes of the reward's name whose trace has not been seen."""

    @property
    def has_any(self) -> Booleans:
        """[N] whether there is a reward."""
        return ~np.isnan(self.value)


def reward_of(
    traces: Traces, outcomes: pa.Table, settings: RewardSettings, *, as_of_us: int, is_timed: Booleans | None = None
) -> Rewards:
    """The latest outcome of each trace that the settings name; rows of `outcomes` are of `outcomes_as_of`.

    Where `is_timed` [N] is false the log had no time of the trace, so no outcome is too early for it.
    Of several sources the latest word counts; of two with one time, the source that is last by name.
    """
    age_hours = traces.age_hours(as_of_us)
    matching, rows, owners = matching_outcomes(traces, outcomes, settings.name, settings.source_kind, settings.source)
    value = np.full(traces.num_traces, np.nan)
    value[owners] = _floats(matching["value"])[rows]
    conflict, revised, early = (np.zeros(traces.num_traces, np.bool_) for _ in range(3))
    conflict[owners] = matching["is_conflict"].to_numpy(zero_copy_only=False)[rows]
    revised[owners] = matching["num_events"].to_numpy()[rows] > 1
    given_us = matching["event_time"].cast(pa.int64()).to_numpy()[rows]
    early[owners] = given_us < traces.started_us()[owners] - settings.skew_minutes * 6e7
    if is_timed is not None:
        early &= is_timed
    source = np.full(traces.num_traces, None, dtype=object)
    names = pc.binary_join_element_wise(matching["source_kind"], matching["source"], "/")
    source[owners] = names.to_numpy(zero_copy_only=False)[rows]
    source[np.isnan(value)] = None
    arrived = np.zeros(traces.num_traces, np.bool_)
    arrived[owners] = True
    first_us = np.zeros(traces.num_traces, np.int64)
    first_us[owners] = matching["first_observed_time"].cast(pa.int64()).to_numpy()[rows]
    delay = age_hours - (as_of_us - first_us) / 3.6e9
    return Rewards(
        value=value,
        has_arrived=arrived,
        is_conflict=conflict,
        is_ambiguous=_ambiguous(traces, outcomes, settings),
        is_early=early & ~np.isnan(value),
        is_revised=revised,
        is_mature=age_hours >= settings.maturity_hours,
        wait_hours=np.maximum(np.where(arrived, delay, age_hours), 0.0),
        source=source,
        num_orphans=_orphans(traces, outcomes, settings),
    )


def matching_outcomes(
    traces: Traces, outcomes: pa.Table, name: str, source_kind: str, source: str | None
) -> tuple[pa.Table, Integers, Integers]:
    """The outcomes of this name and scorer on known traces; the row that counts for each trace; and the traces.

    The rows and the traces run in parallel, one entry a trace that has any. What may be about other traces too is
    left out.
    """
    matching = _named(traces, outcomes, name, source_kind, source)
    matching = matching.filter(pc.greater(matching["num_events"], 0))
    matching = matching.sort_by([("event_time", "ascending"), ("source", "ascending")])
    owners = pc.index_in(matching["trace_id"], value_set=traces.trace_ids).to_numpy(zero_copy_only=False)
    # Of equal traces the last row in order of time counts: looked at backwards, the first.
    found, last = np.unique(owners[::-1].astype(np.int64), return_index=True)
    return matching, (owners.size - 1 - last).astype(np.int64), found


def _named(traces: Traces, outcomes: pa.Table, name: str, source_kind: str, source: str | None) -> pa.Table:
    """The outcomes of this name and scorer on known traces."""
    chosen = pc.and_(pc.equal(outcomes["name"], name), pc.equal(outcomes["source_kind"], source_kind))
    if source is not None:
        chosen = pc.and_(chosen, pc.equal(outcomes["source"], source))
    return outcomes.filter(pc.and_(chosen, pc.is_in(outcomes["trace_id"], value_set=traces.trace_ids)))


def _ambiguous(traces: Traces, outcomes: pa.Table, settings: RewardSettings) -> Booleans:
    named = _named(traces, outcomes, settings.name, settings.source_kind, settings.source)
    doubtful = named["trace_id"].filter(named["is_ambiguous"])
    found = pc.is_in(traces.trace_ids, value_set=doubtful.combine_chunks())
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def find_bad_rewards(rewards: Rewards, settings: RewardSettings) -> dict[str, Booleans]:
    """[N] per reason: which traces wait for a reward, never got one, or have one that cannot be used."""
    has_any, is_mature, is_silent = rewards.has_any, rewards.is_mature, ~rewards.has_any & ~rewards.is_ambiguous
    out_of_range = (rewards.value < settings.lowest) | (rewards.value > settings.highest)
    return {
        "reward_pending": is_silent & ~is_mature,
        "reward_immature": has_any & ~is_mature,
        "reward_missing": is_silent & is_mature,
        "reward_out_of_range": has_any & out_of_range,
        "conflicting_outcomes": rewards.is_conflict,
        "ambiguous_join": rewards.is_ambiguous,
        "score_precedes_trace": rewards.is_early,
    }


def _orphans(traces: Traces, outcomes: pa.Table, settings: RewardSettings) -> int:
    named = outcomes.filter(pc.and_(pc.equal(outcomes["name"], settings.name), pc.invert(outcomes["is_ambiguous"])))
    known = pc.is_in(named["trace_id"], value_set=traces.trace_ids)
    return int(pc.sum(pc.if_else(known, 0, named["num_events"])).as_py() or 0)


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
