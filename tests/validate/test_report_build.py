"""The report from rows written by hand; the night of `tests.warehouse.night` adds up in the head."""

import json
from dataclasses import asdict

import pytest

from schemas.errors import LakeError, UsageError
from tests.validate.report_lake import SETTINGS, append, fill_crowded, fill_night, finding, warned
from tests.validate.report_page import Page
from tests.warehouse.rows import call, hours_before, outcome, reject, replay, run, source_file, trace, update, verdict
from validate.report.build import build_report
from validate.report.render import render
from validate.report.write import as_json
from warehouse.lake import Lake


@pytest.fixture(scope="module")
def night_lake(tmp_path_factory):
    """The small night, read by many tests and changed by none."""
    with Lake.create(tmp_path_factory.mktemp("night")) as lake:
        fill_night(lake)
        yield lake


@pytest.fixture(scope="module")
def report(night_lake):
    """Its report."""
    return build_report(night_lake, "r1")


@pytest.fixture
def lake(tmp_path):
    """An empty lake of the test's own."""
    with Lake.create(tmp_path) as lake:
        yield lake


def test_every_line_is_in_one_place(report):
    """a.jsonl: 8 lines, its cut tail read twice and counted once; b.jsonl: 2; outcomes.csv: 11."""
    counts = {file.uri: asdict(file.counts) for file in report.waterfall.files}
    assert counts["a.jsonl"] == {"num_lines": 8, "num_landed": 5, "num_duplicates": 1, "num_rejects": 1, "num_blank": 1}
    assert report.waterfall.call_lines.num_lines == 10
    assert report.waterfall.outcome_lines.num_lines == 11
    assert (report.waterfall.num_lines_with_calls, report.waterfall.num_calls) == (6, 6)


def test_every_trace_is_in_one_place(report):
    """Of five, one leaves at structure, one waits for its reward, one is stale; two are admitted and trained."""
    ends = {
        s.name: (s.num_quarantined, s.num_pending) for s in report.waterfall.stages if s.num_quarantined + s.num_pending
    }
    assert ends == {"structure": (1, 0), "reward": (0, 1), "staleness": (1, 0)}
    assert (report.waterfall.num_judged, report.waterfall.num_admitted, report.waterfall.num_trained) == (5, 2, 2)
    assert (report.waterfall.num_not_judged, report.waterfall.num_not_assembled) == (0, 0)


def test_the_verdict_says_why_and_what_would_change_it(report):
    """The gate's word stands alone; of equally frequent reasons the first by name is named."""
    assert (report.verdict.decision, report.verdict.sentence) == ("go", "2 of 5 traces are admitted.")
    assert report.verdict.action.startswith("1 left for drift_over_trust: Train sooner after serving")


def test_coverage_is_told_by_version_freshest_first(report):
    """t5 has no log-probabilities and no version."""
    rows = [(r.label, r.num_traces, r.num_present, r.num_usable) for r in report.logprobs.by_version]
    assert rows == [("v109", 1, 1, 1), ("v108", 2, 2, 2), ("v100", 1, 1, 1), ("unknown", 1, 0, 0)]
    assert [(r.label, r.num_traces) for r in report.logprobs.by_day] == [("2026-11-28", 5)]
    assert [(m.logprob_kind, m.temperature, m.num_traces) for m in report.logprobs.meanings] == [
        ("processed", 1.0, 3),
        ("processed", None, 1),
        ("raw", 1.0, 1),
    ]


def test_the_canary_is_a_version_under_its_own_weights(report):
    """Only t1 was scored by the version that wrote it."""
    canary = report.logprobs.canaries[0]
    assert (canary.version, canary.num_traces, canary.drift, canary.max_ratio) == ("v109", 1, 0.0, 1.0)
    assert len(report.logprobs.canaries) == 1


def test_lengths_are_over_traces_not_sequences(report):
    """t2 has 2 own tokens, t3 has 1 + 3 in two sequences: the median of v108 is 3."""
    row = next(row for row in report.masks.lengths if row.label == "v108")
    assert (row.num_traces, row.num_forked, row.tokens_p50) == (2, 1, 3.0)
    assert [row.num_truncated for row in report.masks.lengths] == [0, 0, 1, 0]
    assert [(c.label, c.num_observations) for c in report.masks.curves] == [("reward 1", 2), ("reward 0", 1)]
    assert report.masks.curves[0].points[0] == (2.0, 0.0)
    assert report.masks.curves[0].points[-1] == (4.0, 1.0)


