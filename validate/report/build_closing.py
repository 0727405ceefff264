"""The closing sections: what the updates did, what was kept out, from what the report was made."""

from __future__ import annotations

import shlex
from typing import Any

from schemas.reasons import REASONS
from validate.report.data import Ancestor, Lineage, Quarantined, QuarantineSection, RejectedLines
from validate.report.inputs import Inputs, Row, known, label, rounded, sentence
from validate.report.scores import ReplayedVersion, TrainingCurve, UpdateRow, UpdateSection
from validate.report.words import count, ratio_of, share
from warehouse.query import load

MAX_UPDATES = 32
"""Lines of the table of updates; more updates share lines. Convention, untested."""
MAX_POINTS = 64
"""Points of a training curve; more updates share points. A chart is about as many pixels wide as 460; convention,
untested."""
MAX_POLICIES = 20
"""Policy versions of the lineage; convention, untested."""
_CURVES = (
    ("in_trust_share", "in trust", "Share of an update's traces that the method let move the policy.", "share"),
    ("mean_drift", "drift", "Mean drift of the traces when each update read them.", "nats"),
    ("loss", "loss", "Minus the sum of coefficients times log-probabilities.", ""),
    ("grad_norm", "gradient", "Gradient norm before it was clipped.", ""),
    ("mean_entropy", "entropy", "Mean entropy of the policy at the tokens that were trained on.", "nats"),
    ("critic_explained_variance", "explained", "Variance of the returns that the critic explained beforehand.", ""),
)
"""Column of the query, title, meaning and unit of each curve."""
_UNKNOWN_REASON = "This version of the program does not know the reason."
_UNKNOWN_FIX = "Compare the versions of the program that judged and that reports."


def updates_of(inputs: Inputs) -> UpdateSection:
    """What the method was expected to do, and what it did."""
    updates = inputs.rows("updates", run_id=inputs.run_id, num_rows=MAX_UPDATES)
    method = label(", ".join(sorted({name for row in updates for name in row["methods"]}))) or None
    versions = _replayed(inputs) if updates else ()
    steps = inputs.rows("training_curves", run_id=inputs.run_id, num_rows=MAX_POINTS)
    return UpdateSection(
        headline=_updates_said(updates, versions, method),
        method=method,
        preview=inputs.figures("regime"),
        versions=versions,
        updates=tuple(
            UpdateRow(
                first_step=row["first_step"],
                last_step=row["last_step"],
                num_traces=row["num_traces"],
                num_in_trust=row["num_in_trust"],
                mean_drift=known(row["mean_drift"]),
                max_ratio=known(row["max_ratio"]),
                masked_share=known(row["masked_share"]),
                positive_mass=known(row["positive_mass"]),
                negative_mass=known(row["negative_mass"]),
            )
            for row in updates
        ),
        curves=_curves(steps),
        num_warmup_updates=sum(row["num_warming_up"] for row in steps),
    )


def _curves(steps: list[Row]) -> tuple[TrainingCurve, ...]:
    """One curve for each figure that two points or more have."""
    curves = []
    for name, title, meaning, unit in _CURVES:
        values = [(row, rounded(row[name])) for row in steps]
        points = tuple((float(row["last_step"]), value) for row, value in values if value is not None)
        num_updates = sum(row["num_updates"] for row, value in values if value is not None)
        if len(points) > 1:
            curves.append(
                TrainingCurve(
                    name=name, title=title, meaning=meaning, unit=unit, num_updates=num_updates, points=points
                )
            )
    return tuple(curves)


def _replayed(inputs: Inputs) -> tuple[ReplayedVersion, ...]:
    rows = inputs.rows("replayed_versions", {"judged": inputs.judged}, run_id=inputs.run_id)
    total = sum(row["positive_mass"] - row["negative_mass"] for row in rows)
    return tuple(
        ReplayedVersion(
            version=label(row["version"]),
            num_admitted=row["num_admitted"],
            num_replayed=row["num_replayed"],
            num_in_trust=row["num_in_trust"],
            mean_advantage=rounded(row["mean_advantage"]),
            positive_mass=known(row["positive_mass"]),
            negative_mass=known(row["negative_mass"]),
            mass_share=rounded((row["positive_mass"] - row["negative_mass"]) / total) if total > 0 else None,
        )
        for row in rows
    )


