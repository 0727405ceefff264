"""What the settings say about a line that the line cannot."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from pydantic import ValidationError

from ingest.call import Call, WeightSpan
from ingest.meaning import Deployment, Facts, Interpreter, Meaning, joined_sha256
from ingest.sampling import SamplingDefaults
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
    ("stated", "field", "kind"),
    [
        (Deployment(), "processed", "processed"),
        (Deployment(logprob_kind="temperature"), None, "temperature"),
        (Deployment(logprob_kind="temperature"), "temperature", "temperature"),
        (Deployment(logprob_kind="temperature"), "processed", "unknown"),
        (Deployment(logprobs_mode="raw_logits"), "raw", "unknown"),
        (Deployment(), "logits", "unknown"),
    ],
)
def test_the_field_says_its_kind_where_the_settings_do_not(stated, field, kind):
    """Where both speak and differ, one is wrong."""
    assert interpret(stated, logprob_kind=field).logprob_kind == kind


def test_each_engine_has_its_own_switch_for_neutral_defaults():
    """SGLang's is --sampling-defaults."""
    meaning = interpret(Deployment(sampling_defaults="openai"))
    assert (meaning.temperature, meaning.top_p, meaning.top_k, meaning.min_p) == (1.0, 1.0, -1, 0.0)


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
    weights = (WeightSpan("w9", 0, 2), WeightSpan("w9", 2, 4))
    assert interpret(stated, model=model, weight_spans=weights).policy_version == version


@pytest.mark.parametrize(
    "names", [("default",), ("default", "default"), ("w8", "w9"), ("default", "w9"), ()], ids="-".join
)
def test_weights_without_a_name_or_with_several_are_no_version(names):
    """Weights called "default" are those that nobody named; a reply of two weights is of neither."""
    spans = tuple(WeightSpan(name, at, at + 1) for at, name in enumerate(names))
    assert interpret(Deployment(), weight_spans=spans).policy_version is None


def test_several_weights_are_no_version_even_if_the_settings_name_one():
    """They changed in the middle of the reply."""
    spans = (WeightSpan("w8", 0, 2), WeightSpan("w9", 2, 4))
    assert interpret(Deployment(policy_version="v3"), weight_spans=spans).policy_version is None


def test_a_line_without_a_deployment_finds_the_one_that_knows_its_model():
    """Only if there is exactly one."""
    one = {"a": Deployment(version_pattern="@(v.)$"), "b": Deployment()}
    two = {**one, "c": Deployment(version_pattern="toy@(.*)")}
    assert Interpreter(one)(call(deployment=None)).deployment == "a"
    assert Interpreter(two)(call(deployment=None)).deployment is None


@pytest.mark.parametrize(
    ("models", "found"),
    [(("toy@v7",), "a"), (("other", "toy@*"), "a"), (("toy",), None), (("TOY*",), None), ((), None)],
)
def test_a_model_may_be_listed_by_name_or_pattern(models, found):
    """Letter by letter."""
    assert Interpreter({"a": Deployment(models=models)})(call(deployment=None)).deployment == found


def test_a_list_goes_before_a_pattern_of_versions_and_a_named_deployment_before_both():
    """A line that names a deployment is never taken for another's."""
    known = {"a": Deployment(models=("toy*",)), "b": Deployment(version_pattern="@(v.)$")}
    assert Interpreter(known)(call(deployment=None)).deployment == "a"
    assert Interpreter(known)(call(deployment="c")).deployment == "c"
    assert (
        Interpreter({"a": Deployment(models=("toy*",)), "b": Deployment(models=("*",))})(
            call(deployment=None)
        ).deployment
        is None
    )


def test_a_deployment_may_have_further_names():
    """A gateway's id of it; one that two deployments claim is of neither."""
    known = {"a": Deployment(names=("dep-3", "dep-4")), "b": Deployment(names=("dep-4", "a"))}
    found = [Interpreter(known)(call(deployment=name)).deployment for name in ("dep-3", "dep-4", "a")]
    assert found == ["a", "dep-4", "a"]


@pytest.mark.parametrize("value", ["1", True, float("inf"), float("nan"), [1.0], {"a": 1}, 10**400])
def test_a_parameter_that_is_no_number_is_unknown(value):
    """And nothing breaks on it."""
    assert interpret(Deployment(), sampling={"temperature": value}).temperature is None
    assert interpret(Deployment(), sampling={"top_k": value}).top_k is None


@pytest.mark.parametrize("value", [1.5, 2**31, -(2**40)])
def test_a_top_k_that_no_server_takes_is_unknown(value):
    """Not rounded and not cut."""
    assert interpret(Deployment(), sampling={"top_k": value}).top_k is None


def _sha256(deployments: dict[str, Deployment], name: str | None = "toy", model: str = "toy@v7") -> str:
    return Interpreter(deployments).settings_sha256(name, None, model)


def test_other_settings_have_another_hash_only_where_they_give_another_meaning():
    """Of the deployment that is meant; another deployment, or a pattern that finds the same version, changes none."""
    before = {"toy": Deployment(version_pattern="@(v[0-9]+)$")}
    same = {"toy": Deployment(version_pattern="@(v7)$", names=("t",)), "new": Deployment(engine="x")}
    assert _sha256(before) == _sha256(same)
    for other in (
        Deployment(version_pattern="@(v[0-9]+)$", logprobs_mode="raw_logprobs"),
        Deployment(policy_version="v8"),
        Deployment(),
        Deployment(version_pattern="@(v[0-9]+)$", defaults=SamplingDefaults(top_p=1.0)),
        Deployment(version_pattern="@(v[0-9]+)$", choice_selection="first"),
    ):
        assert _sha256({"toy": other}) != _sha256(before)


def test_a_pattern_that_fits_not_is_not_the_same_as_none():
    """Without one the weights' name counts."""
    assert _sha256({"toy": Deployment(version_pattern="#(.)")}) != _sha256({"toy": Deployment()})


def test_rows_of_older_lakes_are_of_the_deployment_that_they_landed_as():
    """Unless the present settings know another one for their model."""
    two = {name: Deployment(version_pattern="@(v.)$", engine=name) for name in ("a", "b")}
    facts = Facts(model="toy@v7", deployment=None, landed_as="b")
    assert Interpreter(two).meaning_of(facts).deployment == "b"
    assert Interpreter({"a": two["a"], "b": Deployment()}).meaning_of(facts).deployment == "a"


def test_what_was_found_at_landing_is_no_part_of_a_line_that_this_version_landed():
    """A name that nobody looks up any more is unknown, as in a fresh lake."""
    assert Interpreter({"b": Deployment()}).meaning_of(Facts(model="toy@v7", deployment=None)).deployment is None


def test_several_settings_have_one_hash():
    """That of the one, or that of all of them in order: the SHA-256 of "a,b"."""
    assert joined_sha256(["b", "b"]) == "b"
    assert joined_sha256(["b", "a", "b"]) == hashlib.sha256(b"a,b").hexdigest()


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
        {"logprobs_mode": "processed_logprobs", "logprob_kind": "raw"},
        {"logprobs_mode": "raw_logits", "logprob_kind": "raw"},
        {"generation_config": "vllm", "sampling_defaults": "openai"},
        {"choice_selection": "best"},
        {"vocabulary_size": 0},
        {"defaults": {"top_p": 0.0}},
        {"temprature": 1.0},
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(bad):
    """Where it is set."""
    with pytest.raises(ValidationError):
        Deployment.model_validate(bad)
