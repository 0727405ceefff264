"""Scores of logged traces under the current policy, and of each version's traces under its own weights (the canary)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import Field

from schemas.errors import CheckpointError
from schemas.policy import RESCORED
from schemas.progress import Progress, silent
from schemas.reasons import REASONS
from schemas.settings import Settings
from train.registry import ModelSettings, PolicyRow, WeightsByVersion, current_policy, policies

if TYPE_CHECKING:
    from train.policy import Policy
    from warehouse.lake import Lake

APPEND_TRACES = 128
"""Traces whose scores are committed together; what a killed run loses. Half a minute of two cores on the example's
model: measured 2026-11-30."""

PRINTED_TRUST = 0.003
"""Drift above which the figures count a trace as over trust, unless another is asked for, in nats a token. Hu et al.
2026, Sec. 3.2, Table 13."""

_INCOMING = pa.schema([column.field for column in RESCORED.columns])

DISQUALIFYING = sorted(code for code, reason in REASONS.items() if reason.scope == "trace")
"""Faults with which a trace is not scored: those that quarantine it."""


class RescoreSettings(Settings):
    """How many traces are scored, and in how large packs."""

    max_traces: int = Field(default=5000, ge=0)
    """Traces scored under the current policy in one run: the canary's of each version, then the newest; the rest waits
    for the next run. Convention, untested."""
    canary_traces: int = Field(default=24, ge=0)
    """Traces of each version that are scored under that version itself; 0 turns the canary off. 24 traces are about
    470 action tokens of the example, whose mean absolute log ratio they give within a factor of 2: measured
    2026-11-30."""
    token_budget: int = Field(default=4096, ge=1)
    """Tokens of a pack, a shared prefix counted once; larger packs share more and need more memory: 0.3 GiB beside
    the weights at 4096 and 8192 on the example's model, measured 2026-11-30."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """Figures of the traces of one behavior version under one policy, over all that the lake holds of them."""

    policy_version: str
    behavior_version: str | None
    num_traces: int
    num_action_tokens: int
    mean_abs_log_ratio: float
    """Mean over traces, each the mean over its tokens, in nats; so is the next one, and so does the gate average."""
    mean_bernoulli_kl: float
    max_ratio: float
    share_over_trust: float

    def __str__(self) -> str:
        return (
            f"{self.behavior_version or 'unknown':>10} under {self.policy_version:<10} {self.num_traces:>6} traces "
            f"{self.num_action_tokens:>8} tokens   |log ratio| {self.mean_abs_log_ratio:.1e}   "
            f"KL {self.mean_bernoulli_kl:.1e}   max ratio {self.max_ratio:.3g}   over trust {self.share_over_trust:.2f}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RescoreReport:
    """What a rescoring did, and what the lake knows now."""

    policy_version: str
    """The current policy."""
    canaries: tuple[Scored, ...]
    """Each version under its own weights; far from 0, the log is wrong, not old."""
    drifts: tuple[Scored, ...]
    """Each version under the current policy."""
    num_scored: int
    """Traces that this call scored, one under two policies counted twice."""
    num_waiting: int
    """Traces that can be scored under the current policy and have not been; what the model cannot read is not among
    them."""
    tokens_per_second: float
    """Tokens of the scored sequences, shared prefixes counted in each; 0 when nothing was scored."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"rescored {self.num_scored} traces at {self.tokens_per_second:,.0f} tokens/s"]
        lines += [
            "canary: each version under its own weights, means over traces",
            *(f"  {row}" for row in self.canaries),
        ]
        lines += [
            f"drift: each version under {self.policy_version}, means over traces",
            *(f"  {row}" for row in self.drifts),
        ]
        if self.num_waiting:
            lines.append(f"  {self.num_waiting} traces wait for the next run: raise rescore.max_traces to score more")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@dataclass(slots=True)
class _Work:
    """One run of scoring: where rows go, and what was done so far."""

    lake: Lake
    model: ModelSettings
    settings: RescoreSettings
    run_id: str
    now: datetime
    progress: Progress
    current: PolicyRow
    versions: WeightsByVersion
    limits: tuple[int | None, int | None]
    """Token ids and positions that the model knows; None where its config states no bound."""
    policy: Policy | None = None
    num_scored: int = 0
    num_tokens: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


def rescore(  # noqa: PLR0913 - a step of the night takes the night's lake, settings, name, clock and trust
    lake: Lake,
    *,
    model: ModelSettings,
    settings: RescoreSettings,
    run_id: str,
    now: datetime,
    trust: float = PRINTED_TRUST,
    progress: Progress = silent,
) -> RescoreReport:
    """Score what is not scored yet; a second call finds nothing to do, a killed one goes on where it stopped.

    Traces that quarantining faults or unknown sampling keep from having an exact log-probability are left out, and so
    are those that the model cannot read: they take no other trace's place. `trust` is the drift above which the report
    counts a trace as over trust; it decides nothing.
    """
    current = current_policy(lake)
    by_name = {row.policy_version: row for row in policies(lake)}
    versions = WeightsByVersion(model, by_name.values())
    limits = _limits(versions[current.policy_version].base)
    work = _Work(lake, model, settings, run_id, now, progress, current, versions, limits)
    exact = _exact(work)
    _note_misfits(work, exact)
    scorable = _readable(exact)
    for version, row in by_name.items():
        wanted = [
            trace["trace_id"]
            for trace in scorable
            if trace["behavior_version"] == version
            and trace["canary_rank"] <= settings.canary_traces
            and not trace["is_scored_by_own"]
        ]
        _score_version(work, row, wanted, is_current=version == current.policy_version)
    # The canary's traces first: whatever the limit, every version shows how far the current policy has moved from it.
    by_turn = sorted(_readable(_exact(work)), key=lambda trace: trace["canary_rank"] > settings.canary_traces)
    waiting = [trace["trace_id"] for trace in by_turn if not trace["is_scored"]]
    _score_version(work, current, waiting[: settings.max_traces], is_current=True)
    return _report(work, trust)


def _limits(base: Path) -> tuple[int | None, int | None]:
    """Token ids and positions that the model knows by its config; a folder without one is refused when it is loaded."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(base, local_files_only=True, trust_remote_code=False).get_text_config()
    except (OSError, ValueError):
        return None, None
    return getattr(config, "vocab_size", None), getattr(config, "max_position_embeddings", None)


def _exact(work: _Work) -> list[dict[str, Any]]:
    """The traces with exact log-probabilities, newest first, and what is known of each."""
    vocabulary_size, num_positions = work.limits
    table = work.lake.query(
        "train/scorable",
        policy_version=work.current.policy_version,
        disqualifying=DISQUALIFYING,
        vocabulary_size=vocabulary_size,
        num_positions=num_positions,
    )
    return list(table.to_pylist())


def _readable(exact: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of them that the model can read."""
    return [trace for trace in exact if trace["misfit"] is None]


def _note_misfits(work: _Work, exact: Sequence[dict[str, Any]]) -> None:
    """Say how many traces the model cannot read, and what comes of them."""
    vocabulary_size, num_positions = work.limits
    misfits = Counter(trace["misfit"] for trace in exact)
    if misfits["foreign"]:
        work.notes.append(
            f"{misfits['foreign']} traces not scored: they have token ids of {vocabulary_size} and above, which the "
            "model does not know, and stay pending; they are of another model or tokenizer: state vocabulary_size for "
            "the deployment, so that the next ones are rejected"
        )
    if misfits["long"]:
        work.notes.append(
            f"{misfits['long']} traces not scored: longer than the {num_positions} positions that the model knows; "
            "they stay pending"
        )


def _score_version(work: _Work, row: PolicyRow, trace_ids: Sequence[str], *, is_current: bool) -> None:
    """Score these traces under one version; an old version whose weights are gone is noted, not a fault."""
    if not trace_ids:
        return
    try:
        weights = work.versions[row.policy_version]
    except CheckpointError as error:
        if is_current:
            raise
        work.notes.append(f"canary of {row.policy_version} not measured: {error}")
        return
    from train.agreement import open_policy, require_agreement

    if work.policy is None:
        work.policy = open_policy(work.model, base=weights.base)
    is_another = work.policy.base != weights.base
    work.policy.become(weights)
    if is_another:
        require_agreement(work.policy)
    _score_traces(work, work.policy, row.policy_version, trace_ids)


def _score_traces(work: _Work, policy: Policy, version: str, trace_ids: Sequence[str]) -> None:
    from train.scoring import rescored_row, score_packs
    from train.sequences import SEQUENCE_COLUMNS, by_trace, sequences_from_table

    table = work.lake.read("current_traces", columns=SEQUENCE_COLUMNS, where={"trace_id": list(trace_ids)})
    sequences = [sequence for sequence in sequences_from_table(table) if sequence.num_action_tokens]
    traces = by_trace(sequences)
    stage, rows, done, begun = f"rescore {version}", [], 0, time.perf_counter()
    held: set[str] = set()
    for pack, logprobs in score_packs(policy, traces, token_budget=work.settings.token_budget):
        rows += [rescored_row(sequence, scored) for sequence, scored in zip(pack.sequences, logprobs, strict=True)]
        held |= {sequence.trace_id for sequence in pack.sequences}
        work.num_tokens += pack.num_tokens
        work.seconds += time.perf_counter() - begun
        begun = time.perf_counter()
        work.progress(stage, done + len(held), len(traces), "traces", f"{work.num_tokens / work.seconds:,.0f} tokens/s")
        if len(held) >= APPEND_TRACES:
            _append(work, version, rows)
            done, rows, held = done + len(held), [], set()
    _append(work, version, rows)
    work.num_scored += len(traces)


def _append(work: _Work, version: str, rows: Sequence[dict[str, Any]]) -> None:
    """Commit scores that the lake does not hold yet."""
    if not rows:
        return
    stamped = [{**row, "policy_version": version, "run_id": work.run_id, "scored_at": work.now} for row in rows]
    with work.lake.transaction() as transaction:
        incoming = pa.Table.from_pylist(stamped, schema=_INCOMING)
        transaction.append("rescored", transaction.query("train/not_yet_rescored", {"incoming": incoming}))


def _report(work: _Work, trust: float) -> RescoreReport:
    figures = [Scored(**row) for row in work.lake.query("train/rescored_figures", trust=trust).to_pylist()]
    current = work.current.policy_version
    return RescoreReport(
        policy_version=current,
        canaries=tuple(row for row in figures if row.behavior_version == row.policy_version),
        drifts=tuple(row for row in figures if row.policy_version == current),
        num_scored=work.num_scored,
        num_waiting=sum(not trace["is_scored"] for trace in _readable(_exact(work))),
        tokens_per_second=work.num_tokens / work.seconds if work.seconds else 0.0,
        notes=tuple(work.notes),
    )