def test_staleness_is_told_by_version(report):
    """v108: drifts 0.002 and 0.004; of |log r| 0.15 and (0.1 + 3 * 0.5) / 4 = 0.4 the mean is 0.275."""
    row = report.staleness.versions[1]
    assert (row.version, row.policy_lag, row.num_scored, row.num_in_trust) == ("v108", 1, 2, 1)
    assert row.drift_p50 == pytest.approx(0.003)
    assert row.mean_abs_log_ratio == pytest.approx(0.275)
    assert [(v.version, v.num_scored) for v in report.staleness.versions[2:]] == [("v100", 0), ("unknown", 0)]
    assert "keeps 100% of v109 and 50.0% of v108" in report.staleness.headline


def test_the_admission_curve_counts_drifts_at_most_the_trust(report):
    """Tonight's trust is among the points, and half of v108 is within it; at 1 nat all are."""
    line = next(line for line in report.staleness.admission if line.label == "v108")
    points = dict(line.points)
    assert (points[0.003], points[1e-6], points[1.0]) == (0.5, 0.0, 1.0)
    assert [line.label for line in report.staleness.admission] == ["v109", "v108"]


def test_a_drift_of_exactly_the_trust_is_within_it(lake):
    """The gate drops what is above its bound, and so does every count of the report."""
    append(lake, "runs", run("r1", settings_json=json.dumps(SETTINGS)))
    append(lake, "traces", trace("t1", [-0.5]), trace("t2", [-0.5]))
    stale = {"reward": 1.0, "policy_lag": 1}
    append(
        lake,
        "verdicts",
        verdict("t1", "admitted", drift=0.003, **stale),
        verdict("t2", "admitted", drift=0.0030001, **stale),
    )
    section = build_report(lake, "r1").staleness
    assert (section.versions[0].num_scored, section.versions[0].num_in_trust) == (2, 1)
    assert dict(section.admission[0].points)[0.003] == 0.5
    assert sum(row.num_kept for row in section.selection if row.dimension == "length") == 1


def test_the_gate_says_whom_it_drops(report):
    """t3, the longest of the three scored, is the one that the trust drops; its reward is 1."""
    rows = {(r.dimension, r.label): (r.num_kept, r.num_dropped) for r in report.staleness.selection}
    assert rows["length", "long third"] == (0, 1)
    assert rows["reward", "high reward"] == (1, 1)
    assert rows["workload", "refund"] == (2, 1)
    long = next(r for r in report.staleness.selection if r.label == "long third")
    assert (long.mean_reward_kept, long.mean_reward_dropped) == (None, 1.0)


def test_a_missing_reward_is_no_zero(report):
    """Rewards 1, 0, 1 and two without: mean 2/3 when skipped, 2/5 if read as 0; the interval is the scan's."""
    whole = report.rewards.means[0]
    assert (whole.label, whole.num_traces, whole.mean.num_observations) == ("all", 5, 3)
    assert (whole.mean.value, whole.mean.lower, whole.mean_if_zero) == (pytest.approx(2 / 3, abs=1e-6), 0.1, 0.4)
    assert asdict(report.rewards.ledger) == {
        "num_traces": 5, "num_mature": 3, "num_pending": 1, "num_immature": 0, "num_missing": 1, "num_refused": 0,
    }  # fmt: skip
    assert report.rewards.arrival[0].points == ((0.0, 0.0), (6.0, 0.5), (24.0, 0.75))
    assert [number for _, _, number in report.rewards.histogram] == [1, *[0] * 8, 2]


def test_each_scorer_is_told_apart(report):
    """The checker scored t1 to t3, t2 twice, and an order that leads to no trace."""
    rows = {(s.name, s.source): s for s in report.rewards.sources}
    checker = rows["refund_correct", "checker"]
    assert (checker.num_outcomes, checker.num_traces, checker.num_orphans) == (5, 3, 1)
    assert checker.mean == pytest.approx(2 / 3, abs=1e-6)
    assert rows["refund_ok", "rater-0"].mean == pytest.approx(1 / 3, abs=1e-6)


