"""One night as a report, written by hand: the figures of the recorded logs where they are known, plausible elsewhere."""

from __future__ import annotations

import math

from validate.report.counts import LineCounts, SourceFile, Stage, Waterfall
from validate.report.data import (
    Ancestor,
    Check,
    Lineage,
    Quarantined,
    QuarantineSection,
    RejectedLines,
    Report,
    RunFacts,
    TrendPoint,
    Verdict,
)
from validate.report.evidence import (
    Canary,
    Coverage,
    Curve,
    Estimate,
    Figure,
    Length,
    LogprobSection,
    MaskSection,
    Meaning,
    Selection,
    StalenessSection,
    Status,
    VersionStaleness,
)
from validate.report.scores import (
    ConcentrationSection,
    JudgeSection,
    ReplayedVersion,
    RewardLedger,
    RewardMean,
    RewardSection,
    RewardSource,
    TrainingCurve,
    UpdateRow,
    UpdateSection,
)
from validate.waterfall import STAGES

VERSIONS = ("v109", "v108", "v104", "v100")
NUM_TRACES = {"v109": 80, "v108": 240, "v104": 240, "v100": 240}
DRIFT = {"v109": 1.1e-11, "v108": 0.005, "v104": 0.038, "v100": 0.10}


def night_report(decision: str = "go", trace_id: str = "8f3c0d1e2a4b5c6d7e8f9a0b1c2d3e4f") -> Report:
    """The whole report of that night; the trace id is shown where examples are."""
    return Report(
        run=RunFacts(
            run_id="2026-11-28-5f0c12ab",
            kind="nightly",
            night="2026-11-28",
            as_of="2026-11-29T00:00:00Z",
            base_policy="v109",
            new_policy="v117",
        ),
        verdict=Verdict(
            decision=decision,  # type: ignore[arg-type] - tests pass each word
            sentence="148 of 800 traces may train v109: nothing crossed a bound that stops training.",
            action="415 traces are too stale: train sooner after serving, or with a smaller learning rate.",
        ),
        waterfall=waterfall(),
        checks=checks(),
        num_checks_not_listed=0,
        logprobs=logprobs(),
        masks=masks(),
        staleness=staleness(),
        rewards=rewards(),
        judge=judge(),
        concentration=concentration(),
        updates=updates(),
        quarantine=quarantine(trace_id),
        lineage=lineage(),
    )


def waterfall() -> Waterfall:
    """1,611 lines, 1,596 calls, 800 traces, 148 admitted."""
    files = [("2026-11-22.jsonl.gz", 485, 478, 7, 0), ("2026-11-24.jsonl", 484, 479, 4, 1)]
    files += [("2026-11-26.jsonl", 480, 480, 0, 0), ("2026-11-27.jsonl", 162, 159, 2, 1)]
    rows = [
        SourceFile(
            uri=f"/data/logs/{name}",
            content_kind="calls",
            content_sha256=f"{index:x}" * 64,
            num_bytes=2_400_000 + index,
            counts=LineCounts(num_lines=lines, num_landed=landed, num_duplicates=twice, num_rejects=bad, num_blank=0),
            notes=("truncated_gzip",) if name.endswith("gz") else (),
        )
        for index, (name, lines, landed, twice, bad) in enumerate(files, start=10)
    ]
    scores = LineCounts(num_lines=807, num_landed=786, num_duplicates=21, num_rejects=0, num_blank=0)
    outcomes = SourceFile(
        uri="/data/outcomes.csv", content_kind="outcomes", content_sha256="e" * 64, num_bytes=91_000, counts=scores
    )
    ends = {"structure": (47, 0), "logprobs": (64, 0), "version": (0, 0), "reward": (41, 22), "duplicates": (0, 0)}
    ends |= {"holdout": (63, 0), "scored": (0, 0), "staleness": (415, 0), "already_trained": (0, 0)}
    stages, left = [], 800
    for name, (out, waiting) in ends.items():
        left -= out + waiting
        title = next(stage.title for stage in STAGES if stage.name == name)
        stages.append(Stage(name=name, title=title, num_quarantined=out, num_pending=waiting, num_left=left))
    return Waterfall(
        files=(*rows, outcomes),
        num_files_not_listed=0,
        call_lines=LineCounts(num_lines=1611, num_landed=1596, num_duplicates=13, num_rejects=2, num_blank=0),
        outcome_lines=scores,
        num_lines_erased=0,
        num_lines_with_calls=1596,
        num_calls=1596,
        num_traces=800,
        num_not_assembled=0,
        num_not_judged=0,
        num_judged=800,
        stages=tuple(stages),
        num_admitted=148,
        num_trained=128,
    )


