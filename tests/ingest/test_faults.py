"""Which reasons apply to one call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.call import Call, WeightSpan, pack_ids, pack_logprobs
from ingest.faults import (
    FIELD_KINDS,
    MASKING,
    SETTINGS_CODES,
    drawn_of,
    judge,
    judge_again,
    masking_fault,
    trace_faults,
)
from ingest.meaning import Deployment, Interpreter
from ingest.sampling import NEUTRAL, SamplingDefaults
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
        ({"logprobs": [-0.5, -100.0, -100.0, -0.5]}, ("sentinel_logprob",)),
        ({"logprobs": [-0.5, -100.0, -101.0, -0.5]}, ()),
        ({"logprobs": [-49.0, -0.5, -49.0, -0.5]}, ()),
        ({"logprobs": [-0.5, -100.0, -100.0, -0.5], "masked_positions": (1,)}, ()),
        ({"messages_json": '[{"role":"user","content":[{"type":"image_url"}]}]'}, ("multimodal_prompt",)),
        ({"logprobs": [-0.5, NAN, -0.5, -9999.0], "masked_positions": (1, 3, 9)}, ()),
        ({"logprobs": [-0.5, NAN, -0.5, -9999.0], "masked_positions": (1,)}, ("sentinel_logprob",)),
        ({"num_choices": 2}, ("best_of_n",)),
        ({"sampling": {"best_of": 4}}, ("best_of_n",)),
        ({"sampling": {"best_of": 1}}, ()),
        ({"sampling": {"typical_p": 0.9}}, ("truncated_support",)),
        ({"sampling": {"typical_p": 1.0}}, ()),
        ({"sampling": {"min_new_tokens": 4}}, ("truncated_support",)),
        ({"sampling": {"ebnf": "root ::= x"}}, ("grammar_constrained",)),
        ({"logprob_kind": "processed"}, ("field_says_processed",)),
        ({"notes": ("truncated_support",)}, ("log_says_truncated", "truncated_support")),
        ({"notes": ("greedy_sampling",)}, ("greedy_sampling", "log_says_greedy")),
        ({"logprob_kind": "raw"}, ("field_says_raw", "logprob_kind_unknown")),
        ({"weight_spans": (WeightSpan("1", 0, 2), WeightSpan("2", 2, 4))}, ("version_ambiguous",)),
        ({"weight_spans": (WeightSpan("1", 2, 4), WeightSpan("1", 0, 2))}, ()),
        ({"weight_spans": (WeightSpan("1", 0, 3),)}, ("version_spans_incomplete",)),
        ({"weight_spans": (WeightSpan("1", 1, 4),)}, ("version_spans_incomplete",)),
        ({"weight_spans": (WeightSpan("1", 0, 5),)}, ("version_spans_incomplete",)),
        ({"weight_spans": (WeightSpan("1", 0, 3), WeightSpan("1", 2, 4))}, ("version_spans_incomplete",)),
        ({"weight_spans": (WeightSpan("1", 0, 4), WeightSpan("1", 4, 3))}, ("version_spans_incomplete",)),
        ({"weight_spans": (WeightSpan("1", 1, 3),), "masked_positions": (0, 3)}, ()),
        ({"weight_spans": (WeightSpan("1", 1, 3),), "masked_positions": (3,)}, ("version_spans_incomplete",)),
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


@pytest.mark.parametrize(
    ("selection", "index", "expected"),
    [("unknown", 0, ("best_of_n",)), ("first", 0, ()), ("first", 1, ("best_of_n",)), ("random", 1, ())],
)
def test_a_choice_among_several_is_exact_if_the_settings_say_how_it_was_chosen(selection, index, expected):
    """A ranker is a policy that nobody logged."""
    deployment = DEPLOYMENTS["toy"].model_copy(update={"choice_selection": selection})
    assert codes(deployment, num_choices=2, choice_index=index) == expected


@pytest.mark.parametrize(("kind", "temperature", "expected"), [("temperature", 0.7, ()), ("temperature", 1.0, ())])
def test_numbers_taken_after_the_temperature_count_at_any(kind, temperature, expected):
    """The trainer divides its logits by the temperature that was logged."""
    served = Deployment(logprob_kind=kind, sampling_defaults="openai", policy_version="v1")
    assert codes(served, sampling={"temperature": temperature}) == expected


_ANY_DEPLOYMENT = st.builds(
    Deployment,
    logprobs_mode=st.sampled_from([None, "raw_logprobs", "processed_logprobs"]),
    generation_config=st.sampled_from(["auto", "vllm"]),
    policy_version=st.sampled_from([None, "v1"]),
    vocabulary_size=st.sampled_from([None, 5, 500]),
    choice_selection=st.sampled_from(["unknown", "first", "random"]),
    defaults=st.builds(SamplingDefaults, top_p=st.sampled_from([None, 0.9])),
)


_ANY_NOTES = st.lists(st.sampled_from(["truncated_support", "penalised_sampling", "stream_cut"]), unique=True)


@given(_ANY_DEPLOYMENT, _ANY_DEPLOYMENT, st.integers(1, 2), st.sampled_from([0.0, 0.7]), _ANY_NOTES)
def test_any_call_is_judged_again_as_if_it_were_read_today(before, now, num_choices, temperature, notes):
    """Whatever the settings were when it landed."""
    call = Call(
        model="toy",
        log_format="x",
        deployment="toy",
        num_choices=num_choices,
        prompt_token_ids=pack_ids(P1),
        token_ids=pack_ids(G1),
        token_logprobs=pack_logprobs(L1),
        sampling={"temperature": temperature},
        finish_reason="length",
        notes=tuple(notes),
    )
    landed = judge(call, Interpreter({"toy": before})(call))
    meaning = Interpreter({"toy": now})(call)
    ids = (call.prompt_token_ids, call.token_ids)
    assert judge_again(landed, drawn_of(call), ids, meaning) == judge(call, meaning)


def test_codes_that_the_settings_decide_are_trace_faults():
    """And none of them is a kind that the field itself says."""
    assert all(REASONS[code].scope == "trace" for code in SETTINGS_CODES)
    assert all(REASONS[code].scope == "note" for code in FIELD_KINDS)


def test_masking_faults_are_trace_faults_and_the_first_leads():
    """A note never takes a token out of the mask."""
    assert all(REASONS[code].scope == "trace" for code in MASKING)
    assert masking_fault(("no_prompt_ids", "sentinel_logprob", "truncated_support")) == "no_prompt_ids"
    assert masking_fault(("truncated_support",)) is None
    assert trace_faults(("finish_by_length", "truncated_support")) == {"truncated_support"}
