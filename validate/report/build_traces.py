"""The sections about the traces themselves: log-probabilities, masks and length, staleness."""

from __future__ import annotations

from itertools import groupby

from validate.report.evidence import (
    Canary,
    Coverage,
    Curve,
    Length,
    LogprobSection,
    MaskSection,
    Meaning,
    Selection,
    StalenessSection,
    VersionStaleness,
)
from validate.report.inputs import MAX_LABELS, Inputs, known, label, rounded, status_of
from validate.report.words import bound, count, measure, ratio_of, share

TRUSTS: tuple[float, ...] = tuple(float(f"{10 ** (-6 + step / 8):.3g}") for step in range(49))
"""Where the admission curve is read: eight points a decade from 1e-6 to 1 nat; convention, untested."""
_PERCENTILES = tuple(step / 20 for step in range(21))


def logprobs_of(inputs: Inputs) -> LogprobSection:
    """Are there log-probabilities, and are they what we think they are."""
    judged = {"judged": inputs.judged}
    coverage = inputs.rows("coverage", judged)
    meanings = inputs.rows("meanings", judged, num_labels=MAX_LABELS)
    by_version = _coverage([row for row in coverage if row["grouping"] == "version"])
    canaries = _canaries(inputs, order=[row.label for row in by_version])
    num_usable, num_judged = sum(row.num_usable for row in by_version), sum(row.num_traces for row in by_version)
    return LogprobSection(
        headline=(
            f"{count(num_usable)} of {count(num_judged)} traces ({ratio_of(num_usable, num_judged)}) have "
            f"log-probabilities that a ratio can use. {_canary_said(canaries)}"
        ),
        by_version=by_version,
        by_day=_coverage([row for row in coverage if row["grouping"] == "day"]),
        meanings=tuple(
            Meaning(
                logprob_kind=row["logprob_kind"],
                temperature=rounded(row["temperature"]),
                top_p=rounded(row["top_p"]),
                num_traces=row["num_traces"],
                num_usable=row["num_usable"],
            )
            for row in meanings
        ),
        canaries=canaries,
    )


def _coverage(rows: list[dict[str, int]]) -> tuple[Coverage, ...]:
    return tuple(
        Coverage(
            label=label(str(row["label"])),
            num_traces=row["num_traces"],
            num_present=row["num_present"],
            num_aligned=row["num_aligned"],
            num_usable=row["num_usable"],
        )
        for row in rows
    )


def _canaries(inputs: Inputs, *, order: list[str]) -> tuple[Canary, ...]:
    """Each version under its own weights, in the order in which the versions are shown."""
    found = []
    for row in inputs.rows("canaries", {"drifts": inputs.drifts}, num_labels=MAX_LABELS):
        finding = inputs.finding("canary_bernoulli_kl", f"version:{row['version']}")
        found.append(
            Canary(
                version=label(row["version"]),
                num_traces=row["num_traces"],
                mean_abs_log_ratio=known(row["mean_abs_log_ratio"]),
                drift=known(row["drift"]),
                max_ratio=known(row["max_ratio"]),
                bound=None if finding is None else rounded(finding["threshold"]),
                status="info" if finding is None else status_of(finding),
            )
        )
    return tuple(sorted(found, key=lambda row: order.index(row.version) if row.version in order else len(order)))


def _canary_said(canaries: tuple[Canary, ...]) -> str:
    if not canaries:
        return "No version was scored under its own weights: the canary is NOT MEASURED."
    bad = [row.version for row in canaries if row.status not in {"ok", "info"}]
    if bad:
        return f"The canary sings for {', '.join(bad)}: log and weights disagree."
    worst = max(row.drift for row in canaries)
    return f"Under a version's own weights the drift is at most {measure(worst, 'nats')}: logs and weights agree."


def masks_of(inputs: Inputs) -> MaskSection:
    """Which tokens the policy wrote, and how many."""
    lengths = tuple(
        Length(
            label=label(row["label"]),
            num_traces=row["num_traces"],
            own_share=_own_share(inputs, f"version:{row['label']}"),
            num_without_action_tokens=row["num_without_action_tokens"],
            num_forked=row["num_forked"],
            tokens_p50=rounded(row["tokens_p50"]),
            tokens_p95=rounded(row["tokens_p95"]),
            num_truncated=row["num_truncated"],
            mean_reward_truncated=rounded(row["mean_reward_truncated"]),
            mean_reward_whole=rounded(row["mean_reward_whole"]),
        )
        for row in inputs.rows("lengths", {"judged": inputs.judged})
    )
    num_cut, num_traces = sum(row.num_truncated for row in lengths), sum(row.num_traces for row in lengths)
    own = _own_share(inputs, "all")
    wrote = "" if own is None else f"The policy wrote {share(own)} of the tokens. "
    return MaskSection(
        headline=f"{wrote}The last reply was cut in {ratio_of(num_cut, num_traces)} of the traces.",
        lengths=lengths,
        curves=tuple(_length_curves(inputs)),
    )