def check(
    section: str,
    title: str,
    value: float | None,
    *,
    bound: float | None = None,
    bad: str | None = None,
    status: Status = "ok",
    severity: str = "warn",
    unit: str = "share",
    n: int = 800,
    spread: float | None = None,
    subject: str = "all",
    sentence: str = "",
    fix: str = "",
    wobble: float = 0.03,
) -> Check:
    """One line of the gate table with 13 nights before it."""
    nights = [f"2026-11-{day:02d}" for day in range(15, 29)]
    past = [None if value is None else value * (1 + wobble * math.sin(1.7 * i)) for i in range(13)]
    trend = [
        TrendPoint(night=d, value=v, status="ok" if v is not None else status)
        for d, v in zip(nights[:13], past, strict=True)
    ]
    lower, upper = (None, None) if value is None or spread is None else (value - spread, value + spread)
    return Check(
        section=section,
        name=title.lower().replace(" ", "_"),
        subject=subject,
        title=title,
        meaning="",
        unit=unit,
        estimate=Estimate(value=value, lower=lower, upper=upper, num_observations=n),
        threshold=bound,
        comparison=bad,  # type: ignore[arg-type] - below, above or nothing
        severity=severity,  # type: ignore[arg-type] - one of the four words
        status=status,
        sentence=sentence or f"{title} over {n} observations.",
        fix=fix,
        trend=(*trend, TrendPoint(night="2026-11-28", value=value, status=status)),
    )


def checks() -> tuple[Check, ...]:
    """The gate table: three warnings, one gap, the rest ok."""
    return (
        check(
            "logprobs", "Usable for ratio methods", 0.86125, bound=0.97, bad="below", status="warn", spread=0.024,
            sentence="689 of 800 traces have log-probabilities that a ratio can use.",
            fix="See quarantine by reason: each reason names the server switch that mends it.",
        ),
        check(
            "admission", "Admitted traces", 148, bound=1000, bad="below", status="warn", unit="traces",
            sentence="148 of 800 traces may be trained on.",
            fix="Look at the waterfall for the stage that takes most, or lower gate.min_admitted.",
        ),
        check(
            "judge", "TNR: bad that fail", 0.79, bound=0.90, bad="below", status="warn", n=47, spread=0.11,
            sentence="37 of 47 traces that people called bad failed.",
            fix="The judge passes bad work, and training on it teaches just that: mend what it is asked.",
        ),
        check(
            "judge", "Age of the newest label", None, bound=30, bad="above", status="not_measured", unit="days", n=0,
            sentence="No label says when it was given.", fix="Log the event time of labels.",
        ),
        check("canary", "Canary: Bernoulli KL", 1.1e-11, bound=0.0015, bad="above", unit="nats", n=80, severity="stop", subject="version:v109"),
        check("canary", "Canary: mean |log ratio|", 1e-6, bound=0.03, bad="above", unit="nats", n=80, subject="version:v109"),
        check("logprobs", "Version unknown", 0.0, bound=0.01, bad="above", severity="warn"),
        check("rewards", "Arrived when mature", 0.947, bound=0.90, bad="below", severity="stop", n=778, spread=0.016),
        check("rewards", "Spread of rewards", 0.49, bound=0.05, bad="below", unit="reward", n=148, spread=0.02),
        check("duplicates", "Largest user", 0.041, bound=0.1, bad="above", n=148),
        check("regime", "Effective tokens", 0.93, bound=0.5, bad="below", n=9120),
    )  # fmt: skip


