"""Each saved question on the small night of tests/warehouse/night.py; the figures are added up by hand there."""

from datetime import date

import pytest

from tests.warehouse.rows import hours_before, outcome, policy, replay, rescored, run, trace, update, verdict
from tests.warehouse.test_views import write
from warehouse import query

ANSWERS = {
    "staleness_by_version": [
        (
            "behavior_version",
            "policy_lag",
            "num_traces",
            "share",
            "max_age_hours",
            "num_rescored",
            "mean_drift",
            "share_over_trust",
        ),
        ("v100", 9, 1, 0.2, 72.0, 0, None, None),
        ("v108", 1, 2, 0.4, 36.0, 2, 0.003, 0.5),
        ("v109", 0, 1, 0.2, 12.0, 1, 0.0, 0.0),
        (None, None, 1, 0.2, 48.0, 0, None, None),
    ],
    "age_by_workload": [
        ("workload", "num_traces", "median_age_hours", "max_age_hours"),
        ("chat", 1, 72.0, 72.0),
        ("refund", 4, 30.0, 48.0),
    ],
    "lag_against_drift": [
        ("policy_lag", "num_traces", "median_drift", "mean_abs_log_ratio", "mean_m2", "ess_share"),
        (0, 1, 0.0, 0.0, 0.0, 1.0),
        (1, 2, 0.003, (0.15 + 0.4) / 2, 0.025, 1.0),
    ],
    "admission_curve": [
        ("trust", "num_rescored", "num_admitted", "share", "mean_num_action_tokens"),
        (0.0003, 3, 1, 1 / 3, 2.0),
        (0.001, 3, 1, 1 / 3, 2.0),
        (0.003, 3, 2, 2 / 3, 2.0),
        (0.01, 3, 3, 1.0, 8 / 3),
        (0.03, 3, 3, 1.0, 8 / 3),
    ],
    "gate_drops": [
        ("workload", "length_third", "num_traces", "share_dropped", "mean_reward", "mean_reward_kept"),
        ("refund", 1, 1, 0.0, 1.0, 1.0),
        ("refund", 2, 1, 0.0, 0.0, 0.0),
        ("refund", 3, 1, 1.0, 1.0, None),
    ],
    "logprob_coverage": [
        ("day", "policy_version", "num_calls", "share_with_logprobs", "share_aligned", "share_usable"),
        (date(2026, 11, 28), "v108", 1, 1.0, 1.0, 1.0),
        (date(2026, 11, 28), "v109", 1, 1.0, 1.0, 1.0),
        (date(2026, 11, 27), "v108", 2, 1.0, 1.0, 0.5),
        (date(2026, 11, 27), None, 1, 0.0, 0.0, 0.0),
        (date(2026, 11, 26), "v100", 1, 1.0, 0.0, 0.0),
    ],
    "logprob_meaning": [
        ("logprob_kind", "temperature", "num_traces", "meaning"),
        ("processed", 1.0, 3, "exact"),
        ("processed", None, 1, "no_behavior_logprobs"),
        ("raw", 1.0, 1, "exact"),
    ],
    "canary": [
        ("policy_version", "state", "num_traces", "mean_abs_log_ratio", "mean_drift"),
        ("v111", "held", 0, None, None),
        ("v110", "candidate", 0, None, None),
        ("v109", "current", 1, 0.0, 0.0),
        ("v108", "retired", 0, None, None),
        ("v100", "retired", 0, None, None),
    ],
    "own_share": [
        ("workload", "num_sequences", "num_tokens", "num_action_tokens", "mean_own_share", "num_no_action"),
        ("chat", 1, 3, 1, 1 / 3, 0),
        ("refund", 5, 20, 8, (1 / 2 + 1 / 2 + 1 / 3 + 3 / 5 + 0) / 5, 1),
    ],
    "reward_mix": [
        ("day", "name", "source_kind", "num_traces", "share", "mean_value"),
        (date(2026, 11, 28), "refund_correct", "program", 2, 1.0, 0.5),
        (date(2026, 11, 28), "refund_ok", "human", 3, 0.5, 1 / 3),
        (date(2026, 11, 28), "refund_ok", "judge", 3, 0.5, 2 / 3),
        (date(2026, 11, 27), "refund_correct", "program", 1, 1.0, 1.0),
    ],
    "reward_drift": [
        ("source_kind", "num_before", "mean_before", "num_now", "mean_now", "z"),
        ("program", 1, 1.0, 2, 0.5, None),
        ("human", 1, 0.0, 2, 0.5, None),
        ("judge", 1, 0.0, 2, 1.0, None),
    ],
    "judge_agreement": [
        (
            "source",
            "num_judged",
            "num_labelled",
            "true_pass",
            "false_pass",
            "true_fail",
            "false_fail",
            "tpr",
            "tnr",
            "kappa",
            "corrected_rate",
        ),
        # Agreement 2/3; by chance (1*2 + 2*1)/9 = 4/9; kappa (2/3 - 4/9)/(5/9) = 0.4; (2/3 + 1/2 - 1)/(1 + 1/2 - 1) = 1/3.
        ("judge-small", 3, 3, 1, 1, 1, 0, 1.0, 0.5, 0.4, 1 / 3),
    ],
    "duplicate_conflicts": [
        ("kind", "num_groups", "num_extra", "num_conflicting"),
        ("same_numbers", 1, 1, 1),
        ("same_tokens", 1, 1, 1),
    ],
    "user_concentration": [
        ("verdict", "num_traces", "num_unknown", "num_users", "top_user_share", "effective_users"),
        (None, 5, 1, 2, 0.75, 16 / 10),
        ("admitted", 2, 0, 1, 1.0, 1.0),
        ("pending", 1, 1, 0, None, None),
        ("quarantined", 2, 0, 2, 0.5, 2.0),
    ],
    "quarantine_by_reason": [
        ("verdict", "reason", "num_traces", "num_leading", "num_runs_before", "mean_before", "times_usual"),
        ("pending", "reward_pending", 1, 1, 1, 2.0, 0.5),
        ("quarantined", "drift_over_trust", 1, 1, 1, 0.0, None),
        ("quarantined", "no_behavior_logprobs", 1, 1, 1, 0.0, None),
        ("pending", "not_rescored", 1, 0, 1, 0.0, None),
    ],
    "nights": [
        (
            "run_id",
            "decision",
            "num_admitted",
            "num_quarantined",
            "num_pending",
            "admitted_share",
            "num_updates",
            "minutes",
        ),
        ("r1", "go", 2, 2, 1, 0.4, 2, 30.0),
        ("r0", "skipped", 0, 0, 2, 0.0, 0, None),
    ],
    "reuse": [("num_updates", "num_traces", "mean_drift_growth"), (1, 1, 0.0), (2, 1, 0.001)],
    "file_counts": [
        ("uri", "num_readings", "num_lines", "num_landed", "num_duplicates", "num_rejects", "num_blank"),
        ("a.jsonl", 2, 8, 5, 1, 1, 1),
        ("b.jsonl", 1, 2, 1, 0, 1, 0),
        ("outcomes.csv", 1, 11, 11, 0, 0, 0),
    ],
    "waterfall": [
        ("unit", "step", "num_leaving", "num_remaining"),
        ("lines", "read", 0, 10),
        ("lines", "blank", 1, 9),
        ("lines", "duplicates", 1, 8),
        ("lines", "rejects", 2, 6),
        ("calls", "landed", 0, 6),
        ("traces", "assembled", 0, 5),
        ("traces", "not_judged", 0, 5),
        ("traces", "structure", 1, 4),
        ("traces", "logprobs", 0, 4),
        ("traces", "version", 0, 4),
        ("traces", "reward", 1, 3),
        ("traces", "duplicates", 0, 3),
        ("traces", "holdout", 0, 3),
        ("traces", "scored", 0, 3),
        ("traces", "staleness", 1, 2),
        ("traces", "already_trained", 0, 2),
        ("traces", "not_trained", 0, 2),
    ],
}


