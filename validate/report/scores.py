"""What is known of the scores and of the updates: rewards, the judge, concentration, coefficients."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from validate.report.counts import CLOSED, balance
from validate.report.evidence import Curve, Estimate, Figure


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class RewardSource:
    """What one scorer said."""

    name: str
    """What was scored."""
    source_kind: str
    """human, program, judge, user or webhook."""
    source: str
    """Who scored."""
    scorer_version: str
    """Version of the scorer; empty when it has none."""
    num_outcomes: int
    """Events, superseded ones included."""
    num_traces: int
    """Judged traces that have its score."""
    num_orphans: int
    """Traces that it scored and that are not among the judged ones."""
    mean: float | None
    """Mean score over its traces."""
    standard_deviation: float | None
    """Standard deviation of the same."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class RewardMean:
    """The mean reward of one group of traces, and what it would be if a missing reward were read as 0."""

    label: str
    """The version, or `all`."""
    num_traces: int
    """Traces judged."""
    mean: Estimate
    """Mean over the traces that have a reward: the missing ones are skipped."""
    mean_if_zero: float | None
    """The same with every missing reward read as 0: shown as a warning, never used."""
    standard_deviation: float | None
    """Standard deviation of the rewards that there are."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class RewardLedger:
    """Where the reward of every judged trace stands; each trace is in one place."""

    num_traces: int
    """Traces judged."""
    num_mature: int
    """A reward that may be trained on."""
    num_pending: int
    """No outcome yet, and the maturity window is open."""
    num_immature: int
    """An outcome that may still be revised."""
    num_missing: int
    """No outcome within the maturity window."""
    num_refused: int
    """Outcomes that conflict or lie out of range."""

    def __post_init__(self) -> None:
        """Refuse a trace whose reward is in no place or in two."""
        parts = (self.num_mature, self.num_pending, self.num_immature, self.num_missing, self.num_refused)
        balance("rewards", self.num_traces, *parts)


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class RewardSection:
    """Which rewards there are, which are on their way, and what they say."""

    headline: str
    """The section in one sentence."""
    ledger: RewardLedger
    """Where every trace's reward stands."""
    maturity_hours: float | None
    """Hours that a reward is given to arrive and to be revised; null when unknown."""
    sources: tuple[RewardSource, ...]
    """One row per scorer, those with most traces first."""
    num_sources_not_listed: int
    """Scorers beyond those listed."""
    arrival: tuple[Curve, ...]
    """Share of the traces at least x hours old whose first outcome had come within x hours."""
    means: tuple[RewardMean, ...]
    """All traces first, then one row per version."""
    histogram: tuple[tuple[float, float, int], ...]
    """Lower edge, upper edge and number of traces of each class of rewards."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class JudgeSection:
    """Whether the judge may be believed."""

    headline: str
    """The section in one sentence."""
    is_measured: bool
    """False when there was nothing to compare the judge with."""
    figures: tuple[Figure, ...]
    """Agreement with people, and the pass rate that follows from it."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class ConcentrationSection:
    """Whether the same trace, or the same user, is in the data many times."""

    headline: str
    """The section in one sentence."""
    num_users: int
    """Users among the traces whose user is known."""
    num_with_user: int
    """Traces whose user is known."""
    top_user_share: float | None
    """Share of those that the most frequent user wrote."""
    effective_users: float | None
    """(sum n)^2 / sum n^2 over users: how many equally frequent users would be as mixed."""
    num_duplicates: int
    """Traces that equal an earlier trace."""
    figures: tuple[Figure, ...]
    """What the scans of duplicates and concentration found."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class ReplayedVersion:
    """What the updates made of the admitted traces of one version."""

    version: str
    """The version that wrote them."""
    num_admitted: int
    """Admitted traces."""
    num_replayed: int
    """Of those, traces that an update read."""
    num_in_trust: int
    """Of those, traces that the method let move the policy."""
    mean_advantage: float | None
    """Mean advantage of the replayed traces."""
    positive_mass: float
    """Sum of the positive coefficients."""
    negative_mass: float
    """Sum of the negative coefficients, as a negative number."""
    mass_share: float | None
    """Its share of the absolute coefficient mass: whose traces move the model."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class UpdateRow:
    """One update, or several in a row when there were many."""

    first_step: int
    """First update, from 0."""
    last_step: int
    """Last update; the same for a row of one."""
    num_traces: int
    """Traces read."""
    num_in_trust: int
    """Of those, traces that moved the policy."""
    mean_drift: float
    """Mean drift of the traces when they were read, in nats per action token."""
    max_ratio: float
    """Largest importance ratio."""
    masked_share: float
    """Mean share of action tokens whose coefficient is 0."""
    positive_mass: float
    """Sum of the positive coefficients."""
    negative_mass: float
    """Sum of the negative coefficients, as a negative number."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class TrainingCurve:
    """One figure of the updates, from the first to the last."""

    name: str
    """Its column in the table `updates`."""
    title: str
    """Its name for people."""
    meaning: str
    """What it is, in one sentence."""
    unit: str
    """Unit of the values; empty for a plain number."""
    num_updates: int
    """Updates behind it."""
    points: tuple[tuple[float, float], ...]
    """Pairs of update, from 0, and value; where updates share a point, the last of them and their mean."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class UpdateSection:
    """What the method was expected to do, and what it did."""

    headline: str
    """The section in one sentence."""
    method: str | None
    """The update method; null when no update ran."""
    preview: tuple[Figure, ...]
    """What was foreseen before any update."""
    versions: tuple[ReplayedVersion, ...]
    """One row per version with an admitted trace."""
    updates: tuple[UpdateRow, ...]
    """The updates in order."""
    curves: tuple[TrainingCurve, ...]
    """How the run's figures went from update to update; none when the table `updates` has fewer than two of the run."""
    num_warmup_updates: int
    """Updates at the beginning in which a critic learned and the policy waited."""
