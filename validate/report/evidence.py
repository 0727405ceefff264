"""What is known of the traces themselves: log-probabilities, masks and length, staleness."""

from __future__ import annotations

from typing import Literal

from pydantic.dataclasses import dataclass

from validate.report.counts import CLOSED, balance

Status = Literal["ok", "info", "warn", "hold", "stop", "not_measured"]
"""How a measurement stands; `info` is a number that nothing is held to, `not_measured` is never good news."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Estimate:
    """A number with its company; no number when it could not be measured."""

    value: float | None
    """The number; null when it was not measured."""
    lower: float | None = None
    """Lower end of its 95% interval."""
    upper: float | None = None
    """Upper end of its 95% interval."""
    num_observations: int = 0
    """Observations behind it."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Curve:
    """One line of a chart."""

    label: str
    """What the line is of."""
    num_observations: int
    """Observations behind it."""
    points: tuple[tuple[float, float], ...]
    """Pairs of x and y, x increasing."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Figure:
    """One number of a scan, for people."""

    name: str
    """Its name in the catalog."""
    subject: str
    """Of what: all, or a version, source or class."""
    title: str
    """Its name for people."""
    unit: str
    """Unit of the value; empty for a plain ratio."""
    estimate: Estimate
    """The number."""
    status: Status
    """How it stands."""
    sentence: str
    """What it says, or why it could not be measured."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Coverage:
    """How many traces of one version, or of one day, carry log-probabilities that a ratio can use."""

    label: str
    """The version or the day."""
    num_traces: int
    """Traces judged."""
    num_present: int
    """Traces with log-probabilities at all."""
    num_aligned: int
    """Of those, traces with one log-probability for each sampled token and with the ids of prompt and tokens."""
    num_usable: int
    """Of those, traces that no reason of structure, log-probabilities or version keeps out."""

    def __post_init__(self) -> None:
        """Refuse shares above one."""
        balance(f"traces of {self.label!r}", self.num_traces, max(self.num_traces, self.num_present))
        balance(f"present traces of {self.label!r}", self.num_present, max(self.num_present, self.num_aligned))
        balance(f"aligned traces of {self.label!r}", self.num_aligned, max(self.num_aligned, self.num_usable))


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Meaning:
    """What the log-probabilities of a group of traces are of."""

    logprob_kind: str
    """raw, temperature, processed, unknown, mixed, or others for all rare groups together."""
    temperature: float | None
    """Sampling temperature; null when unknown or mixed."""
    top_p: float | None
    """Nucleus bound; null when unknown."""
    num_traces: int
    """Traces with this meaning."""
    num_usable: int
    """Of those, usable ones."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Canary:
    """A version scored again under its own weights: what is left is the numerics floor, or a fault of the log."""

    version: str
    """The version."""
    num_traces: int
    """Traces scored under the weights that wrote them."""
    mean_abs_log_ratio: float
    """Mean absolute log ratio, in nats per action token."""
    drift: float
    """Mean Bernoulli KL, in nats per action token."""
    max_ratio: float
    """Largest importance ratio; 1 when log and weights agree."""
    bound: float | None
    """The drift from which on the gate says that the log is wrong; null when it sets none."""
    status: Status
    """How the drift stands against it."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class LogprobSection:
    """Are there log-probabilities, and are they what we think they are."""

    headline: str
    """The section in one sentence."""
    by_version: tuple[Coverage, ...]
    """Coverage by the version that wrote the traces."""
    by_day: tuple[Coverage, ...]
    """Coverage by the day on which the traces began, the latest days first."""
    meanings: tuple[Meaning, ...]
    """What the log-probabilities are of."""
    canaries: tuple[Canary, ...]
    """Each version under its own weights; empty when nothing was scored so."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Length:
    """How long the traces of one version are, and how much of them the policy wrote."""

    label: str
    """The version."""
    num_traces: int
    """Traces judged."""
    own_share: float | None
    """Mean share of a trace's tokens that train it; null when no token was logged."""
    num_without_action_tokens: int
    """Traces without any token to train on."""
    num_forked: int
    """Traces of several sequences."""
    tokens_p50: float | None
    """Median action tokens of a trace."""
    tokens_p95: float | None
    """95th percentile of the same."""
    num_truncated: int
    """Traces whose last reply was cut by length or abort."""
    mean_reward_truncated: float | None
    """Mean reward of the cut ones that have a reward."""
    mean_reward_whole: float | None
    """Mean reward of the others that have a reward."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class MaskSection:
    """Which tokens the policy wrote, and how many."""

    headline: str
    """The section in one sentence."""
    lengths: tuple[Length, ...]
    """One row per version."""
    curves: tuple[Curve, ...]
    """Share of traces with at most x action tokens, by reward."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class VersionStaleness:
    """How far the current policy has moved from one version."""

    version: str
    """The version that wrote the traces."""
    num_traces: int
    """Traces judged."""
    policy_lag: int | None
    """Optimizer updates between it and the current policy; null when unknown."""
    age_hours: float
    """Median age of its traces at the run's clock, in hours."""
    num_scored: int
    """Traces scored under the current policy; the figures below are over these."""
    drift_p50: float | None
    """Median drift, in nats per action token."""
    drift_p95: float | None
    """95th percentile of the drift."""
    mean_abs_log_ratio: float | None
    """Mean absolute log ratio, in nats per action token."""
    k3: float | None
    """Mean of ratio minus 1 minus log ratio, in nats."""
    m2: float | None
    """Mean squared log ratio."""
    max_ratio_p99: float | None
    """99th percentile over traces of the largest ratio."""
    num_in_trust: int | None
    """Scored traces whose drift is within the trust; null when the trust is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Selection:
    """Whom the trust gate keeps and whom it drops, in one class of traces."""

    dimension: str
    """By what the traces are told apart: length, workload, reward or version."""
    label: str
    """The class."""
    num_kept: int
    """Usable scored traces within the trust."""
    num_dropped: int
    """Usable scored traces outside it."""
    mean_reward_kept: float | None
    """Mean reward of the kept ones that have one."""
    mean_reward_dropped: float | None
    """Mean reward of the dropped ones that have one."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class StalenessSection:
    """How old the traces are, by clock, by updates and by drift."""

    headline: str
    """The section in one sentence."""
    trust: float | None
    """Highest drift that tonight's gate admits, in nats per action token."""
    max_lag: int | None
    """Highest policy lag that tonight's gate admits, in updates; null when it sets none."""
    max_age_hours: float | None
    """Highest age that tonight's gate admits, in hours; null when it sets none."""
    versions: tuple[VersionStaleness, ...]
    """One row per version, the freshest first."""
    admission: tuple[Curve, ...]
    """Share of scored traces that a trust of x would admit, one line per version."""
    selection: tuple[Selection, ...]
    """Whom the gate drops."""
