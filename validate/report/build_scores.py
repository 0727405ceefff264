"""The sections about what was said of the traces: rewards, the judge, duplicates and users."""

from __future__ import annotations

from dataclasses import replace

from validate.report.evidence import Curve, Estimate, Figure
from validate.report.inputs import Inputs, Row, estimate_of, known, label, rounded
from validate.report.scores import (
    ConcentrationSection,
    JudgeSection,
    RewardLedger,
    RewardMean,
    RewardSection,
    RewardSource,
)
from validate.report.words import amount, count, interval, measure, share

MAX_SOURCES = 20
"""Scorers that are listed; convention, untested."""
NUM_CLASSES = 10
"""Classes of the histogram of rewards; convention, untested."""
_HOURS = "hours:"


def rewards_of(inputs: Inputs) -> RewardSection:
    """Which rewards there are, which are on their way, and what they say."""
    judged = {"judged": inputs.judged}
    ledger = RewardLedger(**inputs.rows("reward_ledger", judged)[0])
    sources = inputs.rows("reward_sources", {"said": inputs.said, **judged})
    means = tuple(_mean(inputs, row) for row in inputs.rows("reward_means", judged) if row["num_traces"])
    has_any = any(row.mean.num_observations for row in means)
    return RewardSection(
        headline=_rewards_said(ledger, means[0] if has_any else None),
        ledger=ledger,
        maturity_hours=rounded(inputs.setting("reward", "maturity_hours")),
        sources=tuple(_source(row) for row in sources[:MAX_SOURCES]),
        num_sources_not_listed=max(0, len(sources) - MAX_SOURCES),
        arrival=_arrival(inputs),
        means=means if has_any else (),
        histogram=_histogram(inputs) if has_any else (),
    )


def _source(row: Row) -> RewardSource:
    return RewardSource(
        name=label(row["name"]),
        source_kind=row["source_kind"],
        source=label(row["source"]),
        scorer_version=label(row["scorer_version"]),
        num_outcomes=row["num_outcomes"],
        num_traces=row["num_traces"],
        num_orphans=row["num_orphans"],
        mean=rounded(row["mean"]),
        standard_deviation=rounded(row["standard_deviation"]),
    )


def _mean(inputs: Inputs, row: Row) -> RewardMean:
    """The mean of one group; its interval is the scan's, when the scan speaks of the same traces."""
    subject = "all" if row["is_all"] else f"version:{row['label']}"
    finding = inputs.finding("reward_mean", subject)
    mean = Estimate(value=rounded(row["mean"]), num_observations=row["num_rewarded"])
    if finding is not None and finding["num_observations"] == row["num_rewarded"]:
        mean = estimate_of(finding)
    return RewardMean(
        label=label(row["label"]),
        num_traces=row["num_traces"],
        mean=mean,
        mean_if_zero=rounded(row["mean_if_zero"]),
        standard_deviation=rounded(row["standard_deviation"]),
    )


def _rewards_said(ledger: RewardLedger, everything: RewardMean | None) -> str:
    if everything is None:
        return f"None of {count(ledger.num_traces)} traces has a reward."
    mean, num_missing = everything.mean, ledger.num_missing
    between = interval(mean.lower, mean.upper)
    never = f" {count(num_missing)} never got one, which is not the same as 0." if num_missing else ""
    return (
        f"{count(mean.num_observations)} of {count(ledger.num_traces)} traces have a reward, mean "
        f"{measure(mean.value)}{' ' if between else ''}{between}.{never}"
    )


def _arrival(inputs: Inputs) -> tuple[Curve, ...]:
    rows = [row for row in inputs.findings if row["name"] == "reward_arrived_by" and row["value"] is not None]
    points = [(float(row["subject"].removeprefix(_HOURS)), known(row["value"])) for row in rows if _is_hours(row)]
    if not points:
        return ()
    most = max(row["num_observations"] for row in rows)
    return (Curve(label="all", num_observations=most, points=((0.0, 0.0), *sorted(points))),)


def _is_hours(row: Row) -> bool:
    prefix, _, number = str(row["subject"]).rpartition(":")
    return f"{prefix}:" == _HOURS and number.isdecimal()


def _histogram(inputs: Inputs) -> tuple[tuple[float, float, int], ...]:
    lowest, highest = inputs.reward_range
    rows = inputs.rows(
        "reward_histogram", {"judged": inputs.judged}, lowest=lowest, highest=highest, num_classes=NUM_CLASSES
    )
    counts = {row["class"]: row["num_traces"] for row in rows}
    width = (highest - lowest) / NUM_CLASSES
    return tuple(
        (known(lowest + width * place), known(lowest + width * (place + 1)), counts.get(place, 0))
        for place in range(NUM_CLASSES)
    )


def judge_of(inputs: Inputs) -> JudgeSection:
    """Whether the judge may be believed."""
    figures = inputs.figures("judge")
    by_name = {figure.name: figure for figure in figures}
    told = {name: by_name[f"judge_{name}"].estimate for name in ("tpr", "tnr") if f"judge_{name}" in by_name}
    is_measured = any(estimate.value is not None for estimate in told.values())
    return JudgeSection(
        headline=_judge_said(by_name, is_measured=is_measured), is_measured=is_measured, figures=figures
    )


def _judge_said(figures: dict[str, Figure], *, is_measured: bool) -> str:
    if not is_measured:
        return "Nobody knows how good the judge is: it was compared with no person."

    def value(name: str) -> float | None:
        return figures[name].estimate.value if name in figures else None

    labels, tpr, tnr = value("judge_labels"), value("judge_tpr"), value("judge_tnr")
    raw, corrected = value("judge_pass_rate"), value("judge_corrected_pass_rate")
    counted = f"On {count(round(labels))} labels the" if labels is not None else "The"
    said = f"{counted} judge passes {share(tpr)} of the good and fails {share(tnr)} of the bad."
    if raw is None or corrected is None:
        return said
    return f"{said} It passes {share(raw)} of all traces; corrected for its errors that is {share(corrected)}."


def concentration_of(inputs: Inputs) -> ConcentrationSection:
    """Whether the same trace, or the same user, is in the data many times."""
    users = inputs.rows("users", {"judged": inputs.judged})[0]
    section = ConcentrationSection(
        headline="",
        num_users=users["num_users"],
        num_with_user=users["num_with_user"],
        top_user_share=rounded(users["top_user_share"]),
        effective_users=rounded(users["effective_users"]),
        num_duplicates=users["num_duplicates"],
        figures=inputs.figures("duplicates"),
    )
    return replace(section, headline=_concentration_said(section))


def _concentration_said(section: ConcentrationSection) -> str:
    copies = f"{count(section.num_duplicates)} traces equal" if section.num_duplicates else "No trace equals"
    if section.effective_users is None:
        return f"No trace says which user it is of. {copies} an earlier one."
    return (
        f"{count(section.num_users)} users wrote {count(section.num_with_user)} traces, the most frequent one "
        f"{share(section.top_user_share)} of them; they are as mixed as {amount(section.effective_users)} equally "
        f"frequent users. {copies} an earlier one."
    )