def _updates_said(updates: list[Row], versions: tuple[ReplayedVersion, ...], method: str | None) -> str:
    if not updates:
        return "No update ran in this run."
    num_updates = updates[-1]["last_step"] - updates[0]["first_step"] + 1
    num_read, num_moved = sum(row.num_replayed for row in versions), sum(row.num_in_trust for row in versions)
    heaviest = max(versions, key=lambda row: row.mass_share or 0.0)
    mass = (
        f" {heaviest.version} carries {share(heaviest.mass_share)} of the coefficient mass."
        if heaviest.mass_share is not None
        else " Every coefficient was 0: the policy did not move."
    )
    read = f"{count(num_updates)} updates by {method} read {count(num_read)} traces"
    return f"{read}, and {count(num_moved)} moved the policy.{mass}"


def quarantine_of(inputs: Inputs) -> QuarantineSection:
    """Everything that was kept out, by reason."""
    traces = tuple(
        _quarantined(inputs.run_id, row)
        for row in inputs.rows("quarantine", {"judged": inputs.judged, "nights": inputs.nights})
    )
    rejected = inputs.lake.read("current_rejects", columns=["uri", "byte_offset", "reason"], snapshot=inputs.snapshot)
    num_out, num_judged = sum(row.num_traces for row in traces), inputs.judged.num_rows
    most = f"; most left for {traces[0].reason} ({ratio_of(traces[0].num_traces, num_judged)})" if traces else ""
    return QuarantineSection(
        headline=f"{count(num_out)} of {count(num_judged)} judged traces are not admitted{most}.",
        traces=traces,
        lines=tuple(_rejected(row) for row in inputs.rows("rejects", {"rejected": rejected})),
    )


def _quarantined(run_id: str, row: Row) -> Quarantined:
    code = row["reason"] or "unstated"
    said, fix = _explained(code)
    return Quarantined(
        reason=label(code),
        stage=label(row["stage"]),
        is_pending=row["is_pending"],
        sentence=said,
        fix=fix,
        num_traces=row["num_traces"],
        num_also=row["num_also"],
        usual=rounded(row["usual"]),
        examples=tuple(label(trace_id) for trace_id in row["examples"]),
        command=_listing(run_id, code),
    )


def _explained(code: str) -> tuple[str, str]:
    reason = REASONS.get(code)
    return (_UNKNOWN_REASON, _UNKNOWN_FIX) if reason is None else (reason.sentence, reason.fix)


def _listing(run_id: str, code: str) -> str:
    """The command that lists all traces of a reason, quoted for a shell."""
    lines = [line for line in load("report/quarantined").text.splitlines() if not line.lstrip().startswith("--")]
    text = " ".join(" ".join(lines).split())
    values = (f"run_id={run_id}", f"reason={code}")
    return f"tracemill sql {shlex.quote(text)} " + " ".join(f"--param {shlex.quote(value)}" for value in values)


def _rejected(row: Row) -> RejectedLines:
    said, fix = _explained(row["reason"])
    return RejectedLines(
        reason=label(row["reason"]),
        sentence=said,
        fix=fix,
        num_lines=row["num_lines"],
        places=tuple(sentence(place) for place in row["places"]),
    )


def lineage_of(inputs: Inputs) -> Lineage:
    """From what the report was made."""
    gates = sorted({gate for gate in inputs.judged["gate_sha256"].unique().to_pylist() if gate})
    policies = inputs.rows(
        "policies",
        {"judged": inputs.judged},
        base_policy=inputs.run["base_policy"],
        new_policy=inputs.run["new_policy"],
        num_rows=MAX_POLICIES,
    )
    seed: Any = inputs.setting("train", "seed")
    return Lineage(
        settings_sha256=inputs.run["settings_sha256"],
        code_version=label(inputs.run["code_version"]),
        lake_snapshot=inputs.snapshot,
        gate_sha256=gates[0] if len(gates) == 1 else None,
        seed=seed if isinstance(seed, int) else None,
        policies=tuple(
            Ancestor(
                version=label(row["version"]),
                role=row["role"],
                optimizer_step=row["optimizer_step"],
                parent=label(row["parent"]) or None,
                method=label(row["method"]) or None,
                checkpoint_sha256=row["checkpoint_sha256"],
            )
            for row in policies
        ),
        num_erasures=inputs.calls["num_erasures"],
    )
