"""The data-quality report as plain data: what the HTML page shows and the JSON twin holds."""

from __future__ import annotations

from typing import Literal

from pydantic.dataclasses import dataclass

from validate.report.counts import CLOSED, Waterfall, balance
from validate.report.evidence import Estimate, LogprobSection, MaskSection, StalenessSection, Status
from validate.report.scores import ConcentrationSection, JudgeSection, RewardSection, UpdateSection

Decision = Literal["go", "hold", "no_go", "skipped", "undecided"]
"""What the gate decided; undecided while a run has no decision yet."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Verdict:
    """The decision, why, and what would change it."""

    decision: Decision
    """The gate's word for the night."""
    sentence: str
    """Why, in one sentence."""
    action: str
    """The one action that would change it."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class TrendPoint:
    """The same measurement on an earlier night."""

    night: str
    """The night, YYYY-MM-DD."""
    value: float | None
    """The measurement; null when it was not measured."""
    status: Status
    """How it stood."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Check:
    """One line of the gate table."""

    section: str
    """Section of the report that it belongs to."""
    name: str
    """Its name in the catalog and in `findings`."""
    subject: str
    """Of what: all, or a version, source or class."""
    title: str
    """Its name for people."""
    meaning: str
    """What the value is and over what it is taken; empty for a check that the catalog does not know."""
    unit: str
    """Unit of the value; empty for a plain ratio."""
    estimate: Estimate
    """The measurement."""
    threshold: float | None
    """The bound that it was compared with."""
    comparison: Literal["below", "above"] | None
    """The bad side of the bound."""
    severity: Literal["stop", "hold", "warn", "info"]
    """What crossing the bound means."""
    status: Status
    """How it stands."""
    sentence: str
    """What it says, with the figures."""
    fix: str
    """What to do when it is not ok."""
    trend: tuple[TrendPoint, ...]
    """The last 14 nights, oldest first, this one last."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Quarantined:
    """All traces of the night that one reason keeps out, or keeps waiting."""

    reason: str
    """Code of the reason."""
    stage: str
    """Stage of the gate at which they left."""
    is_pending: bool
    """Whether they wait, rather than being kept out."""
    sentence: str
    """What the reason means."""
    fix: str
    """What to do about it."""
    num_traces: int
    """Traces that left for this reason first; these add up to all that are not admitted."""
    num_also: int
    """Further traces that it holds for, which left for another reason first."""
    usual: float | None
    """Mean of `num_traces` over the nights before; null on the first night."""
    examples: tuple[str, ...]
    """Up to three trace ids."""
    command: str
    """A command that lists all of them."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class RejectedLines:
    """All lines that one reason kept out."""

    reason: str
    """Code of the reason."""
    sentence: str
    """What the reason means."""
    fix: str
    """What to do about it."""
    num_lines: int
    """Lines rejected for it."""
    places: tuple[str, ...]
    """Up to three places, as file and byte offset."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class QuarantineSection:
    """Everything that was kept out, by reason."""

    headline: str
    """The section in one sentence."""
    traces: tuple[Quarantined, ...]
    """Traces by the reason for which they left."""
    lines: tuple[RejectedLines, ...]
    """Lines by the reason for which they were rejected, call logs and outcome files together."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Ancestor:
    """One policy version that the run stands on or made."""

    version: str
    """The version."""
    role: str
    """base, made by this run, or wrote traces."""
    optimizer_step: int
    """Updates since the base weights."""
    parent: str | None
    """The version it was trained from."""
    method: str | None
    """The update method that made it."""
    checkpoint_sha256: str | None
    """SHA-256 over its weight files."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Lineage:
    """From what the report was made."""

    settings_sha256: str
    """SHA-256 of the settings."""
    code_version: str
    """Version of the code."""
    lake_snapshot: int
    """Snapshot of the lake that was read."""
    gate_sha256: str | None
    """SHA-256 of the gate's settings; null when nothing was judged."""
    seed: int | None
    """Seed of the training run; null when the settings name none."""
    policies: tuple[Ancestor, ...]
    """The versions behind the traces and the run."""
    num_erasures: int
    """Erasure requests that had been applied."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class RunFacts:
    """Which run it is."""

    run_id: str
    """The run."""
    kind: str
    """nightly, or the name of the single step."""
    night: str
    """Whose night it is, YYYY-MM-DD."""
    as_of: str
    """The run's clock, ISO 8601 in UTC."""
    base_policy: str | None
    """The current policy when the run began."""
    new_policy: str | None
    """The policy version that the run made."""


@dataclass(frozen=True, kw_only=True, slots=True, config=CLOSED)
class Report:
    """One night's data quality, in the order in which it is read."""

    format: Literal["tracemill-report/1"] = "tracemill-report/1"
    """Name and version of this document's form."""
    run: RunFacts
    """Which run it is."""
    verdict: Verdict
    """The decision."""
    waterfall: Waterfall
    """Where every line and every trace went."""
    checks: tuple[Check, ...]
    """The gate table: every measurement that something is held to, the gravest first."""
    num_checks_not_listed: int
    """Measurements beyond those listed."""
    logprobs: LogprobSection
    """Are there log-probabilities, and are they what we think they are."""
    masks: MaskSection
    """Which tokens the policy wrote, and how many."""
    staleness: StalenessSection
    """How old the traces are, by clock, by updates and by drift."""
    rewards: RewardSection
    """Which rewards there are, which are on their way, and what they say."""
    judge: JudgeSection
    """Whether the judge may be believed."""
    concentration: ConcentrationSection
    """Whether the same trace, or the same user, is in the data many times."""
    updates: UpdateSection
    """What the method was expected to do, and what it did."""
    quarantine: QuarantineSection
    """Everything that was kept out, by reason."""
    lineage: Lineage
    """From what the report was made."""

    def __post_init__(self) -> None:
        """Refuse sections that disagree about how many traces there are."""
        water = self.waterfall
        judged = water.num_judged
        balance("rewards of judged traces", judged, self.rewards.ledger.num_traces)
        balance("judged traces by version", judged, *(row.num_traces for row in self.logprobs.by_version))
        balance("judged traces by day", judged, *(row.num_traces for row in self.logprobs.by_day))
        balance("lags of judged traces", judged, *(row.num_traces for row in self.staleness.versions))
        kept_out = [row.num_traces for row in self.quarantine.traces]
        balance("reasons of traces that were not admitted", judged - water.num_admitted, *kept_out)
        rejected = water.call_lines.num_rejects + water.outcome_lines.num_rejects
        balance("reasons of rejected lines", rejected, *(row.num_lines for row in self.quarantine.lines))
