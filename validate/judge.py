"""The judge scan: whether the judge agrees with people, and what people would say of what it passed.

One verdict a trace: the judge's latest word against the majority of people's latest words. A trace on which people are
split evenly counts for neither class. Without labels every reading is NOT MEASURED.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.settings import Settings
from validate.check import Estimate, Reading, unmeasured
from validate.group import share_reading
from validate.rewards import matching_outcomes
from validate.segments import Booleans, Floats
from validate.statistics import (
    LEAST_INFORMEDNESS,
    Z975,
    Confusion,
    cohen_kappa,
    difference_of_shares,
    gwet_ac1,
    prediction_powered_mean,
    rogan_gladen,
    two_proportion_z,
    wilson,
)
from validate.traces import Traces

LEAST_PER_LENGTH = 6
"""Traces that a length class must have within a label. whileai 0.131, judge_trust."""
_FROM_LABELS = (
    "judge_labels",
    "judge_label_age",
    "judge_tpr",
    "judge_tnr",
    "judge_informedness",
    "judge_accuracy",
    "judge_kappa",
    "judge_ac1",
    "judge_corrected_pass_rate",
    "judge_ppi_pass_rate",
)
_LABELS = ("label:0", "label:1")


class JudgeSettings(Settings):
    """Which outcomes are the judge's, and which of its values pass."""

    name: str | None = None
    """Name of the outcome that judge and people both give; not set when nothing is judged. Convention, untested."""
    source: str | None = None
    """The one judge that counts; by default the latest word of any judge. Convention, untested."""
    pass_value: float = 0.5
    """Values from which on a verdict or a label passes. Convention, untested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opinions:
    """[N] what the judge and what people said of each trace; NaN where nobody did, else 1 for pass and 0 for fail."""

    judge: Floats
    people: Floats
    num_ties: int
    """Judged traces on which people are split evenly."""
    newest_label_us: int | None
    """When the newest label was given, in microseconds since 1970; None without labels."""

    @property
    def is_judged(self) -> Booleans:
        """[N] whether the judge has said something."""
        return ~np.isnan(self.judge)

    @property
    def is_labelled(self) -> Booleans:
        """[N] whether both have said something."""
        return self.is_judged & ~np.isnan(self.people)

    def confusion(self) -> Confusion:
        """Judge against people on the traces that both scored."""
        judge, people = self.judge[self.is_labelled] == 1, self.people[self.is_labelled] == 1
        return Confusion(
            true_pass=int(np.count_nonzero(judge & people)),
            false_pass=int(np.count_nonzero(judge & ~people)),
            false_fail=int(np.count_nonzero(~judge & people)),
            true_fail=int(np.count_nonzero(~judge & ~people)),
        )


def opinions_of(traces: Traces, outcomes: pa.Table, settings: JudgeSettings, *, window: Booleans) -> Opinions:
    """What the judge and what people said of the traces of the window; `outcomes` are of `outcomes_as_of`."""
    judge, people = np.full(traces.num_traces, np.nan), np.full(traces.num_traces, np.nan)
    if settings.name is None:
        return Opinions(judge=judge, people=people, num_ties=0, newest_label_us=None)
    judged, rows, owners = matching_outcomes(traces, outcomes, settings.name, "judge", settings.source)
    judge[owners] = _passes(judged, settings.pass_value)[rows]
    labels, _, _ = matching_outcomes(traces, outcomes, settings.name, "human", None)
    passes = _passes(labels, settings.pass_value)
    labelled = pc.index_in(labels["trace_id"], value_set=traces.trace_ids).to_numpy(zero_copy_only=False)
    given = ~np.isnan(passes)
    owners = labelled[given].astype(np.int64)
    num_raters = np.bincount(owners, minlength=traces.num_traces)
    num_passes = np.bincount(owners, weights=passes[given], minlength=traces.num_traces)
    is_tie = (num_raters > 0) & (2 * num_passes == num_raters)
    decided = (num_raters > 0) & ~is_tie
    people[decided] = (2 * num_passes > num_raters)[decided]
    judge[~window] = np.nan
    people[~window] = np.nan
    newest = pc.max(labels["event_time"].cast(pa.int64())).as_py() if labels.num_rows else None
    num_ties = int(np.count_nonzero(is_tie & ~np.isnan(judge)))
    return Opinions(judge=judge, people=people, num_ties=num_ties, newest_label_us=newest)


def scan_judge(
    opinions: Opinions, lengths: Floats, settings: JudgeSettings, *, is_reward: bool, as_of_us: int
) -> list[Reading]:
    """All readings of the judge; they are advisory unless the judge gives the reward.

    `lengths` is the number of action tokens of each trace.
    """
    if settings.name is None:
        why = "no judge is named: state judge.name in the settings"
        return _nothing([*_FROM_LABELS, "judge_pass_rate"], why, advisory=not is_reward)
    if not opinions.is_judged.any():
        why = f"no outcome named {settings.name} from a judge on the traces of the window"
        return _nothing([*_FROM_LABELS, "judge_pass_rate"], why, advisory=not is_reward)
    judged = opinions.judge[opinions.is_judged]
    num_passed = int(judged.sum())
    raw = share_reading("judge_pass_rate", num_passed, judged.size, "judged traces pass")
    if not opinions.is_labelled.any():
        why = f"no human outcome named {settings.name} on a judged trace: nothing says whether the judge is right"
        return [raw, *_nothing(list(_FROM_LABELS), why, advisory=not is_reward)]
    confusion = opinions.confusion()
    readings = [raw, *_labels(opinions, confusion, as_of_us), *_agreement(confusion)]
    readings += _corrected(opinions, confusion, num_passed)
    readings += [_length_gap(opinions, lengths, label) for label in (0, 1)]
    return [replace(reading, advisory=not is_reward) for reading in readings]


def _labels(opinions: Opinions, confusion: Confusion, as_of_us: int) -> list[Reading]:
    ties = f"; {opinions.num_ties:,} more are split evenly" if opinions.num_ties else ""
    count = Reading(
        name="judge_labels",
        estimate=Estimate(float(confusion.num_labels), num_observations=confusion.num_labels),
        sentence=f"{confusion.num_labels:,} judged traces have a human label: {confusion.num_good:,} good, "
        f"{confusion.num_bad:,} bad{ties}",
    )
    newest = opinions.newest_label_us
    assert newest is not None, "labels without a time"  # noqa: S101 - only our own bug could break it
    days = (as_of_us - newest) / 8.64e10
    age = Reading(
        name="judge_label_age",
        estimate=Estimate(days, num_observations=confusion.num_labels),
        sentence=f"the newest of {confusion.num_labels:,} labels is {days:.1f} days old",
    )
    return [count, age]


def _agreement(confusion: Confusion) -> list[Reading]:
    good, bad = confusion.num_good, confusion.num_bad
    agreed = confusion.true_pass + confusion.true_fail
    readings = [
        share_reading("judge_tpr", confusion.true_pass, good, "traces that people pass, the judge passes"),
        share_reading("judge_tnr", confusion.true_fail, bad, "traces that people fail, the judge fails"),
        share_reading("judge_accuracy", agreed, confusion.num_labels, "labelled traces: judge and people agree"),
    ]
    kappa, ac1 = cohen_kappa(confusion), gwet_ac1(confusion)
    if kappa.value is None:
        readings.append(unmeasured("judge_kappa", "judge and people give one class only: chance agrees always"))
    else:
        sentence = f"kappa {kappa.value:.2f} over {kappa.num_observations:,} labels"
        readings.append(Reading(name="judge_kappa", estimate=kappa, sentence=sentence))
    sentence = f"AC1 {ac1.value:.2f} over {ac1.num_observations:,} labels"
    return [*readings, Reading(name="judge_ac1", estimate=ac1, sentence=sentence)]


def _corrected(opinions: Opinions, confusion: Confusion, num_passed: int) -> list[Reading]:
    names = ["judge_informedness", "judge_corrected_pass_rate", "judge_ppi_pass_rate"]
    if min(confusion.num_good, confusion.num_bad) == 0:
        return _nothing(names, "all labels are of one class: TPR or TNR is unknown")
    tpr, tnr = wilson(confusion.true_pass, confusion.num_good), wilson(confusion.true_fail, confusion.num_bad)
    informed = (tpr.value or 0.0) + (tnr.value or 0.0)
    readings = [
        Reading(
            name="judge_informedness",
            estimate=Estimate(informed, num_observations=confusion.num_labels),
            sentence=f"TPR {tpr.value:.2f} plus TNR {tnr.value:.2f} is {informed:.2f}; a coin has 1",
        )
    ]
    num_judged = int(opinions.is_judged.sum())
    corrected = rogan_gladen(num_passed, num_judged, confusion)
    if corrected.value is None:
        why = f"TPR + TNR is {informed:.2f}: at or under {LEAST_INFORMEDNESS} nothing can be corrected"
        readings.append(unmeasured("judge_corrected_pass_rate", why))
    else:
        sentence = f"people would pass {corrected.value:.1%}; the judge passes {num_passed / num_judged:.1%}"
        readings.append(Reading(name="judge_corrected_pass_rate", estimate=corrected, sentence=sentence))
    return [*readings, _prediction_powered(opinions)]


def _prediction_powered(opinions: Opinions) -> Reading:
    labelled = opinions.is_labelled
    alone = opinions.judge[opinions.is_judged & ~labelled]
    if alone.size < 2 or np.count_nonzero(labelled) < 2:
        why = "it needs two judged traces without a label and two with one"
        return unmeasured("judge_ppi_pass_rate", why)
    estimate = prediction_powered_mean(alone, opinions.judge[labelled], opinions.people[labelled])
    sentence = (
        f"people would pass {estimate.value:.1%}, by {alone.size:,} verdicts without a label "
        f"and the judge's mean error on {np.count_nonzero(labelled):,}"
    )
    return Reading(name="judge_ppi_pass_rate", estimate=estimate, sentence=sentence)


def _length_gap(opinions: Opinions, lengths: Floats, label: int) -> Reading:
    """Pass rate of long minus short among traces of one label, split at their median length.

    The interval is at 97.5%, so that those of the two labels hold together at 95% (Bonferroni).
    """
    subject = _LABELS[label]
    members = opinions.is_labelled & (opinions.people == label)
    median = float(np.median(lengths[members])) if members.any() else 0.0
    long, short = members & (lengths > median), members & (lengths <= median)
    num_long, num_short = int(long.sum()), int(short.sum())
    if min(num_long, num_short) < LEAST_PER_LENGTH:
        why = f"{num_long} long and {num_short} short traces of this label; expected {LEAST_PER_LENGTH} of each"
        return unmeasured("judge_length_gap", why, subject=subject, num_observations=num_long + num_short)
    hits = (int(opinions.judge[long].sum()), int(opinions.judge[short].sum()))
    gap = difference_of_shares(hits, (num_long, num_short), Z975)
    _, chance = two_proportion_z(hits, (num_long, num_short))
    sentence = (
        f"passes {hits[0]} of {num_long} above {median:g} tokens and {hits[1]} of {num_short} others "
        f"that people gave the same label, p = {chance:.2g}"
    )
    return Reading(name="judge_length_gap", estimate=gap, sentence=sentence, subject=subject)


def _nothing(names: list[str], why: str, *, advisory: bool = False) -> list[Reading]:
    return [unmeasured(name, why, advisory=advisory) for name in names]


def _passes(outcomes: pa.Table, pass_value: float) -> Floats:
    values = np.asarray(outcomes["value"].cast(pa.float64()).to_numpy(), np.float64)
    return np.where(np.isnan(values), np.nan, values >= pass_value)