def logprobs() -> LogprobSection:
    """38 without, 45 without prompt ids, 2 and 2 damaged, 24 cut."""
    rows = (("v109", "2026-11-27", 80, 77, 75, 71), ("v108", "2026-11-26", 240, 226, 212, 205))
    rows += (("v104", "2026-11-24", 240, 228, 212, 203), ("v100", "2026-11-22", 240, 231, 216, 210))
    return LogprobSection(
        headline="689 of 800 traces (86.1%) have log-probabilities that a ratio can use; the canary is at the floor.",
        by_version=tuple(_coverage(v, *counts) for v, _, *counts in rows),
        by_day=tuple(_coverage(day, *counts) for _, day, *counts in rows),
        meanings=(
            Meaning(logprob_kind="processed", temperature=1.0, top_p=1.0, num_traces=756, num_usable=669),
            Meaning(logprob_kind="processed", temperature=1.0, top_p=0.8, num_traces=24, num_usable=0),
            Meaning(logprob_kind="processed", temperature=0.7, top_p=1.0, num_traces=20, num_usable=20),
        ),
        canaries=(
            Canary(
                version="v109",
                num_traces=71,
                mean_abs_log_ratio=1e-6,
                drift=1.1e-11,
                max_ratio=1.00001,
                bound=0.0003,
                status="ok",
            ),
            Canary(
                version="v108",
                num_traces=24,
                mean_abs_log_ratio=2e-6,
                drift=1.2e-11,
                max_ratio=1.00002,
                bound=0.0003,
                status="ok",
            ),
            Canary(
                version="v104",
                num_traces=24,
                mean_abs_log_ratio=3e-6,
                drift=1.0e-11,
                max_ratio=1.00003,
                bound=0.0003,
                status="ok",
            ),
            Canary(
                version="v100",
                num_traces=24,
                mean_abs_log_ratio=4e-6,
                drift=1.3e-11,
                max_ratio=1.00002,
                bound=0.0003,
                status="ok",
            ),
        ),
    )


def _coverage(label: str, num: int, present: int, aligned: int, usable: int) -> Coverage:
    return Coverage(label=label, num_traces=num, num_present=present, num_aligned=aligned, num_usable=usable)


def masks() -> MaskSection:
    """About a quarter of the tokens are the policy's own."""
    return MaskSection(
        headline="The policy wrote 24.8% of a trace's tokens; 39.0% of the traces were cut by the token limit.",
        lengths=tuple(
            Length(
                label=version, num_traces=num, own_share=0.24 + 0.004 * i, num_without_action_tokens=2 * i,
                num_forked=4 + i, tokens_p50=31.0 - i, tokens_p95=48.0, num_truncated=30 * i + 10,
                mean_reward_truncated=0.08, mean_reward_whole=0.52,
            )
            for i, (version, num) in enumerate(NUM_TRACES.items())
        ),
        curves=(
            Curve(label="reward 1", num_observations=277, points=tuple((8.0 + 2 * i, i / 20) for i in range(21))),
            Curve(label="reward 0", num_observations=475, points=tuple((9.0 + 2.4 * i, (i / 20) ** 1.7) for i in range(21))),
        ),
    )  # fmt: skip


def _admitted(median: float, trust: float) -> float:
    return 0.5 * (1 + math.erf(math.log(trust / median) / 1.1))


def staleness() -> StalenessSection:
    """Half of v108 within the trust, none of what is older."""
    lags, ages = (
        {"v109": 0, "v108": 1, "v104": 5, "v100": 9},
        {"v109": 39.5, "v108": 63.9, "v104": 111.8, "v100": 159.9},
    )
    grid = [10 ** (-6 + i / 8) for i in range(49)]
    return StalenessSection(
        headline="At a trust of 0.003 the gate keeps 100% of v109, 36.1% of v108 and nothing older.",
        trust=0.003,
        max_lag=8,
        max_age_hours=None,
        versions=tuple(
            VersionStaleness(
                version=v, num_traces=num, policy_lag=lags[v], age_hours=ages[v], num_scored=round(num * 0.86),
                drift_p50=DRIFT[v], drift_p95=DRIFT[v] * 3.1, mean_abs_log_ratio=DRIFT[v] * 3 + 1e-6, k3=DRIFT[v] * 1.1,
                m2=DRIFT[v] * 2.2, max_ratio_p99=1 + 30 * DRIFT[v],
                num_in_trust=round(round(num * 0.86) * _admitted(DRIFT[v], 0.003)),
            )
            for v, num in NUM_TRACES.items()
        ),
        admission=tuple(
            Curve(label=v, num_observations=round(num * 0.86), points=tuple((x, _admitted(DRIFT[v], x)) for x in grid))
            for v, num in NUM_TRACES.items()
        ),
        selection=(
            Selection(dimension="length", label="short third", num_kept=70, num_dropped=160, mean_reward_kept=0.55, mean_reward_dropped=0.31),
            Selection(dimension="length", label="middle third", num_kept=47, num_dropped=182, mean_reward_kept=0.48, mean_reward_dropped=0.33),
            Selection(dimension="length", label="long third", num_kept=31, num_dropped=199, mean_reward_kept=0.44, mean_reward_dropped=0.3),
            Selection(dimension="workload", label="refunds", num_kept=148, num_dropped=541, mean_reward_kept=0.5, mean_reward_dropped=0.31),
        ),
    )  # fmt: skip


