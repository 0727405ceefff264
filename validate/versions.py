"""Which policy version wrote a trace, and how many optimizer updates it is behind the current one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from validate.check import Reading
from validate.group import share_reading
from validate.segments import Booleans, Floats
from validate.traces import Texts, Traces


@dataclass(frozen=True, slots=True)
class Policies:
    """The registered versions, the oldest first, and which of them is current."""

    steps: dict[str, int]
    """Optimizer step of each version."""
    parents: dict[str, str | None]
    """The version that each was trained from."""
    runs: dict[str, str | None]
    """The run that made each; None when it came from the settings."""
    current: str | None
    """The version that is trained on tonight; None when none is current."""

    def lineage(self) -> list[str]:
        """The current version and its ancestors, the newest first; an unregistered parent ends it."""
        line: list[str] = []
        version = self.current
        while version is not None and version in self.steps and version not in line:
            line.append(version)
            version = self.parents[version]
        return line


def policies_of(rows: pa.Table) -> Policies:
    """The policies from rows of `current_policies`; of several current ones, the one recorded last."""
    ordered = sorted(rows.to_pylist(), key=lambda row: (row["optimizer_step"], row["policy_version"]))
    current = max(
        (row for row in ordered if row["state"] == "current"),
        key=lambda row: (row["recorded_at"], row["optimizer_step"], row["policy_version"]),
        default=None,
    )
    return Policies(
        steps={row["policy_version"]: row["optimizer_step"] for row in ordered},
        parents={row["policy_version"]: row["parent_version"] for row in ordered},
        runs={row["policy_version"]: row["run_id"] for row in ordered},
        current=None if current is None else current["policy_version"],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Writers:
    """[N] who wrote each trace."""

    name: Texts
    """The version; None when it is unknown or when several wrote it."""
    lag: Floats
    """Updates between the oldest of its versions and the current one; NaN when one of them is not registered."""
    is_unknown: Booleans
    """Whether the version of any of its tokens is unknown."""
    is_unregistered: Booleans
    """Whether any of its versions is not among the policies."""
    is_mixed: Booleans
    """Whether several versions wrote it."""


def writers_of(traces: Traces, policies: Policies) -> Writers:
    """Who wrote each trace, by the version spans of all its sequences."""
    spans, owners = traces.flat("version_spans")
    names = spans.field("policy_version")
    distinct = pc.unique(names).drop_null()
    codes = pc.fill_null(pc.index_in(names, value_set=distinct), -1).to_numpy().astype(np.int64)
    steps = np.array([policies.steps.get(name, np.nan) for name in distinct.to_pylist()] + [np.nan], np.float64)
    now = policies.steps[policies.current] if policies.current is not None else np.nan
    least, greatest = np.full(traces.num_traces, len(distinct)), np.full(traces.num_traces, -1)
    np.minimum.at(least, owners, codes)
    np.maximum.at(greatest, owners, codes)
    has_span = np.bincount(owners, minlength=traces.num_traces) > 0
    behind = np.nan_to_num(now - steps, nan=np.inf)  # infinite wins the maximum: what is not registered has no lag
    lag = np.full(traces.num_traces, -np.inf)
    np.maximum.at(lag, owners, behind[codes])
    lag[np.isinf(lag)] = np.nan
    is_foreign = (codes >= 0) & np.isnan(steps[codes])
    is_unknown = ~has_span | (least < 0)
    is_mixed = has_span & (least != greatest)
    written_by = np.array([*distinct.to_pylist(), None], dtype=np.object_)[greatest]
    written_by[is_unknown | is_mixed] = None
    return Writers(
        name=written_by,
        lag=lag,
        is_unknown=is_unknown,
        is_unregistered=np.bincount(owners[is_foreign], minlength=traces.num_traces) > 0,
        is_mixed=is_mixed,
    )


def find_bad_versions(writers: Writers) -> dict[str, Booleans]:
    """[N] per reason: which traces have no version, one that is not registered, or several."""
    return {
        "version_unknown": writers.is_unknown,
        "version_unregistered": writers.is_unregistered,
        "version_ambiguous": writers.is_mixed,
    }


def scan_versions(writers: Writers, window: Booleans) -> list[Reading]:
    """The share of traces that no registered version answers for."""
    nobody = int(np.count_nonzero((writers.is_unknown | writers.is_unregistered) & window))
    what = "traces have no version or one that is not registered"
    return [share_reading("unknown_version_share", nobody, int(window.sum()), what)]
