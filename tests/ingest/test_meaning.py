"""What the settings say about a line that the line cannot."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ingest.call import Call
from ingest.meaning import Deployment, Interpreter, Meaning, SamplingDefaults
from tests.ingest.hand_made import START


def call(**changes: Any) -> Call:
    """A call that states nothing."""
    return Call(
        **{"trace_id": "t", "model": "toy@v7", "log_format": "x", "started_at": START, "deployment": "toy", **changes}
    )


def interpret(stated: Deployment, **changes: Any) -> Meaning:
    """The meaning of a call under one deployment's settings."""
    return Interpreter({"toy": stated})(call(**changes))


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("raw_logprobs", "raw"),
        ("processed_logprobs", "processed"),
        ("raw_logits", "unknown"),
        ("processed_logits", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_kind_comes_from_the_servers_mode(mode, kind):
    """Logits are no log-probabilities, and silence is no mode."""
    assert interpret(Deployment(logprobs_mode=mode)).logprob_kind == kind


def test_an_unset_parameter_is_unknown():
    """Not its neutral value: the model's own file decides under --generation-config auto."""
    meaning = interpret(Deployment(), sampling={"temperature": 0.7})
    assert (meaning.temperature, meaning.top_p, meaning.top_k, meaning.min_p) == (0.7, None, None, None)


def test_under_vllms_own_config_an_unset_parameter_is_neutral():
    """And one that is stated or logged wins over it."""
    stated = Deployment(generation_config="vllm", defaults=SamplingDefaults(top_p=0.9))
    meaning = interpret(stated, sampling={"temperature": 0.5, "top_k": 0})
    assert (meaning.temperature, meaning.top_p, meaning.top_k) == (0.5, 0.9, -1)
    assert (meaning.min_p, meaning.repetition_penalty) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("stated", "model", "version"),
    [
        (Deployment(version_pattern="@(v[0-9]+)$"), "toy@v7", "v7"),
        (Deployment(version_pattern="@(v[0-9]+)$"), "toy", None),
        (Deployment(policy_version="v3"), "toy@v7", "v3"),
        (Deployment(), "toy@v7", "w9"),
    ],
)
def test_the_version_comes_from_the_name_the_settings_or_the_weights(stated, model, version):
    """A name without a version is unknown, whatever the weights are called."""
    assert interpret(stated, model=model, weight_version="w9").policy_version == version


def test_a_line_without_a_deployment_finds_the_one_that_knows_its_model():
    """Only if there is exactly one."""
    one = {"a": Deployment(version_pattern="@(v.)$"), "b": Deployment()}
    two = {**one, "c": Deployment(version_pattern="toy@(.*)")}
    assert Interpreter(one)(call(deployment=None)).deployment == "a"
    assert Interpreter(two)(call(deployment=None)).deployment is None


def test_a_deployment_that_nobody_described_keeps_its_name():
    """Its meaning is unknown."""
    meaning = Interpreter({})(call())
    assert (meaning.deployment, meaning.logprob_kind, meaning.policy_version) == ("toy", "unknown", None)


@pytest.mark.parametrize(
    "bad",
    [
        {"version_pattern": "("},
        {"version_pattern": "v[0-9]+"},
        {"version_pattern": "(v.)", "policy_version": "v1"},
        {"logprobs_mode": "processed"},
        {"vocabulary_size": 0},
        {"defaults": {"top_p": 0.0}},
        {"temprature": 1.0},
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(bad):
    """Where it is set."""
    with pytest.raises(ValidationError):
        Deployment.model_validate(bad)
