"""What a report is made from: one run, and the tables as the run's snapshot of the lake has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from schemas.errors import UsageError
from validate.catalog import MEASURES
from validate.report.evidence import Estimate, Figure, Status
from validate.report.words import clipped
from validate.waterfall import STAGES

if TYPE_CHECKING:
    from warehouse.lake import Lake

Row = Mapping[str, Any]

MAX_LABELS = 9
"""Versions, workloads and the like that are told apart by name; the rest is shown together, as one more. A chart of
this size has room for about ten labels; convention, untested."""
MAX_DAYS = 14
"""Days told apart, as many as the trend has nights; convention, untested."""
MAX_LABEL_LENGTH = 120
"""Bytes of a foreign name that are kept; convention, untested."""
MAX_SENTENCE_LENGTH = 360
"""Bytes of a foreign sentence that are kept; convention, untested."""

_MISALIGNED = ("no_token_ids", "no_prompt_ids", "no_action_tokens", "len_mismatch")
_UNUSABLE = tuple(
    code for stage in STAGES if stage.name in {"structure", "logprobs", "version"} for code in stage.reasons
)
_DRIFT_COLUMNS = (
    "trace_id",
    "policy_version",
    "behavior_version",
    "is_complete",
    "num_action_tokens",
    "mean_bernoulli_kl",
    "mean_abs_log_ratio",
    "k3",
    "m2",
    "max_ratio",
)


def rounded(value: float | None) -> float | None:
    """The number to six significant digits, so that the order of a sum does not show; null for what is no number."""
    if value is None or value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN
        return None
    return float(f"{value:.6g}") + 0.0


def known(value: float | None) -> float:
    """A number that is there whenever its row is, rounded."""
    number = rounded(value)
    assert number is not None, "a statistic over at least one row is null"  # noqa: S101 - only our own SQL could do it
    return number


def label(text: str | None) -> str:
    """A foreign name, its end cut off when it is very long."""
    return clipped(text or "", MAX_LABEL_LENGTH)


def sentence(text: str | None) -> str:
    """A foreign sentence, its end cut off when it is very long."""
    return clipped(text or "", MAX_SENTENCE_LENGTH)


@dataclass(frozen=True)
class Inputs:
    """One run and the tables behind it; each table is read once, when it is first asked for.

    Everything that was landed, assembled, scored or asked before the gate is read at the snapshot that the gate read,
    so that a report of an old run does not change when the lake grows.
    """

    lake: Lake
    run_id: str
    run: Row
    snapshot: int

    def rows(self, name: str, tables: Mapping[str, pa.Table] | None = None, **parameters: Any) -> list[Any]:
        """The rows of a named query under report/."""
        return list(self.lake.query(f"report/{name}", tables, **parameters).to_pylist())

    def setting(self, group: str, name: str) -> Any:
        """One setting of the run; None when its settings have no such name."""
        return (self.settings.get(group) or {}).get(name)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The run's settings."""
        found = json.loads(self.run["settings_json"])
        return found if isinstance(found, dict) else {}

    @cached_property
    def middle(self) -> float:
        """Where the range of rewards is cut in two."""
        lowest, highest = self.reward_range
        return (lowest + highest) / 2

    @property
    def reward_range(self) -> tuple[float, float]:
        """Lowest and highest reward that the settings admit."""
        lowest, highest = self.setting("reward", "lowest"), self.setting("reward", "highest")
        return (0.0 if lowest is None else float(lowest), 1.0 if highest is None else float(highest))

    @cached_property
    def summaries(self) -> pa.Table:
        """One row per trace, without its tokens."""
        return self.lake.read("trace_summaries", snapshot=self.snapshot)

    @cached_property
    def judged(self) -> pa.Table:
        """One row per verdict of the run."""
        return self.lake.query(
            "report/judged",
            {"summaries": self.summaries},
            run_id=self.run_id,
            misaligned=list(_MISALIGNED),
            unusable=list(_UNUSABLE),
            num_labels=MAX_LABELS,
            num_days=MAX_DAYS,
        )

    @cached_property
    def calls(self) -> Row:
        """How many calls, of how many lines and traces, there are; one row of `report/calls`."""
        names = {"summaries": self.summaries.select(["trace_id"]), "judged": self.judged.select(["trace_id"])}
        row: Row = self.rows("calls", names, snapshot=self.snapshot)[0]
        return row

    @cached_property
    def drifts(self) -> pa.Table:
        """One row per trace and policy version that scored it."""
        return self.lake.read("trace_drift", columns=_DRIFT_COLUMNS, snapshot=self.snapshot)

    @cached_property
    def said(self) -> pa.Table:
        """What each source had said about each trace by the run's clock."""
        return self.lake.query(
            "validate/outcomes_as_of",
            {
                "events": self.lake.read("joined_outcomes", snapshot=self.snapshot),
                "shared": self.lake.read("shared_keys", snapshot=self.snapshot),
            },
            as_of=self.run["as_of"],
        )

    @cached_property
    def nights(self) -> pa.Table:
        """The run that speaks for each of the last nights."""
        return self.lake.query("report/nights", run_id=self.run_id)

    @cached_property
    def findings(self) -> list[dict[str, Any]]:
        """The run's findings."""
        return self.rows("findings", run_id=self.run_id)

    def finding(self, name: str, subject: str = "all") -> Row | None:
        """One finding of the run."""
        return self._by_name.get((name, subject))

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], Row]:
        return {(row["name"], row["subject"]): row for row in self.findings}

    def figures(self, section: str) -> tuple[Figure, ...]:
        """The findings of one section about the whole night, in the order of the catalog, unknown names last."""
        order = {name: position for position, name in enumerate(MEASURES)}
        rows = [row for row in self.findings if row["section"] == section and row["subject"] == "all"]
        rows.sort(key=lambda row: (order.get(row["name"], len(order)), row["name"]))
        return tuple(figure_of(row) for row in rows)


def read_inputs(lake: Lake, run_id: str) -> Inputs:
    """The run and its snapshot; `UsageError` when there is no such run."""
    found = lake.query("report/run", run_id=run_id).to_pylist()
    if not found:
        raise UsageError(f"no run {run_id!r} in {lake.root}; expected one that `tracemill runs` lists")
    recorded = found[0]["lake_snapshot"]
    return Inputs(lake=lake, run_id=run_id, run=found[0], snapshot=lake.snapshot() if recorded is None else recorded)


def estimate_of(row: Row | None) -> Estimate:
    """The measurement of a finding; of no finding, none."""
    if row is None:
        return Estimate(value=None)
    return Estimate(
        value=rounded(row["value"]),
        lower=rounded(row["lower"]),
        upper=rounded(row["upper"]),
        num_observations=row["num_observations"],
    )


def status_of(row: Row) -> Status:
    """How a finding stands; `info` when nothing is held to it, not measured when it has no number."""
    status: Status = row["status"]
    if row["value"] is None:
        return "not_measured"
    return "info" if status == "ok" and row["threshold"] is None else status


def title_of(name: str) -> str:
    """A finding's name for people; of a name that the catalog does not know, the name itself."""
    return MEASURES[name].title if name in MEASURES else label(name)


def figure_of(row: Row) -> Figure:
    """A finding as a line of its section."""
    return Figure(
        name=label(row["name"]),
        subject=label(row["subject"]),
        title=title_of(row["name"]),
        unit=label(row["unit"]),
        estimate=estimate_of(row),
        status=status_of(row),
        sentence=sentence(row["sentence"]),
    )