def test_a_judge_without_labels_is_not_measured(report):
    """A pass rate alone says nothing about the judge."""
    assert not report.judge.is_measured
    assert [f.status for f in report.judge.figures] == ["not_measured", "info"]
    assert "no label on a judged trace" in render(report)


def test_users_weigh_by_their_traces(report):
    """u1 wrote t1, t2 and t5, u2 wrote t3, nobody knows who t4: 16 / 10 effective users."""
    crowd = report.concentration
    assert (crowd.num_users, crowd.num_with_user, crowd.top_user_share, crowd.effective_users) == (2, 4, 0.75, 1.6)


def test_the_updates_say_whose_traces_moved_the_policy(report):
    """t1 of v109 was read twice with mass 0.5 each, t2 of v108 once: two thirds and one third."""
    rows = [(r.version, r.num_admitted, r.num_replayed, r.positive_mass, r.mass_share) for r in report.updates.versions]
    assert rows == [
        ("v109", 1, 1, 1.0, pytest.approx(2 / 3, abs=1e-6)),
        ("v108", 1, 1, 0.5, pytest.approx(1 / 3, abs=1e-6)),
    ]
    assert [(u.first_step, u.num_traces, u.mean_drift) for u in report.updates.updates] == [
        (0, 2, 0.001),
        (1, 1, 0.001),
    ]
    assert report.updates.method == "FlashReinforce"


def test_curves_leave_out_what_a_warm_up_does_not_have(lake):
    """Four updates, the first with the critic alone: loss from update 1 on, entropy from update 0, no drift at all."""
    append(lake, "runs", run("r1"))
    waits = {"is_critic_warming_up": True, "moved": False, **dict.fromkeys(("loss", "grad_norm", "in_trust_share"))}
    moved = (update(n, mean_drift=None, loss=-float(n)) for n in range(1, 4))
    append(lake, "updates", update(0, mean_drift=None, **waits), *moved)
    section = build_report(lake, "r1").updates
    curves = {curve.name: curve for curve in section.curves}
    assert curves["loss"].points == ((1.0, -1.0), (2.0, -2.0), (3.0, -3.0))
    assert curves["mean_entropy"].points[0] == (0.0, 0.6)
    assert section.num_warmup_updates == 1
    assert list(curves) == ["in_trust_share", "loss", "grad_norm", "mean_entropy"]


def test_many_updates_share_points_and_none_is_lost(lake):
    """A point is the mean of its updates: 200 updates make 64 points that are behind 200 updates."""
    append(lake, "runs", run("r1"))
    append(lake, "updates", *(update(n, grad_norm=float(n)) for n in range(200)), update(0, run_id="r2"))
    (curve,) = [curve for curve in build_report(lake, "r1").updates.curves if curve.name == "grad_norm"]
    assert (len(curve.points), curve.num_updates, curve.points[-1][0]) == (64, 200, 199.0)
    assert curve.points[0] == (3.0, 1.5)


def test_a_run_without_rows_of_updates_says_that_its_curves_are_not_measured(lake):
    """A run of an older version, and one that did not train, have no curves and say so."""
    append(lake, "runs", run("r1"))
    append(lake, "updates", update(0, run_id="r2"))
    page = " ".join(render(build_report(lake, "r1")).split())
    assert "NOT MEASURED</span> <strong>Training curves.</strong> The table updates has fewer than two" in page


def test_every_reason_is_explained_counted_and_compared(report):
    """Two traces waited for their reward the night before, one does now; nothing else was there before."""
    rows = {row.reason: row for row in report.quarantine.traces}
    waiting = rows["reward_pending"]
    assert (waiting.num_traces, waiting.usual, waiting.is_pending, waiting.examples) == (1, 2.0, True, ("t4",))
    assert (rows["no_behavior_logprobs"].usual, rows["no_behavior_logprobs"].num_also) == (0.0, 0)
    assert "return_token_ids" not in waiting.fix
    assert [(row.reason, row.num_lines, row.places) for row in report.quarantine.lines] == [
        ("bad_json", 1, ("a.jsonl:50",)),
        ("bad_time", 1, ("b.jsonl:0",)),
    ]


def test_the_shown_command_lists_the_traces(night_lake, report):
    """What the report tells the reader to run gives what it promises."""
    row = next(row for row in report.quarantine.traces if row.reason == "drift_over_trust")
    text = row.command.split("'")[1]
    assert row.command.endswith("--param run_id=r1 --param reason=drift_over_trust")
    found = night_lake.sql(text, {"run_id": "r1", "reason": "drift_over_trust"})
    assert found["trace_id"].to_pylist() == ["t3"]


