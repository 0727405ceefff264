"""A whole night: one verdict for each trace, counts that add up, and nothing that order or masked numbers change."""

import math
import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validate.hand_made import AS_OF, REWARD, SETTINGS, call, drift, night, outcome, policies, policy, sequence
from validate.catalog import MEASURES
from validate.check import compare_all
from validate.examination import examine
from validate.gate import GateSettings, ValidateSettings
from validate.traces import traces_of
from validate.waterfall import REASON_ORDER, STAGES
from warehouse import query

MEANINGS = (
    "logprob_kind_unknown",
    "logprob_kind_mismatch",
    "truncated_support",
    "greedy_sampling",
    "penalised_sampling",
    "grammar_constrained",
    "sampling_params_unknown",
    "sampling_mixed",
)


def reasons_of(seen, chosen=SETTINGS):
    """All reasons of each trace."""
    found = examine(seen, chosen, as_of=AS_OF)
    return dict(zip(seen.traces.trace_ids.to_pylist(), found.waterfall.reasons.to_pylist(), strict=True))


def test_a_good_trace_is_admitted():
    """Nothing is wrong with the trace that all other tests change in one thing."""
    found = examine(night([sequence("a")]), SETTINGS, as_of=AS_OF)
    assert found.waterfall.verdicts().to_pylist() == ["admitted"]
    assert found.waterfall.stages().to_pylist() == ["admitted"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"faults": ["no_token_ids"]}, "no_token_ids"),
        ({"faults": ["ambiguous_siblings"]}, "ambiguous_siblings"),
        ({"token_ids": [1, 2, 3]}, "len_mismatch"),
        ({"token_ids": [1, 2, -7, 3, 4]}, "ids_out_of_vocab"),
        ({"mask": [False] * 3}, "no_action_tokens"),
        ({"logprobs": [-0.5, None, -0.25]}, "no_behavior_logprobs"),
        ({"logprobs": [-0.5, -9999.0, -0.25]}, "sentinel_logprob"),
        ({"logprobs": [-0.5, float(np.finfo(np.float32).min), -0.25]}, "sentinel_logprob"),
        ({"logprobs": [-0.5, math.nan, -0.25]}, "nonfinite_logprob"),
        ({"logprobs": [-0.5, -math.inf, -0.25]}, "nonfinite_logprob"),
        ({"logprobs": [-0.5, 0.25, -0.25]}, "positive_logprob"),
        ({"logprobs": [-0.5] * 8}, "constant_logprob"),
        ({"version_spans": [{"policy_version": None, "start": 2, "end": 5}]}, "version_unknown"),
        ({"version_spans": []}, "version_unknown"),
        ({"version": "v9"}, "version_unregistered"),
        ({"split": "holdout"}, "heldout"),
        ({"hours": 24 * 15.0}, "too_old"),
    ],
)
def test_a_fault_of_the_trace_is_its_reason(change, reason):
    """Each change of a good trace gives the one reason that names it."""
    assert reasons_of(night([sequence("a", **change)])) == {"a": [reason]}


@pytest.mark.parametrize("reason", MEANINGS)
def test_sampling_that_cannot_be_repeated_is_the_reason_that_ingest_found(reason):
    """Ingest alone says what a call's numbers mean; the gate takes its word for all of a trace's calls."""
    found = examine(night([sequence("a", faults=[reason])]), SETTINGS, as_of=AS_OF)
    assert found.waterfall.stages().to_pylist() == ["logprobs"]
    assert found.waterfall.reasons.to_pylist() == [[reason]]


def test_the_meanings_are_told_in_the_order_of_the_gate():
    """`logprob_meaning` names the reason that the gate would name."""
    listed = re.findall(r"'([a-z_]+)'", query.load("logprob_meaning").text)
    assert [code for code in REASON_ORDER if code in listed] == [code for code in listed if code != "exact"]
    assert set(listed) == {*MEANINGS, "no_behavior_logprobs", "exact"}


