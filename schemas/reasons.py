"""The closed list of reasons: why a line was rejected, a trace quarantined or left pending, or a note made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scope = Literal["line", "trace", "note", "pending"]


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: its code, one sentence that says what it means, and what to do about it."""

    code: str
    scope: Scope
    sentence: str
    fix: str


REASONS: dict[str, Reason] = {
    reason.code: reason
    for reason in (
        # A line that became a reject.
        Reason(
            "bad_json",
            "line",
            "The line is not JSON.",
            "Log one JSON object per line; keep error texts of proxies out of the file.",
        ),
        Reason(
            "truncated_tail",
            "line",
            "The last line of the file was cut before its end.",
            "Nothing, if the writer is still at it: the line is read again when the file has grown. Else the "
            "writer died: the call is lost.",
        ),
        Reason(
            "duplicate_key",
            "line",
            "A key stands twice in one JSON object, and nothing says which one counts.",
            "Mend the writer: one value per key.",
        ),
        Reason("bad_unicode", "line", "The line is not UTF-8.", "Write log files as UTF-8."),
        Reason(
            "line_too_long",
            "line",
            "The line is longer than the limit.",
            "Raise logs.max_line_bytes, or find out what writes such lines.",
        ),
        Reason(
            "schema_unknown",
            "line",
            "The line is JSON of no format that is known here.",
            "Compare it with docs/formats.md; a wrapper around a known format can be unwrapped before ingest.",
        ),
        Reason(
            "bad_field",
            "line",
            "A field has a value of the wrong type or out of range.",
            "Mend the writer: the message names the field.",
        ),
        Reason(
            "bad_time",
            "line",
            "A time cannot be read or has no time zone.",
            "Log times as ISO 8601 with an offset, or as epoch seconds.",
        ),
        Reason(
            "no_trace_id",
            "line",
            "Nothing in the line says which trace it belongs to.",
            "Log a trace id with each call.",
        ),
        Reason(
            "no_choices",
            "line",
            "The response has no choice in it.",
            "An error response carries no tokens; log errors elsewhere.",
        ),
        Reason(
            "stream_incomplete",
            "line",
            "The chunks of a stream do not form a response.",
            "Log every chunk, the last one with finish_reason included.",
        ),
        Reason(
            "no_join_key",
            "line",
            "The outcome names no trace, call, response or business key.",
            "Send the trace id with each score.",
        ),
        Reason(
            "bad_value",
            "line",
            "The outcome's value is not a finite number, true, false or empty.",
            "Send a number with a decimal point.",
        ),
        Reason(
            "bad_source_kind",
            "line",
            "The outcome's source_kind is none of human, program, judge, user, webhook.",
            "Say who scored.",
        ),
        # Why a trace was quarantined: structure and logprobs.
        Reason(
            "no_token_ids",
            "trace",
            "No ids of the sampled tokens were logged, and text cannot be turned back into them.",
            'vLLM: send "return_token_ids": true with each request.',
        ),
        Reason(
            "no_behavior_logprobs",
            "trace",
            "No log-probabilities of the sampled tokens were logged, so there is no ratio to form.",
            'vLLM: send "logprobs": true with each request, and start the server with --logprobs-mode '
            "processed_logprobs; train on the traces that come after.",
        ),
        Reason(
            "no_prompt_ids",
            "trace",
            "The ids of the prompt were not logged, so the sampled tokens have no exact context.",
            'vLLM: send "return_token_ids": true with each request; return_tokens_as_token_ids alone logs no prompt.',
        ),
        Reason(
            "len_mismatch",
            "trace",
            "A call has another number of log-probabilities than of sampled tokens.",
            "The log was cut or merged: raise the gateway's limit, then ingest it again.",
        ),
        Reason(
            "ids_disagree",
            "trace",
            "A call's token_id:N strings name other tokens than its list of ids.",
            "The lists are shifted or merged: find out which gateway rebuilt the response.",
        ),
        Reason(
            "stream_cut",
            "trace",
            "A stream has no last chunk, so tokens may be missing from the log.",
            "Log every chunk, the one with finish_reason included.",
        ),
        Reason(
            "nonfinite_logprob",
            "trace",
            "A log-probability is NaN or infinite.",
            "Upgrade the serving engine, or turn off the sampling filter that produces it.",
        ),
        Reason(
            "positive_logprob",
            "trace",
            "A log-probability is above zero.",
            "The logged number is no log-probability: find out which field was logged.",
        ),
        Reason(
            "sentinel_logprob",
            "trace",
            "A log-probability is a placeholder such as -9999, not a measurement.",
            "Turn off the feature of the engine that fills in placeholders.",
        ),
        Reason(
            "constant_logprob",
            "trace",
            "All log-probabilities of the trace are the same number.",
            "Log the numbers of the sampler; a constant is a default that somebody filled in.",
        ),
        Reason(
            "no_action_tokens",
            "trace",
            "No token of the trace was sampled by the policy.",
            "Nothing to do for an aborted call; else the token ids were not logged.",
        ),
        Reason(
            "ids_out_of_vocab",
            "trace",
            "A token id is outside the model's vocabulary.",
            "The trace is of another model or tokenizer: name the right deployment.",
        ),
        Reason(
            "missing_call",
            "trace",
            "The trace has fewer calls than its workload's traces have.",
            "A call was not logged: its tokens earned the reward too. Log every call.",
        ),
        # Why a trace was quarantined: meaning of the logprobs.
        Reason(
            "logprob_kind_unknown",
            "trace",
            "Nothing says whether the log-probabilities are of the raw or of the processed distribution.",
            "State logprobs_mode under [deployments.NAME] in the settings. Calls that landed before keep what was "
            "stated then: read their files into a new lake.",
        ),
        Reason(
            "logprob_kind_mismatch",
            "trace",
            "Raw log-probabilities at a temperature other than 1 are not those that the tokens were sampled with.",
            "vLLM: start the server with --logprobs-mode processed_logprobs.",
        ),
        Reason(
            "truncated_support",
            "trace",
            "The tokens were sampled with top-p, top-k or min-p, so the support of the logged distribution was cut.",
            "Serve with top_p 1, top_k off and min_p 0 for traffic that is to be trained on.",
        ),
        Reason(
            "greedy_sampling",
            "trace",
            "The temperature was 0: nothing was sampled.",
            "Serve with temperature 1 for traffic that is to be trained on.",
        ),
        Reason(
            "penalised_sampling",
            "trace",
            "A repetition, presence or frequency penalty or a logit bias changed the distribution.",
            "Serve without penalties for traffic that is to be trained on.",
        ),
        Reason(
            "grammar_constrained",
            "trace",
            "A grammar, JSON schema or forced tool call restricted the tokens, and the trainer cannot repeat that.",
            "Serve without structured output for traffic that is to be trained on.",
        ),
        Reason(
            "sampling_params_unknown",
            "trace",
            "Temperature, top-p, top-k, min-p or repetition penalty is neither logged nor stated for the deployment.",
            'State generation_config = "vllm" under [deployments.NAME] if the server runs with '
            "--generation-config vllm; else log all five with each request, or state them under "
            "[deployments.NAME.defaults]. Calls that landed before keep what was stated then: read their files into a "
            "new lake.",
        ),
        Reason(
            "sampling_mixed",
            "trace",
            "Calls of one trace were sampled at different temperatures, and a trace is scored at one.",
            "Send one temperature with all requests of a trace.",
        ),
        Reason(
            "version_unknown",
            "trace",
            "Nothing says which policy version wrote the trace.",
            "Put the version into the served model's name and state version_pattern, or serve one version per "
            "deployment and state it. Calls that landed before keep what was stated then: read their files into a new "
            "lake.",
        ),
        Reason(
            "version_unregistered",
            "trace",
            "The policy version that wrote the trace is not among the policies.",
            "Register it under [[model.policies]] in the settings.",
        ),
        Reason(
            "version_ambiguous",
            "trace",
            "Several policy versions wrote the tokens of one trace.",
            "Nothing: traces that span a deployment are kept out; finish open sessions before a deployment.",
        ),
        # Why a trace was quarantined or pending: rewards, duplicates, staleness, split.
        Reason(
            "reward_pending",
            "pending",
            "No outcome has arrived, and the maturity window is still open.",
            "Wait: the trace is judged again every night.",
        ),
        Reason(
            "reward_immature",
            "pending",
            "An outcome has arrived, but the maturity window is open and it may be revised.",
            "Wait: the trace is judged again every night.",
        ),
        Reason(
            "reward_missing",
            "trace",
            "No outcome arrived within the maturity window.",
            "Find out why the scorer skips such traces; a missing score is never read as 0.",
        ),
        Reason(
            "reward_out_of_range",
            "trace",
            "The reward lies outside the range that the settings state.",
            "Mend the scorer, or state its range under [reward].",
        ),
        Reason(
            "conflicting_outcomes",
            "trace",
            "Outcomes of the same time and source disagree.",
            "Mend the scorer: send a revision with a later event time.",
        ),
        Reason(
            "duplicate_trace",
            "trace",
            "The tokens and log-probabilities equal those of an earlier trace under another trace id.",
            "Mend the exporter: one try must carry one trace id.",
        ),
        Reason(
            "too_old",
            "trace",
            "The trace is older than the highest age that the settings admit.",
            "Train sooner after serving, or raise gate.max_age_hours.",
        ),
        Reason(
            "lag_over_limit",
            "trace",
            "The policy that wrote the trace is more updates behind than the settings admit.",
            "Train sooner after serving, or raise gate.max_lag.",
        ),
        Reason(
            "drift_over_trust",
            "trace",
            "The current policy has moved further from the trace's behavior policy than the trust admits.",
            "Train sooner after serving, or with a smaller learning rate; raising the trust admits more variance.",
        ),
        Reason(
            "not_rescored",
            "pending",
            "The trace has not been scored under the current policy yet.",
            "Run tracemill rescore, or raise rescore.max_traces.",
        ),
        Reason(
            "judge_directed_text",
            "trace",
            "The trace contains text addressed to a judge.",
            "Read it: somebody may be gaming the judge.",
        ),
        Reason(
            "heldout",
            "trace",
            "The trace belongs to the holdout and is never trained on.",
            "Nothing: it serves to measure the new policy.",
        ),
        Reason(
            "already_trained",
            "trace",
            "The trace has trained the current policy or one of its ancestors.",
            "Nothing: a trace is used once.",
        ),
        # Notes: nothing is wrong enough to act on by itself.
        Reason("utf8_bom", "note", "The file begins with a byte-order mark.", "Nothing: it was skipped."),
        Reason(
            "truncated_gzip",
            "note",
            "The compressed file ends in the middle.",
            "Nothing, if it is still being written; whole lines were kept.",
        ),
        Reason(
            "truncated_zstd",
            "note",
            "The zstd file ends in the middle of a frame.",
            "Nothing, if it is still being written; whole lines were kept.",
        ),
        Reason(
            "damaged_file",
            "note",
            "The compressed file cannot be decompressed beyond some place.",
            "Copy the file again: whole lines before the damage were kept, and reading goes on there.",
        ),
        Reason(
            "nonfinite_number",
            "note",
            "A number in the line is NaN, infinite or beyond a double; it was read as missing.",
            "Mend the writer: JSON has no such numbers.",
        ),
        Reason(
            "lone_surrogate",
            "note",
            "A text has half of a surrogate pair, which was replaced by U+FFFD.",
            "Nothing for token ids; the text is damaged in the log.",
        ),
        Reason(
            "file_changed",
            "note",
            "The part of the file that had been read has changed since.",
            "Append to log files, never rewrite them; lines that had landed were counted as duplicates.",
        ),
        Reason(
            "finish_by_length",
            "note",
            "The reply was cut by the token limit.",
            "Raise max_tokens if many replies end so.",
        ),
        Reason("token_text_ids", "note", "Token ids were read from token_id:N strings.", "Prefer return_token_ids."),
        Reason(
            "top_tokens_without_ids",
            "note",
            "The top-K list names texts, not ids, so it was not kept.",
            "Log ids with return_tokens_as_token_ids.",
        ),
        Reason(
            "clock_skew",
            "note",
            "A call began before the call that it continues had ended.",
            "Synchronise the clocks of the gateways.",
        ),
        Reason(
            "call_logged_twice",
            "note",
            "A call was logged twice, by two writers or in different detail; the fuller copy was used.",
            "Nothing: copies are counted, never trained twice.",
        ),
        Reason(
            "empty_call",
            "note",
            "A call that sampled no token was left out of the sequences.",
            "Nothing: an aborted call carries nothing.",
        ),
        Reason(
            "sibling_not_used",
            "note",
            "Another answer to the same prompt was continued instead of this one.",
            "Nothing: a retry or a hedged request.",
        ),
        Reason(
            "ambiguous_siblings",
            "trace",
            "Several answers to one prompt, and nothing says which one was used.",
            "Log which choice was delivered.",
        ),
        Reason(
            "best_of_n",
            "trace",
            "Several choices were sampled and one was selected, which the logged distribution does not say.",
            "Sample one choice for traffic that is to be trained on.",
        ),
    )
}
"""Every reason, by its code."""


def reason(code: str) -> Reason:
    """The reason of that code; `KeyError` when it is not in the closed list."""
    if code not in REASONS:
        raise KeyError(f"reason {code!r} is not in the closed list of schemas/reasons.py; add it there, with its fix")
    return REASONS[code]