def test_a_finding_is_shown_with_the_nights_before(report):
    """Usable logprobs: 0.9 the night before, 0.8 tonight, below 0.97."""
    check = report.checks[0]
    assert (check.name, check.status, check.threshold) == ("usable_logprob_share", "warn", 0.97)
    assert [(point.night, point.value) for point in check.trend] == [("2026-11-27", 0.9), ("2026-11-28", 0.8)]


def test_a_number_for_information_stays_out_of_the_gate_table(report):
    """Nothing is held to it, so it belongs to its section alone."""
    assert [check.name for check in report.checks] == ["usable_logprob_share"]


def test_the_lineage_names_parents_seed_and_snapshot(report):
    """v110 was made from v109, which came from v108 and v100."""
    assert [(p.version, p.role) for p in report.lineage.policies] == [
        ("v110", "made by this run"),
        ("v109", "base"),
        ("v108", "wrote traces"),
        ("v100", "wrote traces"),
    ]
    assert (report.lineage.seed, report.lineage.gate_sha256) == (7, "gate")


def test_a_report_does_not_change_when_the_lake_grows(lake):
    """What is ingested, judged or run later leaves the report of an earlier night as it was, byte for byte."""
    fill_night(lake)
    before = as_json(build_report(lake, "r1"))
    append(lake, "source_files", source_file("later.jsonl", 1, rejects=1))
    append(lake, "rejects", reject("later.jsonl", 7))
    append(lake, "calls", call("c70", "t9", uri="later.jsonl"))
    append(lake, "traces", trace("t9", [-0.5]), trace("t1", [-0.25], trace_revision=1))
    append(lake, "outcomes", outcome("o70", "t4", 1.0))
    append(lake, "runs", run("r2", night="2026-11-29"), run("r1", revision=10, state="done", decision="go",
           sentence="GO: 2 of 5 traces are admitted.", base_policy="v109", new_policy="v110",
           settings_json=json.dumps(SETTINGS), lake_snapshot=json.loads(before)["lineage"]["lake_snapshot"]))  # fmt: skip
    append(lake, "verdicts", verdict("t9", "admitted", run_id="r2"))
    append(lake, "runs", run("r0.2", night="2026-11-27", started_at=hours_before(-24)))
    append(lake, "findings", warned("usable_logprob_share", 0.2, run_id="r0.2", night="2026-11-27"))
    append(lake, "findings", warned("usable_logprob_share", 0.1, run_id="r2", night="2026-11-29"))
    assert as_json(build_report(lake, "r1")) == before


def test_traces_that_the_run_did_not_judge_are_counted_apart(lake):
    """A trace that came after the verdicts, and one that is not put together, are in the waterfall too."""
    fill_night(lake)
    append(lake, "source_files", source_file("later.jsonl", 2))
    append(lake, "calls", call("c70", "t9", uri="later.jsonl"), call("c71", "t10", uri="later.jsonl"))
    append(lake, "traces", trace("t9", [-0.5]))
    append(lake, "runs", run("r1", revision=10, settings_json=json.dumps(SETTINGS), lake_snapshot=lake.snapshot()))
    water = build_report(lake, "r1").waterfall
    assert (water.num_traces, water.num_judged, water.num_not_judged, water.num_not_assembled) == (7, 5, 1, 1)


def test_a_lake_that_lost_a_line_gets_no_report(lake):
    """Two lines landed by the ledger, one of them has a call: refused, with both numbers."""
    append(lake, "runs", run("r1"))
    append(lake, "source_files", source_file("a.jsonl", 2))
    append(lake, "calls", call("c1", "t1"))
    with pytest.raises(LakeError, match=r"landed lines do not add up: 2 went in and 1 \+ 0 = 1"):
        build_report(lake, "r1")


def test_a_reject_without_its_row_gets_no_report(lake):
    """The ledger says one reject, the table has none."""
    append(lake, "runs", run("r1"))
    append(lake, "source_files", source_file("a.jsonl", 0, rejects=1))
    with pytest.raises(LakeError, match="reasons of rejected lines do not add up"):
        build_report(lake, "r1")