@pytest.mark.parametrize(
    ("hours", "rows", "reason"),
    [
        (35.0, [], "reward_pending"),
        (35.0, [outcome("a", 1.0, hours=20.0)], "reward_immature"),
        (37.0, [], "reward_missing"),
        (37.0, [outcome("a", None)], "reward_missing"),
        (48.0, [outcome("a", 1.5)], "reward_out_of_range"),
        (48.0, [outcome("a", 1.0, is_conflict=True)], "conflicting_outcomes"),
        (48.0, [outcome("a", 1.0, name="other")], "reward_missing"),
        (48.0, [outcome("a", 1.0, source_kind="judge")], "reward_missing"),
    ],
)
def test_a_reward_that_cannot_be_used_is_the_reason(hours, rows, reason):
    """The maturity window of 36 hours tells pending from missing; another scorer's word does not count."""
    assert reasons_of(night([sequence("a", hours=hours)], outcome_rows=rows)) == {"a": [reason]}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([drift("a", 0.0031)], "drift_over_trust"),
        ([], "not_rescored"),
        ([drift("a", 0.001, is_complete=False)], "not_rescored"),
        ([drift("a", 0.001, policy_version="v2")], "not_rescored"),
    ],
)
def test_a_trace_far_from_the_current_policy_is_kept_out(rows, reason):
    """Drift counts under the current policy alone, and only when every sequence was scored."""
    assert reasons_of(night([sequence("a")], drift_rows=rows)) == {"a": [reason]}


def test_a_lag_over_the_limit_keeps_a_trace_out_whether_it_was_scored_or_not():
    """v1 stands at step 1 and the current policy at step 4: three updates."""
    strict = ValidateSettings(gate=GateSettings(max_lag=2), reward=REWARD)
    assert reasons_of(night([sequence("a", version="v1")], drift_rows=[]), strict) == {"a": ["lag_over_limit"]}
    exact = ValidateSettings(gate=GateSettings(max_lag=3), reward=REWARD)
    assert reasons_of(night([sequence("a", version="v1")]), exact) == {"a": []}


def test_a_trace_of_fewer_calls_than_its_workload_has_is_not_whole():
    """The settings say how many calls a complete trace of a workload has; another workload is not asked."""
    chosen = ValidateSettings(gate=GateSettings(required_calls={"desk": 2}), reward=REWARD)
    rows = [sequence("a"), sequence("b", num_calls=2, logprobs=[-0.1]), sequence("c", workload="x", logprobs=[-0.2])]
    assert reasons_of(night(rows), chosen) == {"a": ["missing_call"], "b": [], "c": []}


def test_a_reply_of_zeros_is_no_default_where_the_support_was_cut():
    """Under top-p each token may be the only one left, whose log-probability is 0: the cut is what is wrong."""
    rows = [sequence("a", logprobs=[0.0] * 9)]
    cut = sequence("a", logprobs=[0.0] * 9, faults=["truncated_support"])
    assert reasons_of(night([cut])) == {"a": ["truncated_support"]}
    assert reasons_of(night(rows)) == {"a": ["constant_logprob"]}


def test_versions_that_differ_between_sequences_are_ambiguous():
    """One trace of two sequences, each by one version, has two writers."""
    rows = [
        sequence("a", num_sequences=2),
        sequence("a", num_sequences=2, sequence_index=1, version="v3", logprobs=[-2.0]),
    ]
    assert reasons_of(night(rows)) == {"a": ["version_ambiguous"]}


def test_a_fault_in_any_sequence_is_a_fault_of_the_trace():
    """The second sequence has a placeholder, or both together are one constant."""
    rows = [sequence("a", num_sequences=2), sequence("a", num_sequences=2, sequence_index=1, logprobs=[-9999.0])]
    assert reasons_of(night(rows)) == {"a": ["sentinel_logprob"]}
    halves = [sequence("a", num_sequences=2, sequence_index=index, logprobs=[-0.5] * 4) for index in (0, 1)]
    assert reasons_of(night(halves)) == {"a": ["constant_logprob"]}


def test_a_copy_under_another_id_is_a_duplicate_and_the_earlier_stays():
    """The same tokens and numbers without response ids: the later one leaves."""
    rows = [sequence("late", hours=47.0), sequence("early", hours=49.0)]
    copies = [call("late", response_id=None), call("early", response_id=None)]
    assert reasons_of(night(rows, call_rows=copies)) == {"early": [], "late": ["duplicate_trace"]}
    same = [call("late", response_id="r"), call("early", response_id="r")]
    assert reasons_of(night(rows, call_rows=same)) == {"early": [], "late": ["duplicate_trace"]}