def rewards() -> RewardSection:
    """48 never came, and reading them as 0 would cost 2 points."""
    means = (("all", 800, 0.364, 752), ("v109", 80, 0.463, 76), ("v108", 240, 0.508, 224))
    means += (("v104", 240, 0.287, 226), ("v100", 240, 0.204, 226))
    grid = (0, 1, 2, 3, 4, 6, 8, 12, 18, 24, 30, 36, 48)
    return RewardSection(
        headline="752 of 800 traces have a reward, mean 0.364 [0.330, 0.399]; 43 never got one.",
        ledger=RewardLedger(num_traces=800, num_mature=730, num_pending=5, num_immature=22, num_missing=43, num_refused=0),
        maturity_hours=36.0,
        sources=(
            RewardSource(
                name="refund_correct", source_kind="program", source="refund-checker", scorer_version="1",
                num_outcomes=786, num_traces=752, num_orphans=3, mean=0.364, standard_deviation=0.481,
            ),
            RewardSource(
                name="refund_ok", source_kind="judge", source="judge-small", scorer_version="2026-11-01",
                num_outcomes=800, num_traces=800, num_orphans=0, mean=0.47, standard_deviation=0.499,
            ),
            RewardSource(
                name="refund_ok", source_kind="human", source="rater-0", scorer_version="",
                num_outcomes=30, num_traces=30, num_orphans=0, mean=0.48, standard_deviation=0.5,
            ),
        ),
        num_sources_not_listed=0,
        arrival=(Curve(label="all", num_observations=800, points=tuple((float(h), 0.95 * (1 - math.exp(-h / 9))) for h in grid)),),
        means=tuple(
            RewardMean(
                label=label, num_traces=num, mean_if_zero=mean * arrived / num, standard_deviation=math.sqrt(mean * (1 - mean)),
                mean=Estimate(value=mean, lower=mean - 0.98 / math.sqrt(arrived), upper=mean + 0.98 / math.sqrt(arrived), num_observations=arrived),
            )
            for label, num, mean, arrived in means
        ),
        histogram=((0.0, 0.1, 478), *((i / 10, (i + 1) / 10, 0) for i in range(1, 9)), (0.9, 1.0, 274)),
    )  # fmt: skip


def figure(
    name: str,
    title: str,
    value: float | None,
    spread: float = 0.06,
    *,
    status: Status = "ok",
    unit: str = "share",
    n: int = 90,
) -> Figure:
    """One number of a scan."""
    lower, upper = (None, None) if value is None else (value - spread, value + spread)
    estimate = Estimate(value=value, lower=lower, upper=upper, num_observations=n if value is not None else 0)
    sentence = f"{title} on {n} labels." if value is not None else "No trace has both a judge's and a person's score."
    return Figure(name=name, subject="all", title=title, unit=unit, estimate=estimate, status=status, sentence=sentence)


def judge() -> JudgeSection:
    """90 labels; the judge passes bad work."""
    return JudgeSection(
        headline="On 90 labels the judge passes 93% of the good and fails 79% of the bad; corrected, 40% pass instead of 47%.",
        is_measured=True,
        figures=(
            figure("judge_labels", "Human labels", 90, 0, status="info", unit="labels"),
            figure("judge_tpr", "TPR: good that pass", 0.93, n=43),
            figure("judge_tnr", "TNR: bad that fail", 0.79, 0.11, status="warn", n=47),
            figure("judge_kappa", "Cohen's kappa", 0.71, 0.14, unit=""),
            figure("judge_ac1", "Gwet's AC1", 0.72, 0.14, status="info", unit=""),
            figure("judge_pass_rate", "Pass rate, raw", 0.47, 0.034, status="info", n=800),
            figure("judge_corrected_pass_rate", "Pass rate, corrected", 0.361, 0.12, status="info"),
            figure("judge_ppi_pass_rate", "Pass rate, prediction-powered", None, status="not_measured"),
        ),
    )  # fmt: skip


def concentration() -> ConcentrationSection:
    """97 users, none of them large."""
    return ConcentrationSection(
        headline="800 traces come from 97 users, as mixed as 71.4 equally frequent ones; no trace is there twice.",
        num_users=97,
        num_with_user=800,
        top_user_share=0.041,
        effective_users=71.4,
        num_duplicates=0,
        figures=(figure("duplicate_share", "Duplicates", 0.0, 0.0),),
    )