def test_training_on_a_trace_that_was_not_admitted_is_an_alarm(lake):
    """The report of such a run is refused: its policy must not be promoted."""
    append(lake, "runs", run("r1"))
    append(lake, "traces", trace("t1", [-0.5]))
    append(lake, "verdicts", verdict("t1", "quarantined", "heldout", stage="holdout"))
    append(lake, "replays", replay("t1"))
    with pytest.raises(LakeError, match="read 1 traces, of which it had admitted 0"):
        build_report(lake, "r1")


def test_a_verdict_of_an_unknown_word_is_refused(lake):
    """Neither admitted nor quarantined nor pending: the trace would be nowhere."""
    append(lake, "runs", run("r1"))
    append(lake, "traces", trace("t1", [-0.5]))
    append(lake, "verdicts", verdict("t1", "perhaps"))
    with pytest.raises(LakeError, match="1 verdicts are 'perhaps'"):
        build_report(lake, "r1")


def test_an_unknown_run_is_refused(lake):
    """The message says where to look."""
    with pytest.raises(UsageError, match=r"no run 'r7'.*tracemill runs"):
        build_report(lake, "r7")


def test_an_empty_lake_has_a_report_that_measures_nothing(lake):
    """A night without lines, traces, findings or settings is reported as just that."""
    append(lake, "runs", run("r1", decision="skipped"))
    report = build_report(lake, "r1")
    assert (report.verdict.decision, report.waterfall.num_judged, report.waterfall.num_trained) == ("skipped", 0, None)
    page = render(report)
    assert Page(page).named("h2")
    assert page.count("NOT MEASURED") >= 5


@pytest.mark.parametrize(
    ("decision", "status", "named"),
    [("no_go", "stop", "Usable for ratio methods: mend"), ("hold", "hold", "Usable for ratio methods: mend")],
)
def test_the_action_is_that_of_the_finding_that_decided(lake, decision, status, named):
    """A night that was stopped or held says what to mend first, and says it once."""
    append(
        lake, "findings", finding("later_name", 0.1, threshold=0.5, comparison="below", severity="warn", status="warn")
    )
    append(lake, "findings", warned("usable_logprob_share", 0.5, severity=status, status=status))
    sentence = f"{decision.upper().replace('_', '-')}: usable is 0.5. mend usable_logprob_share"
    append(lake, "runs", run("r1", decision=decision, sentence=sentence))
    report = build_report(lake, "r1")
    assert report.verdict.sentence == "usable is 0.5."
    assert report.verdict.action.startswith(named)
    assert [check.title for check in report.checks] == ["Usable for ratio methods", "later_name"]


def test_what_promotion_rests_on_and_nobody_measured_is_the_action(lake):
    """A hold for want of a number names that number."""
    missing = {"severity": "hold", "status": "not_measured", "comparison": "below"}
    append(lake, "findings", finding("judge_informedness", None, section="judge", fix="label traces", **missing))
    append(lake, "runs", run("r1", decision="hold", sentence="HOLD: it is not measured. label traces"))
    assert build_report(lake, "r1").verdict.action == "TPR + TNR: label traces"


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """The report of a night with too much of everything."""
    with Lake.create(tmp_path_factory.mktemp("crowded")) as lake:
        fill_crowded(lake)
        yield build_report(lake, "r28")


@pytest.mark.slow
def test_a_crowded_night_of_hostile_names_stays_under_its_limit(crowded):
    """Whatever there is too much of is shown together, counted, and never makes the page larger than 300 KB."""
    assert len(render(crowded).encode()) < 300_000
    assert len(crowded.logprobs.by_version) == 10
    assert len(crowded.checks) == 50
    assert len(crowded.checks[0].trend) == 14


@pytest.mark.slow
def test_what_is_not_listed_is_still_counted(crowded):
    """1,500 traces, 90 files with 5 rejects each, 200 findings, 50 scorers: all in the sums."""
    assert sum(row.num_traces for row in crowded.logprobs.by_version) == 1500
    assert (len(crowded.waterfall.files), crowded.waterfall.num_files_not_listed) == (24, 66)
    assert crowded.waterfall.call_lines.num_rejects == 450
    assert crowded.num_checks_not_listed == 150
    assert crowded.rewards.num_sources_not_listed == 30
    assert crowded.waterfall.num_trained == 375
    assert sum(row.num_traces for row in crowded.updates.updates) == 375