def _own_share(inputs: Inputs, subject: str) -> float | None:
    finding = inputs.finding("action_token_share", subject)
    return None if finding is None else rounded(finding["value"])


def _length_curves(inputs: Inputs) -> list[Curve]:
    rows = inputs.rows("length_curves", {"judged": inputs.judged}, middle=inputs.middle)
    return [
        Curve(
            label=_reward_class(row["low"], row["high"], is_high=row["is_high"]),
            num_observations=row["num_traces"],
            points=tuple((known(tokens), part) for tokens, part in zip(row["tokens"], _PERCENTILES, strict=True)),
        )
        for row in rows
    ]


def _reward_class(low: float, high: float, *, is_high: bool) -> str:
    if low == high:
        return f"reward {bound(low)}"
    return "high reward" if is_high else "low reward"


def staleness_of(inputs: Inputs) -> StalenessSection:
    """How old the traces are, by clock, by updates and by drift."""
    trust = rounded(inputs.setting("gate", "max_drift"))
    rows = inputs.rows(
        "staleness",
        {"judged": inputs.judged, "drifts": inputs.drifts},
        base_policy=inputs.run["base_policy"],
        trust=trust,
    )
    versions = tuple(
        VersionStaleness(
            version=label(row["version"]),
            num_traces=row["num_traces"],
            policy_lag=row["policy_lag"],
            age_hours=known(row["age_hours"]),
            num_scored=row["num_scored"],
            drift_p50=rounded(row["drift_p50"]),
            drift_p95=rounded(row["drift_p95"]),
            mean_abs_log_ratio=rounded(row["mean_abs_log_ratio"]),
            k3=rounded(row["k3"]),
            m2=rounded(row["m2"]),
            max_ratio_p99=rounded(row["max_ratio_p99"]),
            num_in_trust=row["num_in_trust"],
        )
        for row in rows
    )
    return StalenessSection(
        headline=_staleness_said(versions, trust),
        trust=trust,
        max_lag=inputs.setting("gate", "max_lag"),
        max_age_hours=rounded(inputs.setting("gate", "max_age_hours")),
        versions=versions,
        admission=_admission(inputs, trust),
        selection=() if trust is None else _selection(inputs, trust),
    )


def _staleness_said(versions: tuple[VersionStaleness, ...], trust: float | None) -> str:
    scored = [row for row in versions if row.num_scored and row.num_in_trust is not None]
    if trust is None or not scored:
        return "No judged trace was scored under the current policy: drift is NOT MEASURED."
    kept = [f"{ratio_of(row.num_in_trust or 0, row.num_scored)} of {row.version}" for row in scored[:4]]
    rest = f" and of {len(scored) - 4} more versions what the table says" if len(scored) > 4 else ""
    said = kept[0] if len(kept) == 1 else ", ".join(kept[:-1]) + f" and {kept[-1]}"
    return f"A trust of {trust:g} nats keeps {said}{rest}."


def _admission(inputs: Inputs, trust: float | None) -> tuple[Curve, ...]:
    trusts = sorted({*TRUSTS, *(() if trust is None else (trust,))})
    rows = inputs.rows("admission", {"judged": inputs.judged}, trusts=trusts)
    lines = []
    for version, points in groupby(rows, key=lambda row: str(row["version"])):
        admitted = list(points)
        lines.append(
            Curve(
                label=label(version),
                num_observations=admitted[0]["num_scored"],
                points=tuple((row["trust"], known(row["num_admitted"] / row["num_scored"])) for row in admitted),
            )
        )
    return tuple(lines)


def _selection(inputs: Inputs, trust: float) -> tuple[Selection, ...]:
    rows = inputs.rows("selection", {"judged": inputs.judged}, trust=trust, middle=inputs.middle)
    return tuple(
        Selection(
            dimension=row["dimension"],
            label=label(row["label"]),
            num_kept=row["num_kept"],
            num_dropped=row["num_dropped"],
            mean_reward_kept=rounded(row["mean_reward_kept"]),
            mean_reward_dropped=rounded(row["mean_reward_dropped"]),
        )
        for row in rows
    )