def test_equal_tries_with_response_ids_of_their_own_are_no_duplicates():
    """The engine answered twice: two tries, however equal."""
    assert reasons_of(night([sequence("a"), sequence("b")])) == {"a": [], "b": []}


def test_a_trace_that_trained_is_not_trained_again():
    """It passes everything else and leaves at the last stage."""
    found = examine(night([sequence("a")], is_trained=np.array([True])), SETTINGS, as_of=AS_OF)
    assert found.waterfall.stages().to_pylist() == ["already_trained"]


def test_a_log_of_text_alone_lacks_log_probabilities_first_and_tells_the_rest():
    """Its three faults are all told, and the one that a ratio cannot do without leads."""
    faults = ["no_behavior_logprobs", "no_prompt_ids", "no_token_ids"]
    empty = sequence("a", faults=faults, token_ids=[], token_logprobs=[], action_mask=[], spans=[], num_action_tokens=0)
    found = examine(night([empty]), SETTINGS, as_of=AS_OF)
    assert found.waterfall.stages().to_pylist() == ["logprobs"]
    assert found.waterfall.reasons.to_pylist() == [["no_behavior_logprobs", "no_token_ids", "no_prompt_ids"]]


def test_the_first_stage_decides_and_all_reasons_are_told():
    """A held-out trace of an unknown version without a reward leaves at the version, and is not asked to be scored."""
    seen = night([sequence("a", version="v9", split="holdout")], outcome_rows=[], drift_rows=[])
    found = examine(seen, SETTINGS, as_of=AS_OF)
    assert found.waterfall.stages().to_pylist() == ["version"]
    assert found.waterfall.reasons.to_pylist() == [["version_unregistered", "reward_missing", "heldout"]]


FAULTS = st.sampled_from(
    [
        {},
        {"logprobs": [-0.5, None]},
        {"logprobs": [math.nan]},
        {"logprobs": []},
        {"faults": ["no_prompt_ids"]},
        {"version": "v9"},
        {"version": None},
        {"split": "holdout"},
        {"hours": 10.0},
        {"hours": 1000.0},
        {"token_ids": []},
    ]
)
NIGHTS = st.lists(st.tuples(FAULTS, st.booleans(), st.sampled_from([None, 0.0001, 0.1])), max_size=12)


def build(parts, order=None):
    """A night of such parts, its rows in the order that is asked for."""
    rows = [sequence(f"t{index}", **change) for index, (change, _, _) in enumerate(parts)]
    rewards = [outcome(f"t{index}", 1.0) for index, (_, has, _) in enumerate(parts) if has]
    scores = [drift(f"t{index}", kl) for index, (_, _, kl) in enumerate(parts) if kl is not None]
    known = [call(row["trace_id"]) for row in rows]
    if order is not None:
        for listed in (rows, rewards, scores, known):
            listed.sort(key=lambda row: order(row["trace_id"]))
    return night(rows, call_rows=known, outcome_rows=rewards, drift_rows=scores)


@settings(max_examples=60, deadline=None)
@given(NIGHTS)
def test_any_night_gives_each_trace_one_verdict_and_the_stages_add_up(parts):
    """What enters a stage leaves it or goes on; the last stage leaves what is admitted."""
    found = examine(build(parts), SETTINGS, as_of=AS_OF)
    counts = found.waterfall.counts()
    verdicts = found.waterfall.verdicts().to_pylist()
    assert len(verdicts) == len(parts)
    assert set(verdicts) <= {"admitted", "pending", "quarantined"}
    assert counts[0].num_entered == len(parts)
    for before, after in pairwise(counts):
        assert before.num_entered - before.num_quarantined - before.num_pending == after.num_entered
    assert counts[-1].num_left == verdicts.count("admitted")
    assert sum(sum(count.reasons.values()) for count in counts) == len(parts) - verdicts.count("admitted")
    assert [count.name for count in counts] == [stage.name for stage in STAGES]


