"""What is wrong with one call, as reason codes: the only home of rules that a call alone can break."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from ingest.call import Call, WeightSpan
from ingest.meaning import Meaning
from ingest.media import holds_media
from schemas.numbers import SENTINEL
from schemas.reasons import REASONS

ROUNDING = 1e-6
"""A log-probability above zero by no more than this is rounding. Convention, untested."""

EXTREME = -50.0
"""A log-probability below it that stands twice in one reply, digit by digit, is a placeholder: a token of that
probability is sampled once in 10^21, and servers that clip minus infinity write one number, such as -100.
Convention, untested."""

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

_GRAMMARS = (
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "json_schema",
    "regex",
    "ebnf",
    "structural_tag",
    "grammar",
)
_PENALTIES = ("presence_penalty", "frequency_penalty", "logit_bias")
_TRUNCATIONS = ("bad_words", "allowed_token_ids", "min_tokens", "min_new_tokens")
_SAYS_KIND = {"raw": "field_says_raw", "temperature": "field_says_temperature", "processed": "field_says_processed"}
"""The kind that the very field of the log-probabilities says, kept as a note: it is a fact of the log."""
FIELD_KINDS = {code: kind for kind, code in _SAYS_KIND.items()}
_LOG_SAYS = {
    "truncated_support": "log_says_truncated",
    "penalised_sampling": "log_says_penalised",
    "greedy_sampling": "log_says_greedy",
}
"""Codes that an adapter may give for parameters of its own server, though other parameters leave them to the settings:
kept as notes, for they are facts of the log."""

SETTINGS_CODES = frozenset(
    {
        "best_of_n",
        "greedy_sampling",
        "ids_out_of_vocab",
        "logprob_kind_mismatch",
        "logprob_kind_unknown",
        "penalised_sampling",
        "sampling_params_unknown",
        "truncated_support",
        "version_unknown",
    }
)
"""Codes that other settings may give or take away; all others are facts of the log."""


def judge(call: Call, meaning: Meaning) -> tuple[str, ...]:
    """All codes that apply to a call: the adapter's notes, and every rule below. Sorted, each once."""
    codes = {*call.notes, *_structure(call), *_numbers(call)}
    codes.update(_LOG_SAYS[note] for note in call.notes if note in _LOG_SAYS)
    if call.logprob_kind in _SAYS_KIND:
        codes.add(_SAYS_KIND[call.logprob_kind])
    if call.weight_spans:
        codes |= _versions(call)
    if _has_grammar(call.sampling):
        codes.add("grammar_constrained")
    if call.messages_json is not None and holds_media(call.messages_json):
        codes.add("multimodal_prompt")
    if call.finish_reason == "length":
        codes.add("finish_by_length")
    return judge_again(codes, drawn_of(call), (call.prompt_token_ids, call.token_ids), meaning)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What of a call the settings give a meaning to: how it was drawn, and whether it has numbers."""

    sampling: Mapping[str, Any]
    choice_index: int
    num_choices: int
    has_logprobs: bool


def drawn_of(call: Call) -> Drawn:
    """The same of a call that is just being read."""
    return Drawn(
        sampling=call.sampling,
        choice_index=call.choice_index,
        num_choices=call.num_choices,
        has_logprobs=call.token_logprobs is not None,
    )


def judge_again(codes: Iterable[str], drawn: Drawn, ids: Iterable[bytes | None], meaning: Meaning) -> tuple[str, ...]:
    """The codes of a call that was judged under any settings, under these: sorted, each once.

    Facts of the log stay; what other settings gave or took away is judged anew. `ids` are its packed token lists.
    """
    logged = set(codes) - SETTINGS_CODES
    judged = {*logged, *_sampling(drawn.sampling, meaning), *_origin(logged, drawn, meaning)}
    judged.update(code for code, note in _LOG_SAYS.items() if note in logged)
    if is_foreign(ids, meaning):
        judged.add("ids_out_of_vocab")
    return tuple(sorted(judged))


def is_foreign(ids: Iterable[bytes | None], meaning: Meaning) -> bool:
    """Whether one of the packed ids lies outside the vocabulary, where its size is stated."""
    limit = meaning.vocabulary_size
    return limit is not None and any(packed and _greatest_id(packed) >= limit for packed in ids)


def trace_faults(codes: tuple[str, ...]) -> set[str]:
    """Those of the codes that keep a trace from being trained on."""
    return {code for code in codes if REASONS[code].scope == "trace"}


def masking_fault(codes: tuple[str, ...]) -> str | None:
    """The first of the codes that takes the call's tokens out of the action mask."""
    return next((code for code in MASKING if code in codes), None)


