"""What `tracemill check` offers to paste."""

import tomllib

from ingest.meaning import Deployment
from ingest.suggest import UNSTATED, Seen, suggested


def test_a_block_holds_what_only_the_settings_can_say():
    """The version's place is read off the names; what the operator knows is left open."""
    text = suggested([Seen("desk", "vllm", ("desk@v7", "desk@v8"), UNSTATED)])
    block = tomllib.loads(text or "")["deployments"]["desk"]
    assert block == {"logprobs_mode": "...", "generation_config": "...", "version_pattern": "@(v[0-9]+)$"}


def test_calls_that_name_no_deployment_are_found_by_their_model():
    """The block says which models it is for, versions left open."""
    text = suggested([Seen(None, "sglang", ("org/model@v7", "org/model@v8"), ["logprob_kind_unknown"])])
    assert tomllib.loads(text or "") == {
        "deployments": {"org-model": {"models": ["org/model@*"], "logprob_kind": "..."}}
    }


def test_nothing_is_offered_where_nothing_is_missing():
    """Faults that no setting lifts ask for no block."""
    assert suggested([Seen("desk", "vllm", ("desk",), ["no_token_ids"])]) is None


def test_the_offered_names_are_settings():
    """Every name of every block is one that a deployment has, whatever the names in the log."""
    for engine in ("vllm", "sglang", None):
        text = suggested([Seen('a"b\n', engine, ("m\u2028[x]",), UNSTATED), Seen(None, engine, (), UNSTATED)])
        for block in tomllib.loads(text or "")["deployments"].values():
            assert set(block) <= set(Deployment.model_fields)


def test_a_server_that_names_no_model_is_found_by_its_empty_name():
    """TGI's responses name none."""
    text = suggested([Seen(None, "tgi", ("",), ["sampling_params_unknown"])])
    assert tomllib.loads(text or "") == {"deployments": {"my-server": {"models": [""]}}}