def updates() -> UpdateSection:
    """Eight updates of sixteen traces."""
    return UpdateSection(
        headline="8 updates read 128 admitted traces; 124 moved the policy, and v108 carries 44.0% of the coefficient mass.",
        method="FlashReinforce",
        preview=(figure("ratio_departure", "Mean |ratio - 1|", 0.021, 0.002, status="info", unit="", n=4100),),
        versions=(
            ReplayedVersion(version="v109", num_admitted=64, num_replayed=60, num_in_trust=60, mean_advantage=0.04,
                            positive_mass=14.1, negative_mass=-12.9, mass_share=0.56),
            ReplayedVersion(version="v108", num_admitted=84, num_replayed=68, num_in_trust=64, mean_advantage=-0.03,
                            positive_mass=9.8, negative_mass=-11.4, mass_share=0.44),
        ),
        updates=tuple(
            UpdateRow(first_step=i, last_step=i, num_traces=16, num_in_trust=16 - (i > 3), mean_drift=2e-4 * (i + 1),
                      max_ratio=1.4 + 0.1 * i, masked_share=0.02 * (i > 3), positive_mass=3.0 + 0.1 * i, negative_mass=-3.1 + 0.15 * i)
            for i in range(8)
        ),
        curves=tuple(
            TrainingCurve(name=name, title=title, meaning=f"What {title} is.", unit=unit, num_updates=len(values),
                          points=tuple((float(8 - len(values) + i), value) for i, value in enumerate(values)))
            for name, title, unit, values in (
                ("in_trust_share", "in trust", "share", (1.0, 1.0, 0.9375, 0.9375, 0.9375, 0.9375)),
                ("loss", "loss", "", (-0.11, -0.09, -0.13, -0.16, -0.02, -0.16)),
                ("mean_entropy", "entropy", "nats", (0.51, 0.29, 0.4, 0.28, 0.1, 0.44, 0.14, 0.72)),
            )
        ),
        num_warmup_updates=2,
    )  # fmt: skip


def quarantine(trace_id: str) -> QuarantineSection:
    """Seven reasons, 652 traces."""
    rows = (("drift_over_trust", "staleness", 245, 180, 230.0), ("lag_over_limit", "staleness", 170, 0, 200.0))
    rows += (("heldout", "holdout", 63, 17, 64.0), ("no_prompt_ids", "structure", 45, 0, 11.0))
    rows += (("reward_missing", "reward", 41, 2, None), ("no_behavior_logprobs", "logprobs", 38, 0, 38.5))
    rows += (("truncated_support", "logprobs", 24, 0, 25.0), ("reward_immature", "reward", 22, 0, 30.0))
    rows += (("len_mismatch", "structure", 2, 0, 0.0), ("sentinel_logprob", "logprobs", 2, 0, 2.0))
    return QuarantineSection(
        headline="652 of 800 traces are not admitted; most left for drift_over_trust.",
        traces=tuple(
            Quarantined(
                reason=code, stage=stage, is_pending=code == "reward_immature", sentence=f"What {code} means in one sentence.",
                fix="vLLM: send \"return_token_ids\": true with each request.", num_traces=num, num_also=also, usual=usual,
                examples=(trace_id, "0" * 32, "f" * 32), command=f"tracemill sql quarantined --param reason={code}",
            )
            for code, stage, num, also, usual in rows
        ),
        lines=(
            RejectedLines(reason="bad_json", sentence="The line is not JSON.", fix="Log one JSON object per line.",
                          num_lines=1, places=("/data/logs/2026-11-24.jsonl:1204477",)),
            RejectedLines(reason="truncated_tail", sentence="The last line of the file was cut before its end.",
                          fix="Nothing, if the writer is still at it.", num_lines=1, places=("/data/logs/2026-11-27.jsonl:802211",)),
        ),
    )  # fmt: skip


def lineage() -> Lineage:
    """Four versions and the new one."""
    chain = (
        ("v117", "made by this run", 117, "v109"),
        ("v109", "base", 109, "v108"),
        ("v108", "wrote traces", 108, "v104"),
    )
    chain += (("v104", "wrote traces", 104, "v100"), ("v100", "wrote traces", 100, None))
    return Lineage(
        settings_sha256="5f0c12ab" * 8,
        code_version="0.1.0+ad5f7aa",
        lake_snapshot=41,
        gate_sha256="77aa" * 16,
        seed=0,
        policies=tuple(
            Ancestor(
                version=v, role=role, optimizer_step=step, parent=parent, method=None, checkpoint_sha256="ab12" * 16
            )
            for v, role, step, parent in chain
        ),
        num_erasures=0,
    )