def ask(lake, name, columns, **parameters):
    """The answer as tuples of the named columns, in the order in which it came."""
    found = lake.query(name, **parameters)
    return [tuple(row[column] for column in columns) for row in found.to_pylist()]


def close(row):
    """The row with a tolerance for the last bits of sums and quotients."""
    return tuple(pytest.approx(value, rel=1e-12) if isinstance(value, float) else value for value in row)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_question_is_answered_for_the_night(night, name):
    """Every row, in order, against hand arithmetic."""
    columns, *expected = ANSWERS[name]
    assert ask(night, name, columns) == [close(row) for row in expected]


@pytest.mark.parametrize("name", [question.name for question in query.questions()])
def test_an_answer_has_the_columns_that_the_header_names(night, name):
    """The header is the documentation, in order."""
    parameters = {"user_hash": "u1"} if name == "policies_trained_by_user" else {}
    assert night.query(name, **parameters).column_names == [column for column, _ in query.load(name).columns]


@pytest.mark.parametrize("name", [question.name for question in query.questions()])
def test_every_question_has_an_answer_on_an_empty_lake(empty, name):
    """Before the first night there is nothing, and nobody stumbles over it."""
    parameters = {"user_hash": "u1"} if name == "policies_trained_by_user" else {}
    assert empty.query(name, **parameters).num_rows == {"waterfall": 17, "admission_curve": 5}.get(name, 0)