def _structure(call: Call) -> set[str]:
    codes = set()
    if call.prompt_token_ids is None:
        codes.add("no_prompt_ids")
    if call.token_ids is None:
        codes.add("no_token_ids")
    elif _counts_differ(call):
        codes.add("len_mismatch")
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
    counted = _unmasked(call.token_logprobs, call.masked_positions)
    least, greatest, is_finite = _extremes(counted)
    codes = set()
    if not is_finite and "no_behavior_logprobs" not in call.notes:  # there, a missing number stands as NaN
        codes.add("nonfinite_logprob")
    if greatest > ROUNDING:
        codes.add("positive_logprob")
    if least <= SENTINEL or (least < EXTREME and np.count_nonzero(np.frombuffer(counted, "<f4") == least) > 1):
        codes.add("sentinel_logprob")
    return codes


def _versions(call: Call) -> set[str]:
    """What is wrong with versions that the log names: several, or none for a token that was sampled."""
    codes = set()
    if len({span.version for span in call.weight_spans}) > 1:
        codes.add("version_ambiguous")
    if call.token_ids is not None and not _tiles(call.weight_spans, len(call.token_ids) // 4, call.masked_positions):
        codes.add("version_spans_incomplete")
    return codes


def _tiles(spans: Sequence[WeightSpan], num_tokens: int, masked: Sequence[int]) -> bool:
    """Whether the spans follow each other over all tokens; a masked one may have no version, for nobody sampled it."""
    position = 0
    gaps: list[int] = []
    for _, start, end in sorted(spans, key=lambda span: (span.start, span.end)):
        if not position <= start <= end <= num_tokens:
            return False
        gaps += range(position, start)
        position = end
    gaps += range(position, num_tokens)
    return not gaps or set(masked).issuperset(gaps)


def _unmasked(packed: bytes, masked: Sequence[int]) -> bytes:
    """The numbers that count: a token that was forced may have any, or none."""
    if not masked:
        return packed
    values = np.frombuffer(packed, dtype="<f4")
    counts = np.ones(values.size, dtype=np.bool_)
    counts[[position for position in masked if 0 <= position < values.size]] = False
    return values[counts].tobytes()


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


def _origin(logged: Set[str], drawn: Drawn, meaning: Meaning) -> set[str]:
    """What the settings say of who wrote a call, and of which of its choices was served."""
    codes = set()
    if _is_selected(drawn, meaning):
        codes.add("best_of_n")
    if meaning.policy_version is None and "version_ambiguous" not in logged:
        codes.add("version_unknown")
    if not drawn.has_logprobs:
        return codes
    if meaning.logprob_kind == "unknown":
        codes.add("logprob_kind_unknown")
    elif meaning.logprob_kind == "raw" and meaning.temperature not in (None, 1.0) and not _is_greedy(meaning):
        codes.add("logprob_kind_mismatch")
    return codes


def _is_selected(drawn: Drawn, meaning: Meaning) -> bool:
    """Whether something that nobody logged may have chosen the call among several choices."""
    hidden = drawn.sampling.get("best_of")
    if isinstance(hidden, int) and hidden > drawn.num_choices:  # the server drew more and returned the likeliest
        return True
    if drawn.num_choices <= 1 or meaning.choice_selection == "random":
        return False
    return meaning.choice_selection == "unknown" or drawn.choice_index != 0


def _sampling(sampling: Mapping[str, Any], meaning: Meaning) -> set[str]:
    codes = set()
    parameters = (meaning.temperature, meaning.top_p, meaning.top_k, meaning.min_p, meaning.repetition_penalty)
    if None in parameters:
        codes.add("sampling_params_unknown")
    if _is_greedy(meaning):
        codes.add("greedy_sampling")
    if _is_truncated(sampling, meaning):
        codes.add("truncated_support")
    if meaning.repetition_penalty not in (None, 1.0) or any(sampling.get(name) for name in _PENALTIES):
        codes.add("penalised_sampling")
    return codes


def _is_greedy(meaning: Meaning) -> bool:
    return meaning.temperature is not None and meaning.temperature < GREEDY_TEMPERATURE


def _is_truncated(sampling: Mapping[str, Any], meaning: Meaning) -> bool:
    return (
        (meaning.top_p is not None and meaning.top_p < 1.0)
        or (meaning.top_k is not None and meaning.top_k > 0)
        or bool(meaning.min_p)
        or sampling.get("typical_p") not in (None, 1)
        or any(sampling.get(name) for name in _TRUNCATIONS)
    )


def _has_grammar(sampling: Mapping[str, Any]) -> bool:
    """Whether a schema or a forced tool call restricted the tokens; even raw numbers are under it. docs/formats.md."""
    form = sampling.get("response_format")
    choice = sampling.get("tool_choice")
    return (
        any(sampling.get(name) for name in _GRAMMARS)
        or (isinstance(form, dict) and form.get("type") not in (None, "text"))
        or choice == "required"
        or isinstance(choice, dict)
    )


def _greatest_id(packed: bytes) -> int:
    return max(memoryview(packed).cast("i")) if len(packed) <= _FEW else int(np.frombuffer(packed, dtype="<i4").max())