@settings(max_examples=40, deadline=None)
@given(NIGHTS, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(parts, random):
    """The same rows in another order give the same verdicts and the same readings."""
    ranks = {f"t{index}": random.random() for index in range(len(parts))}
    straight = examine(build(parts), SETTINGS, as_of=AS_OF)
    shuffled = examine(build(parts, order=ranks.__getitem__), SETTINGS, as_of=AS_OF)
    assert straight.waterfall.reasons.equals(shuffled.waterfall.reasons)
    assert [r.sentence for r in straight.readings] == [r.sentence for r in shuffled.readings]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(width=32), min_size=2, max_size=2), st.sampled_from([math.nan, -math.inf, 7.0, -9999.0]))
def test_what_stands_off_the_action_mask_changes_nothing(prompt, poison):
    """NaN, infinity or any number on prompt and tool tokens leaves every verdict and reading as it was."""
    mask = [True, False, True]
    clean = sequence("a", logprobs=[-0.5, None, -0.25], mask=mask)
    bad = sequence("a", mask=mask, token_logprobs=[*prompt, -0.5, poison, -0.25])
    first, second = (examine(night([row]), SETTINGS, as_of=AS_OF) for row in (clean, bad))
    assert first.waterfall.reasons.to_pylist() == second.waterfall.reasons.to_pylist() == [[]]
    assert first.readings == second.readings


def test_shares_of_tokens_have_no_interval():
    """Tokens of one trace hang together: a thousand of them are not a thousand observations."""
    readings = examine(night([sequence("a"), sequence("b")]), SETTINGS, as_of=AS_OF).readings
    for name in ("action_token_share", "exact_zero_share", "rounded_logprob_share"):
        (share,) = (reading.estimate for reading in readings if (reading.name, reading.subject) == (name, "all"))
        assert (share.value is None, share.lower, share.upper) == (False, None, None)


def test_every_measure_of_the_catalog_is_read_every_night():
    """An empty night and a good one give a reading for each measure that has the subject all, and none unknown."""
    by_version = {"canary_bernoulli_kl", "canary_abs_log_ratio", "reward_shift", "reward_source_share"}
    by_version |= {"reward_arrived_by", "judge_length_gap"}
    empty = night([])
    for seen in (empty, night([sequence("a"), sequence("b")])):
        names = {reading.name for reading in examine(seen, SETTINGS, as_of=AS_OF).readings if reading.subject == "all"}
        assert names >= MEASURES.keys() - by_version


def test_an_empty_night_measures_nothing_and_nothing_is_green_but_counts():
    """Shares and means of no trace are not measured; only counts of zero are numbers."""
    readings = examine(night([]), SETTINGS, as_of=AS_OF).readings
    findings = compare_all(readings, MEASURES, {})
    counted = {"admitted_traces", "pending_traces", "reward_count", "reward_revisions", "orphan_outcomes"}
    assert {found.name for found in findings if found.status != "not_measured"} == counted


def test_no_reading_stands_twice():
    """Name and subject are the key of a finding within its run."""
    readings = examine(night([sequence("a"), sequence("b", version="v3")]), SETTINGS, as_of=AS_OF).readings
    keys = [(reading.name, reading.subject) for reading in readings]
    assert len(keys) == len(set(keys))


def test_a_night_without_a_current_policy_admits_nothing_and_says_so():
    """No lag, no drift, no canary: nothing is assumed."""
    seen = night([sequence("a")], policies=policies(policy("v2", 3)), drift_rows=[])
    found = examine(seen, SETTINGS, as_of=AS_OF)
    assert found.waterfall.reasons.to_pylist() == [["not_rescored"]]
    grave = [r for r in compare_all(found.readings, MEASURES, {}) if r.name == "canary_bernoulli_kl"]
    assert ("all", "not_measured", "hold") in {(r.subject, r.status, r.severity) for r in grave}


def test_traces_of_several_chunks_are_read_like_one():
    """A table of many chunks, as a lake hands it over, gives what one chunk gives."""
    rows = [sequence("a"), sequence("b", logprobs=[-0.5, None]), sequence("c", faults=["no_prompt_ids"])]
    seen = night(rows)
    pieces = pa.concat_tables([seen.traces.sequences.slice(index, 1) for index in range(3)])
    assert pieces["token_ids"].num_chunks == 3
    apart = night(rows, traces=traces_of(pieces))
    assert reasons_of(seen) == reasons_of(apart)