def test_the_trust_is_a_parameter(night):
    """At a trust of 0.0015 both traces of v108 are over it."""
    (old, *_) = [
        row
        for row in ask(night, "staleness_by_version", ("behavior_version", "share_over_trust"), trust=0.0015)
        if row[0] == "v108"
    ]
    assert old == ("v108", 1.0)


def test_ages_can_be_measured_from_another_clock(night):
    """Ten hours before the night's clock everything is ten hours younger."""
    found = ask(night, "age_by_workload", ("workload", "max_age_hours"), as_of=hours_before(10))
    assert found == [("chat", 62.0), ("refund", 38.0)]


def test_ratio_spikes_are_sorted_by_their_size_and_told_with_their_place(night):
    """t3's last token went from -0.3 to -2.3: a ratio of exp(-2); superseded revisions are left out."""
    columns = ("trace_id", "sequence_index", "token_position", "token_id", "ratio")
    found = ask(night, "ratio_spikes", columns, num_rows=2)
    # float32 log-probabilities are exact to 1e-7 of their size.
    assert found == [
        ("t3", 1, 4, 5, pytest.approx(0.1353352832, rel=1e-6)),
        ("t2", 0, 3, 4, pytest.approx(0.8187307531, rel=1e-6)),
    ]


def test_lists_of_different_lengths_are_never_zipped(lake):
    """A rescored list that is too short would be padded with nulls: it is left out, and the audit names it."""
    write(
        lake,
        traces=[trace("t1", [-0.5, -1.0])],
        policies=[policy("v109", 109, "current")],
        rescored=[rescored("t1", [None, None, -2.0], 0.1)],
    )
    assert lake.query("ratio_spikes").num_rows == 0


def test_scores_on_the_way_are_pending_and_late_ones_never_came(night):
    """With a window of 60 hours t5 may still be scored; t4, 72 hours old, never was. Zero is not their score."""
    columns = ("day", "num_traces", "num_arrived", "num_pending", "num_never_came", "mean_arrived", "mean_if_zero")
    found = night.query("reward_arrival", maturity_hours=60).to_pylist()
    program = [tuple(row[column] for column in columns) for row in found if row["source_kind"] == "program"]
    assert program == [
        (date(2026, 11, 28), 2, 2, 0, 0, 0.5, 0.5),
        (date(2026, 11, 27), 2, 1, 1, 0, 1.0, 0.5),
        (date(2026, 11, 26), 1, 0, 0, 1, None, 0.0),
    ]


def test_a_change_of_the_mean_is_told_in_standard_errors(lake):
    """Before 0, 1 and now 1, 1, 1, 0: (0.75 - 0.5) / sqrt(0.5/2 + 0.25/4)."""
    before = [(0.0, 48), (1.0, 48)]
    now = [(1.0, 1), (1.0, 1), (1.0, 1), (0.0, 1)]
    write(
        lake,
        traces=[trace(f"t{n}", [-0.5], ended_at=hours_before(age)) for n, (_, age) in enumerate(before + now)],
        outcomes=[outcome(f"o{n}", f"t{n}", value) for n, (value, _) in enumerate(before + now)],
        runs=[run("r1")],
    )
    columns = ("num_before", "mean_before", "num_now", "mean_now", "z")
    assert ask(lake, "reward_drift", columns) == [close((2, 0.5, 4, 0.75, 0.25 / 0.3125**0.5))]


def test_a_reward_that_pays_for_length_shows(night):
    """The judge passes the two short traces and fails the long one: correlation -1."""
    columns = ("source_kind", "num_traces", "correlation_length", "correlation_truncated")
    assert ask(night, "reward_by_feature", columns) == [
        ("program", 3, pytest.approx(0.5), None),
        ("human", 3, pytest.approx(-0.5), None),
        ("judge", 3, pytest.approx(-1.0), None),
    ]


