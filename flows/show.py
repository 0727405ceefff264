"""What each step tells a person, or with `as_json` a program."""

from __future__ import annotations

import dataclasses
import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from flows.console import one_line, print_table, say
from flows.console import show as show_value
from schemas.reasons import REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flows.nightly import NightResult
    from flows.steps import Landed, Plan
    from ingest.assemble import AssembleReport
    from ingest.look import LogGroup, LogSummary
    from ingest.report import LandReport
    from train.methods.regime import Regime
    from train.replay import TrainReport
    from train.rescore import RescoreReport
    from validate.gate import GateResult

MOST_SHOWN = 6
"""Versions or parameter sets that are listed by name; the rest are counted. Convention, untested."""

DECISIONS = {"go": "GO", "hold": "HOLD", "no_go": "NO-GO", "skipped": "SKIPPED"}
"""How a decision is written for people."""


def print_json(value: Any) -> None:
    """Print a report as JSON on standard output."""
    print(json.dumps(_plain(value), ensure_ascii=False, default=str))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN has no JSON form
        return None
    return value


def landed(result: Landed, *, as_json: bool = False) -> None:
    """Where each line of each file ended."""
    if as_json:
        print_json(result)
        return
    for title, report in (("log lines", result.calls), ("outcome lines", result.outcomes)):
        if report.files:
            _land_report(title, report)
    _assembled(result.assembled)


def _land_report(title: str, report: LandReport) -> None:
    rows: list[list[Any]] = [
        [
            one_line(PurePath(f.uri).name),
            f.state,
            f.num_lines,
            f.num_landed,
            f.num_duplicates,
            f.num_rejects,
            f.num_blank,
        ]
        for f in report.files
    ]
    rows.append(
        [
            "all",
            "",
            report.num_lines,
            report.num_landed,
            report.num_duplicates,
            report.num_rejects,
            report.num_blank,
        ]
    )
    print_table(title, ("file", "state", "lines", "landed", "duplicates", "rejects", "blank"), rows)
    for code, count in report.rejects_by_reason.items():
        say(f"  rejected: {count:,} {code}: {REASONS[code].sentence}")
    if report.num_rejects:
        say('  where and why: tracemill sql "select uri, byte_offset, message from rejects"')
    for file in report.files:
        for code in file.notes:
            say(f"  {one_line(PurePath(file.uri).name)}: {code}: {REASONS[code].sentence} {REASONS[code].fix}")


def _assembled(report: AssembleReport) -> None:
    say(
        f"traces: {report.num_new:,} new, {report.num_revised:,} revised; "
        f"{report.num_traces:,} traces in {report.num_sequences:,} sequences were put together"
    )


def looked(summary: LogSummary, *, as_json: bool = False) -> None:
    """What is in a log, and what to switch on."""
    if as_json:
        print_json(summary)
        return
    say(
        f"{summary.num_lines:,} lines in {summary.num_files:,} file(s): {summary.num_calls:,} calls of "
        f"{summary.num_traces:,} traces, {summary.num_duplicates:,} duplicates, {summary.num_rejects:,} rejects, "
        f"{summary.num_blank:,} blank"
    )
    for code, count in [*summary.rejects_by_reason.items(), *summary.file_notes.items()]:
        say(f"  {count:,} {code}: {REASONS[code].sentence}")
    for group in summary.groups:
        _log_group(group)
    say(f"\n{summary.sentence}")
    for missing in summary.missing:
        say(f"  {missing.num_traces:,} traces {missing.reason.code}: {missing.reason.sentence}")
        say(f"      {missing.reason.fix}")
    if summary.outcomes:
        say(
            "\nscores beside the calls: " + ", ".join(f"{n:,} {one_line(name)}" for name, n in summary.outcomes.items())
        )
    if summary.suggested_settings is not None:
        say("\nwhat the log cannot say, and the settings file must:\n")
        say(summary.suggested_settings)


