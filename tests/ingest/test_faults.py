"""Which reasons apply to one call."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.call import Call, pack_ids, pack_logprobs
from ingest.faults import MASKING, judge, masking_fault, trace_faults
from ingest.meaning import NEUTRAL, Deployment, Interpreter, SamplingDefaults
from schemas.reasons import REASONS
from tests.ingest.hand_made import DEPLOYMENTS, G1, L1, P1, START

NAN, INF = float("nan"), float("inf")


def codes(deployment: Deployment | None = None, **changes: Any) -> tuple[str, ...]:
    """The codes of the toy's first call, changed."""
    ids, prompt, logprobs = changes.pop("ids", G1), changes.pop("prompt", P1), changes.pop("logprobs", L1)
    call = Call(
        trace_id="t",
        model="toy@v7",
        log_format="vllm_chat",
        started_at=START,
        deployment="toy",
        prompt_token_ids=pack_ids(prompt),
        token_ids=pack_ids(ids),
        token_logprobs=None if logprobs is None else pack_logprobs(logprobs),
        **{"finish_reason": "stop", "sampling": {}, **changes},
    )
    return judge(call, Interpreter({"toy": deployment or DEPLOYMENTS["toy"]})(call))


def test_a_whole_call_has_no_fault():
    """Nothing to note either."""
    assert codes() == ()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"prompt": None}, ("no_prompt_ids",)),
        ({"ids": None}, ("no_token_ids",)),
        ({"logprobs": None}, ("no_behavior_logprobs",)),
        ({"logprobs": L1[:3]}, ("len_mismatch",)),
        ({"logprobs": [*L1, -0.5]}, ("len_mismatch",)),
        ({"num_completion_tokens": 5}, ("len_mismatch",)),
        ({"ids": [*G1[:3], 500]}, ("ids_out_of_vocab",)),
        ({"prompt": [500]}, ("ids_out_of_vocab",)),
        ({"logprobs": [-0.5, NAN, -0.5, -0.5]}, ("nonfinite_logprob",)),
        ({"logprobs": [-0.5, -INF, -0.5, -0.5]}, ("nonfinite_logprob",)),
        ({"logprobs": [-0.5, NAN, -0.5, -0.5], "notes": ("no_behavior_logprobs",)}, ("no_behavior_logprobs",)),
        ({"logprobs": [-0.5, 0.25, -0.5, -0.5]}, ("positive_logprob",)),
        ({"logprobs": [-0.5, 5e-7, -0.5, -0.5]}, ()),
        ({"logprobs": [-0.5, -9999.0, -0.5, -0.5]}, ("sentinel_logprob",)),
        ({"logprobs": [-0.5, -3.4028234663852886e38, -0.5, -0.5]}, ("sentinel_logprob",)),
        ({"logprobs": [-0.5, -9998.0, -0.5, -0.5]}, ()),
        ({"num_choices": 2}, ("best_of_n",)),
        ({"finish_reason": "length"}, ("finish_by_length",)),
        ({"model": "toy"}, ("version_unknown",)),
        ({"sampling": {"temperature": 0.0}}, ("greedy_sampling",)),
        ({"sampling": {"temperature": 9e-6}}, ("greedy_sampling",)),
        ({"sampling": {"temperature": 0.7}}, ()),
        ({"sampling": {"top_k": 0, "logit_bias": {}, "min_p": 0.0, "seed": 7}}, ()),
        ({"sampling": {"top_p": 0.95}}, ("truncated_support",)),
        ({"sampling": {"top_k": 40}}, ("truncated_support",)),
        ({"sampling": {"min_p": 0.05}}, ("truncated_support",)),
        ({"sampling": {"allowed_token_ids": [1]}}, ("truncated_support",)),
        ({"sampling": {"repetition_penalty": 1.05}}, ("penalised_sampling",)),
        ({"sampling": {"presence_penalty": -0.5}}, ("penalised_sampling",)),
        ({"sampling": {"presence_penalty": 0.0}}, ()),
        ({"sampling": {"logit_bias": {"13": 5}}}, ("penalised_sampling",)),
        ({"sampling": {"response_format": {"type": "json_object"}}}, ("grammar_constrained",)),
        ({"sampling": {"response_format": {"type": "text"}, "tool_choice": "auto"}}, ()),
        ({"sampling": {"tool_choice": "required"}}, ("grammar_constrained",)),
        ({"sampling": {"guided_regex": "[0-9]+"}}, ("grammar_constrained",)),
    ],
)
def test_a_fault_is_named(change, expected):
    """One change, its reason and no other."""
    if "model" in change:
        call_codes = codes(Deployment(logprobs_mode="raw_logprobs", generation_config="vllm"))
        assert call_codes == expected
    else:
        assert codes(**change) == expected


def test_long_lists_are_judged_like_short_ones():
    """Above 128 tokens the same rules run on arrays."""
    ids = [7] * 1000
    assert codes(ids=ids, logprobs=[-0.5] * 1000) == ()
    assert codes(ids=ids, logprobs=[-0.5] * 999 + [-9999.0]) == ("sentinel_logprob",)
    assert codes(ids=ids, logprobs=[-0.5] * 999 + [NAN]) == ("nonfinite_logprob",)
    assert codes(ids=[*ids[:-1], 500], logprobs=[-0.5] * 1000) == ("ids_out_of_vocab",)


def test_raw_numbers_count_at_temperature_one_only():
    """All kinds agree there; elsewhere raw numbers are of another distribution."""
    raw = Deployment(logprobs_mode="raw_logprobs", generation_config="vllm", policy_version="v1")
    assert codes(raw, sampling={"temperature": 1.0}) == ()
    assert codes(raw, sampling={"temperature": 0.7}) == ("logprob_kind_mismatch",)
    assert codes(raw, sampling={"temperature": 0.0}) == ("greedy_sampling",)


@pytest.mark.parametrize("name", SamplingDefaults.model_fields)
def test_each_of_the_five_parameters_may_be_the_unknown_one(name):
    """Four that are stated do not tell the fifth."""
    stated = {k: v for k, v in NEUTRAL.model_dump().items() if k != name}
    deployment = Deployment(
        logprobs_mode="processed_logprobs", policy_version="v1", defaults=SamplingDefaults(**stated)
    )
    assert codes(deployment) == ("sampling_params_unknown",)


def test_a_penalty_of_the_server_counts_like_one_of_the_request():
    """The settings state it as a default."""
    defaults = SamplingDefaults(repetition_penalty=1.1)
    served = Deployment(
        logprobs_mode="processed_logprobs", generation_config="vllm", policy_version="v1", defaults=defaults
    )
    assert codes(served) == ("penalised_sampling",)


def test_what_nobody_states_is_unknown():
    """An undescribed deployment: kind, version and parameters."""
    assert codes(Deployment()) == ("logprob_kind_unknown", "sampling_params_unknown", "version_unknown")


def test_masking_faults_are_trace_faults_and_the_first_leads():
    """A note never takes a token out of the mask."""
    assert all(REASONS[code].scope == "trace" for code in MASKING)
    assert masking_fault(("no_prompt_ids", "sentinel_logprob", "truncated_support")) == "no_prompt_ids"
    assert masking_fault(("truncated_support",)) is None
    assert trace_faults(("finish_by_length", "truncated_support")) == {"truncated_support"}