def test_a_judge_no_better_than_chance_is_not_corrected(lake):
    """People pass and fail, the judge passes all: tpr + tnr is 1."""
    human = {"source_kind": "human", "source": "rater"}
    judge = {"source_kind": "judge", "source": "judge"}
    write(
        lake,
        outcomes=[outcome(f"h{n}", f"t{n}", n % 2, **human) for n in range(4)]
        + [outcome(f"j{n}", f"t{n}", 1.0, **judge) for n in range(4)],
    )
    columns = ("raw_pass_rate", "tpr", "tnr", "kappa", "corrected_rate")
    assert ask(lake, "judge_agreement", columns) == [(1.0, 1.0, 0.0, 0.0, None)]


def test_versions_trained_on_a_user_include_their_descendants(night):
    """u1's t1 and t2 trained v110, and v111 grew from it; u2's trace trained nothing."""
    columns = ("policy_version", "num_own_traces", "is_descendant")
    assert ask(night, "policies_trained_by_user", columns, user_hash="u1") == [("v110", 2, False), ("v111", 0, True)]
    assert ask(night, "policies_trained_by_user", columns, user_hash="u2") == []


def test_uplift_is_given_only_with_enough_effective_traces(lake):
    """Weights 1 and 3 on rewards 0 and 1: mean of (w - 1)(r - 0.5) is 0.5; ESS 16/10 of 2."""
    write(
        lake,
        traces=[trace(f"t{n}", [-0.5], split="holdout", version="v108") for n in range(2)],
        verdicts=[verdict(f"t{n}", "quarantined", "heldout", reward=float(n)) for n in range(2)],
        rescored=[
            rescored(f"t{n}", [None, None, -0.5], 0.1, behavior_version="v108", sequence_log_ratio=log_ratio)
            for n, log_ratio in enumerate([0.0, 1.0986122886681098])
        ],
    )
    columns = ("policy_version", "behavior_version", "num_traces", "ess_share", "uplift")
    assert ask(lake, "heldout_uplift", columns) == [close(("v109", "v108", 2, 0.8, 0.5))]
    assert ask(lake, "heldout_uplift", columns, min_ess_share=0.9) == [close(("v109", "v108", 2, 0.8, None))]
    write(lake, replays=[replay("t1")])
    assert ask(lake, "heldout_uplift", columns[:3]) == [("v109", "v108", 1)]  # never on what was trained on


def test_the_curves_of_the_latest_run_are_told_in_order(lake):
    """Two updates of r1 after one of r0: 0.6 of 0.5 nats is a share of 1.2, 50 slots for 200 tokens a quarter."""
    old = update(0, run_id="r0", replayed_at=hours_before(24))
    write(lake, updates=[update(1, moved=False, loss=None, grad_norm=None), old, update(0, mfu=0.25)])
    columns = ("run_id", "step", "moved", "loss", "entropy_share", "slots_per_token", "mfu")
    assert ask(lake, "training_curves", columns) == [
        close(("r1", 0, True, -0.5, 1.2, 0.25, 0.25)),
        close(("r1", 1, False, None, 1.2, 0.25, None)),
    ]
    assert ask(lake, "training_curves", ("run_id", "step"), run_id="r0") == [("r0", 0)]


def test_a_trace_that_was_trained_on_twice_counts_its_growth(lake):
    """Updates of one trace over two runs, drift 0.001 first and 0.004 last."""
    write(
        lake,
        replays=[
            replay("t1", drift=0.001),
            replay("t1", run_id="r2", drift=0.004, replayed_at=hours_before(-24)),
            replay("t1", run_id="r2", drift=0.004, sequence_index=1, replayed_at=hours_before(-24)),
        ],
    )
    assert ask(lake, "reuse", ("num_updates", "num_traces", "mean_drift_growth")) == [close((2, 1, 0.003))]


def test_a_run_can_be_chosen_for_the_waterfall(night):
    """In run r0 two traces were pending and three not judged."""
    found = {row["step"]: row["num_leaving"] for row in night.query("waterfall", run_id="r0").to_pylist()}
    assert (found["not_judged"], found["reward"], found["structure"]) == (3, 2, 0)
