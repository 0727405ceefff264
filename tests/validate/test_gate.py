"""The gate on a real lake: verdicts and findings written once, read back alike, and settings that are refused."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from tests.validate.hand_made import AS_OF, LOGPROBS, REWARD, call, policy, sequence
from validate.gate import GateSettings, ValidateSettings, validate
from validate.judge import JudgeSettings
from warehouse.lake import Lake

SETTINGS = ValidateSettings(gate=GateSettings(min_admitted=1), reward=REWARD)


def logged_call(trace_id):
    """A row of `calls`."""
    row = {
        "model": "desk@v2",
        "log_format": "vllm_chat",
        "streamed": False,
        "choice_index": 0,
        "num_choices": 1,
        "started_at": AS_OF - timedelta(hours=49),
        "uri": "log",
        "byte_offset": 0,
        "line_sha256": "0",
        "notes": [],
        "ingested_at": AS_OF,
    }
    return row | call(trace_id)


def event(trace_id, value, **changes):
    """A row of `outcomes`."""
    time = AS_OF - timedelta(hours=changes.pop("hours", 40.0))
    row = {
        "outcome_id": f"{trace_id} {value} {time} {sorted(changes.items())}",
        "trace_id": trace_id,
        "name": "solved",
        "value": value,
        "source_kind": "program",
        "source": "checker",
        "event_time": time,
        "observed_time": time,
        "uri": "scores",
        "byte_offset": 0,
        "line_sha256": "0",
        "ingested_at": AS_OF,
    }
    return row | changes


def rescored(trace_id, version, kl, **changes):
    """A row of `rescored`."""
    row = {
        "trace_id": trace_id,
        "trace_revision": 0,
        "sequence_index": 0,
        "policy_version": version,
        "behavior_version": "v2",
        "logprobs": [None, None, *LOGPROBS],
        "num_action_tokens": 3,
        "mean_bernoulli_kl": kl,
        "mean_abs_log_ratio": 0.0,
        "k1": 0.0,
        "k2": 0.0,
        "k3": 0.0,
        "m2": 0.0,
        "max_ratio": 1.0,
        "sequence_log_ratio": 0.0,
        "run_id": "r",
        "scored_at": AS_OF,
    }
    return row | changes


def replayed(trace_id, run_id):
    """A row of `replays`."""
    numbers = ("policy_lag", "reward", "advantage", "drift", "mean_ratio", "max_ratio", "masked_share", "positive_mass")
    row = {
        "run_id": run_id,
        "step": 0,
        "trace_id": trace_id,
        "trace_revision": 0,
        "sequence_index": 0,
        "method": "flash_reinforce",
        "in_trust": True,
        "negative_mass": 0.0,
        "replayed_at": AS_OF,
    }
    return row | dict.fromkeys(numbers, 1)


ROWS = {
    "traces": [
        {name: value for name, value in sequence(trace_id).items() if name != "schema_version"} for trace_id in "abcd"
    ],
    "calls": [logged_call(trace_id) for trace_id in "abcd"],
    "outcomes": [event("a", 1.0), event("b", 0.0), event("c", 1.0), event("unseen", 1.0)],
    "policies": [
        {name: value for name, value in row.items() if name != "schema_version"}
        for row in (policy("v2", 3, run_id="earlier"), policy("v3", 4, state="current", parent_version="v2"))
    ],
    "rescored": [rescored("a", "v3", 0.001), rescored("b", "v3", 0.5), rescored("c", "v3", 0.001)],
    "replays": [replayed("c", "earlier"), replayed("a", "a run that came to nothing")],
}


@pytest.fixture(name="lake")
def fixture_lake(tmp_path):
    """A lake of four traces: a is good, b is beyond the trust, c has trained an ancestor, d has no reward."""
    with Lake.create(tmp_path / "lake") as lake:
        with lake.transaction() as transaction:
            for table, rows in ROWS.items():
                transaction.append(table, rows)
        yield lake


def judge(lake, *, run_id="run", settings=SETTINGS, as_of=AS_OF):
    """The gate over the lake."""
    return validate(lake, settings=settings, run_id=run_id, night="2026-11-28", as_of=as_of)


def test_every_trace_of_the_lake_gets_one_verdict(lake):
    """Each leaves where it should, with its reward, drift, lag and age."""
    result = judge(lake)
    rows = lake.read("verdicts", order_by=["trace_id"]).to_pylist()
    assert [(row["trace_id"], row["stage"], row["reasons"]) for row in rows] == [
        ("a", "admitted", []),
        ("b", "staleness", ["drift_over_trust"]),
        ("c", "already_trained", ["already_trained"]),
        ("d", "reward", ["reward_missing", "not_rescored"]),
    ]
    first = rows[0]
    assert (first["reward"], first["drift"], first["policy_lag"], first["age_hours"]) == (1.0, 0.001, 1, 48.0)
    assert (first["decided_at"], first["gate_sha256"]) == (AS_OF, SETTINGS.sha256())
    assert (result.num_traces, result.num_admitted, result.num_pending) == (4, 1, 0)


def test_a_run_is_judged_once(lake):
    """The second call reads back what the first wrote, and adds nothing."""
    first = judge(lake)
    snapshot = lake.snapshot()
    assert judge(lake) == first
    assert lake.snapshot() == snapshot
    assert lake.read("findings", columns=["run_id"]).num_rows == len(first.findings)


def test_another_run_judges_again_and_keeps_the_first(lake):
    """A later run with a wider trust admits b; the verdicts of the first stand."""
    judge(lake)
    wide = ValidateSettings(gate=GateSettings(min_admitted=1, max_drift=1.0), reward=REWARD)
    assert judge(lake, run_id="second", settings=wide).num_admitted == 2
    assert lake.read("verdicts", columns=["verdict"], where={"run_id": "run", "verdict": "admitted"}).num_rows == 1


def test_a_score_that_had_not_reached_us_by_the_clock_is_not_known(lake):
    """Twelve hours earlier nothing had been scored yet: rewards are still on their way."""
    judge(lake, as_of=AS_OF - timedelta(hours=41))
    stages = lake.read("verdicts", columns=["stage"])["stage"].to_pylist()
    assert set(stages) == {"reward"}


def test_an_empty_lake_is_skipped(tmp_path):
    """No trace, no verdict, no fault: nothing to train on, and a second call says the same."""
    with Lake.create(tmp_path / "lake") as lake:
        first = judge(lake)
        assert (first.decision, first.num_traces) == ("skipped", 0)
        assert judge(lake) == first


def test_findings_are_written_with_their_run_and_night(lake):
    """A row of findings has the figures of the finding."""
    judge(lake)
    where = {"name": "reward_arrived_share", "subject": "all"}
    (row,) = lake.read("findings", where=where).to_pylist()
    assert (row["run_id"], row["night"], row["measured_at"]) == ("run", "2026-11-28", AS_OF)
    assert (row["value"], row["num_observations"], row["status"], row["threshold"]) == (0.75, 4, "stop", 0.9)


def test_three_of_four_rewards_stop_the_night(lake):
    """0.75 is under the 0.90 that must have arrived; with that bound lifted the canary of v3 is missing: HOLD."""
    assert judge(lake).decision == "no_go"
    lifted = GateSettings(min_admitted=1, bounds={"reward_arrived_share": {}})
    result = judge(lake, run_id="second", settings=ValidateSettings(gate=lifted, reward=REWARD))
    assert result.decision == "hold"
    assert "Canary" in result.sentence


def test_outcomes_are_joined_ordered_and_cut_at_the_clock(lake):
    """Revisions supersede, equal times conflict, calls and responses lead to traces, later events are unknown."""
    events = [
        event("a", 0.0, hours=30.0),
        event("a", 1.0, hours=20.0),
        event("b", 1.0, hours=20.0),
        event("b", 0.0, hours=20.0),
        event("c", 1.0, hours=20.0),
        event("c", None, hours=10.0),
        event(None, 1.0, call_id="call of d"),
        event(None, 0.0, response_id="response of d", source="other"),
        event(None, 1.0, response_id="nobody's"),
        event("d", 9.0, hours=-1.0),
    ]
    with lake.transaction() as transaction:
        transaction.append("outcomes", [row | {"name": "new"} for row in events])
    tables = {"events": lake.read("joined_outcomes", where={"name": "new"}), "shared": lake.read("shared_keys")}
    rows = lake.query("validate/outcomes_as_of", tables, as_of=AS_OF).to_pylist()
    shown = {(row["trace_id"], row["source"]): (row["value"], row["num_events"], row["is_conflict"]) for row in rows}
    assert shown.pop(("b", "checker"))[1:] == (2, True)
    assert shown == {
        ("a", "checker"): (1.0, 2, False),
        ("c", "checker"): (None, 2, False),
        ("d", "checker"): (1.0, 1, False),
        ("d", "other"): (0.0, 1, False),
        (None, "checker"): (1.0, 1, False),
    }


@pytest.mark.parametrize(
    "change",
    [
        {"max_drift": -0.1},
        {"max_lag": -1},
        {"min_admitted": -1},
        {"constant_run": 1},
        {"bounds": {"nonsense": {"stop": 1}}},
        {"bounds": {"admitted_traces": {"stop": 1}}},
        {"bounds": {"drift": {"fatal": 1}}},
        {"trust": 0.003},
    ],
)
def test_gate_settings_that_cannot_be_meant_are_refused(change):
    """A bad bound, an unknown measure, an unknown name."""
    with pytest.raises(ValidationError):
        GateSettings(**change)


def test_the_hash_of_the_gate_changes_with_any_setting():
    """Another trust, reward or judge is another gate."""
    others = [
        ValidateSettings(gate=GateSettings(min_admitted=1, max_drift=0.004), reward=REWARD),
        ValidateSettings(gate=GateSettings(min_admitted=1), reward=REWARD, judge=JudgeSettings(name="ok")),
    ]
    assert len({settings.sha256() for settings in [SETTINGS, *others]}) == 3
    assert ValidateSettings(gate=GateSettings(min_admitted=1), reward=REWARD).sha256() == SETTINGS.sha256()