def _log_group(group: LogGroup) -> None:
    where = f" from deployment {one_line(group.deployment)}" if group.deployment is not None else ""
    say(f"\n{group.num_calls:,} calls in format {group.log_format}{where}")
    carried = {
        "token ids": group.num_with_token_ids,
        "prompt ids": group.num_with_prompt_ids,
        "log-probabilities": group.num_with_logprobs,
        "top-K lists with ids": group.num_with_top_tokens,
        "streamed": group.num_streamed,
    }
    say("  carry      " + ", ".join(f"{name} {number:,}" for name, number in carried.items()))
    for title, counts in (
        ("sampling", group.sampling),
        ("versions", group.versions),
        ("logprobs", group.logprob_kinds),
    ):
        shown = [f"{one_line(show_value(name))} ({number:,})" for name, number in list(counts.items())[:MOST_SHOWN]]
        more = f" and {len(counts) - MOST_SHOWN:,} more" if len(counts) > MOST_SHOWN else ""
        say(f"  {title:<10} " + "; ".join(shown) + more)


def rescored(report: RescoreReport, *, as_json: bool = False) -> None:
    """Traces under the current policy, and the canary."""
    if as_json:
        print_json(report)
        return
    say(str(report))


def gate(result: GateResult, *, as_json: bool = False) -> None:
    """The waterfall, what is not ok, and the decision."""
    if as_json:
        print_json(result)
        return
    rows: list[list[Any]] = [["all traces", result.num_traces, None, None, None, ""]]
    rows += [
        [
            stage.title,
            stage.num_entered,
            -stage.num_quarantined or None,
            -stage.num_pending or None,
            stage.num_left,
            ", ".join(f"{count} {code}" for code, count in stage.reasons.items()),
        ]
        for stage in result.stages
    ]
    rows.append(["admitted", None, None, None, result.num_admitted, ""])
    print_table("waterfall", ("a trace", "came", "quarantined", "pending", "left", "because"), rows)
    loud = [found for found in result.findings if found.status in {"warn", "hold", "stop"}]
    print_table(
        f"findings that are not ok: {len(loud)} of {len(result.findings)}",
        ("status", "finding", "of", "what it says"),
        [[found.status, found.name, found.subject, found.sentence] for found in loud],
    )
    say(f"{DECISIONS[result.decision]}: {result.sentence}")


def trained(report: TrainReport, *, as_json: bool = False) -> None:
    """What the updates did."""
    if as_json:
        print_json(report)
        return
    say(str(report))


def regime(found: Regime, num_not_scored: int, *, as_json: bool = False) -> None:
    """What each method would do to the admitted traces."""
    if as_json:
        print_json({**_plain(found), "num_not_scored": num_not_scored})
        return
    say(str(found))
    if num_not_scored:
        say(f"{num_not_scored:,} admitted traces are not in it: the current policy has not scored them; rescore first")


def night(result: NightResult) -> None:
    """How the night ended."""
    policy = f"; new policy {result.new_policy}" if result.new_policy is not None else ""
    say(f"run {result.run_id}: {DECISIONS[result.decision]}{policy}")
    if result.report is not None:
        say(f"report: {result.report}")


def plan(planned: Plan, *, as_json: bool = False) -> None:
    """What a night would do."""
    if as_json:
        print_json(planned)
        return
    print_table(
        "files", ("file", "state", "bytes to read"), [[one_line(f.uri), f.state, f.num_bytes] for f in planned.files]
    )
    say(planned.sentence)


def trace(trace_id: str, parts: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Everything known of one trace."""
    say(f"trace {one_line(trace_id)}")
    for name, rows in parts.items():
        if not rows:
            say(f"\n{name}: none")
            continue
        columns = [c for c in rows[0] if any(row[c] not in (None, [], "") for row in rows) and c not in _WIDE]
        say(f"\n{name}: {len(rows)}")
        for row in rows:
            print_table("", ("column", "value"), [[column, _short(row[column])] for column in columns])


_WIDE = {"schema_version", "line_sha256", "gate_sha256", "messages_json", "sampling_json", "ingested_at"}


def _short(value: Any) -> Any:
    if isinstance(value, list) and len(value) > 16:
        head = ", ".join("-" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for v in value[-12:])
        return f"{len(value)} values, last: {head}"
    return value if not isinstance(value, list) else str(value)
