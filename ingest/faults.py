"""What is wrong with one call, as reason codes: the only home of rules that a call alone can break."""

from __future__ import annotations

from math import isfinite

import numpy as np

from ingest.call import Call
from ingest.meaning import Meaning
from schemas.numbers import SENTINEL
from schemas.reasons import REASONS

ROUNDING = 1e-6
"""A log-probability above zero by no more than this is rounding. Convention, untested."""

GREEDY_TEMPERATURE = 1e-5
"""vLLM samples greedily below it (`_SAMPLING_EPS`)."""

MASKING = (
    "no_behavior_logprobs",
    "no_token_ids",
    "no_prompt_ids",
    "len_mismatch",
    "ids_disagree",
    "ids_out_of_vocab",
    "nonfinite_logprob",
    "positive_logprob",
    "sentinel_logprob",
    "stream_cut",
)
"""Faults that take a call's tokens out of the action mask, the first that applies leading: its tokens or numbers
cannot be used. The other faults of a call leave its mask alone: they say what the numbers mean."""

_FEW = 4 * 128

_GRAMMARS = ("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs")
_PENALTIES = ("presence_penalty", "frequency_penalty", "logit_bias")


def judge(call: Call, meaning: Meaning) -> tuple[str, ...]:
    """All codes that apply to a call: the adapter's notes, and every rule below. Sorted, each once."""
    codes = {
        *call.notes,
        *_structure(call, meaning),
        *_numbers(call),
        *_sampling(call, meaning),
        *_origin(call, meaning),
    }
    if call.finish_reason == "length":
        codes.add("finish_by_length")
    return tuple(sorted(codes))


def trace_faults(codes: tuple[str, ...]) -> set[str]:
    """Those of the codes that keep a trace from being trained on."""
    return {code for code in codes if REASONS[code].scope == "trace"}


def masking_fault(codes: tuple[str, ...]) -> str | None:
    """The first of the codes that takes the call's tokens out of the action mask."""
    return next((code for code in MASKING if code in codes), None)


def _structure(call: Call, meaning: Meaning) -> set[str]:
    codes = set()
    if call.prompt_token_ids is None:
        codes.add("no_prompt_ids")
    if call.token_ids is None:
        codes.add("no_token_ids")
    elif _counts_differ(call):
        codes.add("len_mismatch")
    if meaning.vocabulary_size is not None:
        for packed in (call.prompt_token_ids, call.token_ids):
            if packed and _greatest_id(packed) >= meaning.vocabulary_size:
                codes.add("ids_out_of_vocab")
    if call.num_choices > 1:
        codes.add("best_of_n")
    return codes


def _counts_differ(call: Call) -> bool:
    """Whether ids, log-probabilities and the server's own count of sampled tokens disagree."""
    counts = {len(packed) // 4 for packed in (call.token_ids, call.token_logprobs) if packed is not None}
    if call.num_completion_tokens is not None:
        counts.add(call.num_completion_tokens)
    return len(counts) > 1


def _numbers(call: Call) -> set[str]:
    if call.token_logprobs is None:
        return {"no_behavior_logprobs"}
    least, greatest, is_finite = _extremes(call.token_logprobs)
    codes = set()
    if not is_finite and "no_behavior_logprobs" not in call.notes:  # there, a missing number stands as NaN
        codes.add("nonfinite_logprob")
    if greatest > ROUNDING:
        codes.add("positive_logprob")
    if least <= SENTINEL:
        codes.add("sentinel_logprob")
    return codes


def _extremes(packed: bytes) -> tuple[float, float, bool]:
    """Least and greatest of the finite float32 numbers (0 when there is none), and whether all are finite."""
    if len(packed) <= _FEW:  # numpy's overhead is larger than its gain
        few = memoryview(packed).cast("f")
        if isfinite(sum(few)):
            return min(few, default=0.0), max(few, default=0.0), True
    values = np.frombuffer(packed, dtype="<f4")
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 0.0, not values.size
    return float(finite.min()), float(finite.max()), finite.size == values.size


def _sampling(call: Call, meaning: Meaning) -> set[str]:
    codes = set()
    parameters = (meaning.temperature, meaning.top_p, meaning.top_k, meaning.min_p, meaning.repetition_penalty)
    if None in parameters:
        codes.add("sampling_params_unknown")
    if _is_greedy(meaning):
        codes.add("greedy_sampling")
    if _is_truncated(call, meaning):
        codes.add("truncated_support")
    if meaning.repetition_penalty not in (None, 1.0) or any(call.sampling.get(name) for name in _PENALTIES):
        codes.add("penalised_sampling")
    if _has_grammar(call):
        codes.add("grammar_constrained")
    return codes


def _is_greedy(meaning: Meaning) -> bool:
    return meaning.temperature is not None and meaning.temperature < GREEDY_TEMPERATURE


def _is_truncated(call: Call, meaning: Meaning) -> bool:
    return (
        (meaning.top_p is not None and meaning.top_p < 1.0)
        or (meaning.top_k is not None and meaning.top_k > 0)
        or bool(meaning.min_p)
        or any(call.sampling.get(name) for name in ("bad_words", "allowed_token_ids", "min_tokens"))
    )


def _has_grammar(call: Call) -> bool:
    """Whether a schema or a forced tool call restricted the tokens; even raw numbers are under it. docs/formats.md."""
    form = call.sampling.get("response_format")
    choice = call.sampling.get("tool_choice")
    return (
        any(call.sampling.get(name) for name in _GRAMMARS)
        or (isinstance(form, dict) and form.get("type") not in (None, "text"))
        or choice == "required"
        or isinstance(choice, dict)
    )


def _origin(call: Call, meaning: Meaning) -> set[str]:
    codes = set()
    if meaning.policy_version is None and "version_ambiguous" not in call.notes:
        codes.add("version_unknown")
    if call.token_logprobs is None:
        return codes
    if meaning.logprob_kind == "unknown":
        codes.add("logprob_kind_unknown")
    elif meaning.logprob_kind == "raw" and meaning.temperature not in (None, 1.0) and not _is_greedy(meaning):
        codes.add("logprob_kind_mismatch")
    return codes


def _greatest_id(packed: bytes) -> int:
    return max(memoryview(packed).cast("i")) if len(packed) <= _FEW else int(np.frombuffer(packed, dtype="<i4").max())
