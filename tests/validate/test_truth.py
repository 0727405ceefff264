"""The recorded example through the gate: its classes, rewards and judge are those of the README beside it.

The figures of the judge and of the rewards were counted from the files by themselves, with a few lines of plain Python.
"""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ingest.assemble import assemble
from ingest.land import land_calls, land_outcomes
from ingest.meaning import Deployment
from ingest.settings import LogSettings
from tests.validate.hand_made import policy
from validate.gate import GateSettings, ValidateSettings, validate
from validate.judge import JudgeSettings
from validate.rewards import RewardSettings
from warehouse.lake import Lake

EXAMPLE = Path(__file__).parents[2] / "examples" / "refund_desk"
SERVER = Deployment(
    engine="vllm",
    logprobs_mode="processed_logprobs",
    generation_config="vllm",
    version_pattern="@(v[0-9]+)$",
    vocabulary_size=49152,
)
AS_OF = datetime(2026, 11, 29, tzinfo=UTC)
VERSIONS = [policy(f"v{step}", step, state="current" if step == 109 else "retired") for step in (100, 104, 108, 109)]

pytestmark = pytest.mark.slow


def settings(**gate):
    """The settings of the example, with the gate changed."""
    return ValidateSettings(
        gate=GateSettings(**gate),
        reward=RewardSettings(name="refund_correct", source_kind="program", maturity_hours=36),
        judge=JudgeSettings(name="refund_ok"),
    )


@pytest.fixture(name="lake", scope="module")
def fixture_lake(tmp_path_factory):
    """The recorded logs and outcomes, landed and put together; nothing is rescored."""
    files = [str(EXAMPLE / name) for name in ("outcomes.csv", "judge.jsonl", "labels.csv")]
    deployments = {"refund-desk-cpu": SERVER}
    with Lake.create(tmp_path_factory.mktemp("truth") / "lake") as lake:
        land_calls(lake, [str(EXAMPLE / "logs")], deployments=deployments, settings=LogSettings(), now=AS_OF)
        land_outcomes(lake, files, settings=LogSettings(), now=AS_OF)
        assemble(lake, deployments=deployments, settings=LogSettings(), now=AS_OF)
        with lake.transaction() as transaction:
            transaction.append(
                "policies", [{k: v for k, v in row.items() if k != "schema_version"} for row in VERSIONS]
            )
        yield lake


@pytest.fixture(name="result", scope="module")
def fixture_result(lake):
    """The night of 2026-11-28 judged by the example's settings."""
    return validate(lake, settings=settings(min_admitted=64), run_id="truth", night="2026-11-28", as_of=AS_OF)


def of_all(result):
    """The findings about the whole night by name."""
    return {finding.name: finding for finding in result.findings if finding.subject == "all"}


def test_the_classes_of_traces_are_those_of_the_truth_table(result):
    """38 without log-probabilities, 45 without prompt ids, 24 of cut support, 2 and 2 damaged; 689 are usable."""
    reasons = Counter()
    for stage in result.stages[:3]:
        reasons.update(stage.reasons)
    assert reasons == {
        "no_behavior_logprobs": 38,
        "no_prompt_ids": 45,
        "truncated_support": 24,
        "len_mismatch": 2,
        "sentinel_logprob": 2,
    }
    assert result.num_traces == 800
    assert result.stages[3].num_entered == 689
    assert of_all(result)["usable_logprob_share"].value == 689 / 800


def test_every_line_of_the_waterfall_adds_up(result):
    """What left and what is admitted are the 800 traces."""
    kept = sum(stage.num_quarantined + stage.num_pending for stage in result.stages)
    assert kept + result.num_admitted == 800


def test_seventeen_usable_traces_fork(result):
    """Their next prompt was no exact continuation."""
    assert of_all(result)["forked_share"].value == 17 / 689


def test_rewards_are_counted_as_the_files_have_them(result):
    """48 traces never got one, 3 outcomes have no trace, 30 were revised by the clock (the 31st came later)."""
    found = of_all(result)
    assert found["reward_arrived_share"].value == 752 / 800
    assert found["orphan_outcomes"].value == 3
    assert found["reward_revisions"].value == 30
    assert found["reward_mean"].value == pytest.approx(260 / 752, abs=1e-12)


def test_the_judge_is_measured_against_the_labels(result):
    """Of 33 good ones it passes 27, of 57 bad ones it fails 43; it passes 387 of 800."""
    found = of_all(result)
    assert found["judge_tpr"].value == pytest.approx(27 / 33, abs=1e-12)
    assert found["judge_tnr"].value == pytest.approx(43 / 57, abs=1e-12)
    assert found["judge_pass_rate"].value == pytest.approx(387 / 800, abs=1e-12)
    tpr, tnr = 27 / 33, 43 / 57
    corrected = (387 / 800 + tnr - 1) / (tpr + tnr - 1)
    assert found["judge_corrected_pass_rate"].value == pytest.approx(corrected, abs=1e-12)


def test_lags_are_those_of_the_readme(result):
    """v100, v104, v108 and v109 are 9, 5, 1 and 0 updates behind."""
    lags = {f.subject: f.value for f in result.findings if f.name == "policy_lag" and f.subject != "all"}
    assert lags == {"version:v100": 9, "version:v104": 5, "version:v108": 1, "version:v109": 0}


def test_traces_whose_second_call_was_lost_are_seen_once_the_settings_say_how_many_there_are(lake):
    """Four traces of one call pass as usable unless a complete trace of the workload has two."""
    chosen = settings(min_admitted=64, required_calls={"refunds": 2})
    strict = validate(lake, settings=chosen, run_id="strict", night="2026-11-28", as_of=AS_OF)
    assert strict.stages[0].reasons["missing_call"] == 4
    assert strict.stages[3].num_entered == 685


def test_nothing_of_it_is_a_copy(result):
    """Deliveries repeat lines, not traces."""
    assert of_all(result)["duplicate_share"].value == 0
