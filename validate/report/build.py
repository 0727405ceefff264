"""The report of one run, from the tables of the lake."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from validate.report.build_closing import lineage_of, quarantine_of, updates_of
from validate.report.build_counts import Remedy, checks_of, verdict_of, waterfall_of
from validate.report.build_scores import concentration_of, judge_of, rewards_of
from validate.report.build_traces import logprobs_of, masks_of, staleness_of
from validate.report.data import Report, RunFacts
from validate.report.inputs import Inputs, label, read_inputs

if TYPE_CHECKING:
    from warehouse.lake import Lake


def build_report(lake: Lake, run_id: str) -> Report:
    """The data quality of a run's night; equal tables give equal reports, whatever else the lake holds.

    Raises `UsageError` when there is no such run, and `LakeError` when lines or traces do not add up.
    """
    inputs = read_inputs(lake, run_id)
    checks, num_checks_not_listed = checks_of(inputs)
    quarantine = quarantine_of(inputs)
    first = quarantine.traces[0] if quarantine.traces else None
    lever = None if first is None else Remedy(f"{first.num_traces:,} left for {first.reason}", first.fix)
    return Report(
        run=_run_facts(inputs),
        verdict=verdict_of(inputs, checks, lever=lever),
        waterfall=waterfall_of(inputs),
        checks=checks,
        num_checks_not_listed=num_checks_not_listed,
        logprobs=logprobs_of(inputs),
        masks=masks_of(inputs),
        staleness=staleness_of(inputs),
        rewards=rewards_of(inputs),
        judge=judge_of(inputs),
        concentration=concentration_of(inputs),
        updates=updates_of(inputs),
        quarantine=quarantine,
        lineage=lineage_of(inputs),
    )


def _run_facts(inputs: Inputs) -> RunFacts:
    run = inputs.run
    return RunFacts(
        run_id=label(inputs.run_id),
        kind=label(run["kind"]),
        night=label(run["night"]),
        as_of=run["as_of"].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        base_policy=label(run["base_policy"]) or None,
        new_policy=label(run["new_policy"]) or None,
    )
