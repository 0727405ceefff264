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
            "damaged_bytes",
            "line",
            "The file cannot be read from some place on: its archive, or a part of its table, is damaged.",
            "Copy the file again: what stands before the place was kept, and reading goes on there.",
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
            "Nothing: such lines were refused by an earlier version, and land as traces of one call.",
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
            "The outcome names no trace, call, response, session or business key.",
            "Send the trace id with each score.",
        ),
        Reason(
            "bad_value",
            "line",
            "The outcome's value is not a finite number, true, false or empty, nor a label that the settings know.",
            "Send a number with a decimal point, or state under [logs.words.labels] what the label is worth.",
        ),
        Reason(
            "bad_source_kind",
            "line",
            "The outcome's source_kind is none of human, program, judge, user, webhook.",
            "Say who scored, or state under [logs.words.source_kinds] what another system's word means.",
        ),
        Reason(
            "bad_trace_id",
            "line",
            "The id of a trace or a span is neither hex nor base64 of the right length.",
            "Mend the exporter: 16 bytes for a trace, 8 for a span, as hex.",
        ),
        Reason(
            "payload_cut",
            "line",
            "The logged response was cut in the middle, so it cannot be read.",
            "Raise the limit of the gateway's sink (payload_max_bytes), or log the response itself.",
        ),
        Reason(
            "orphan_event",
            "line",
            "Events of a model call stand apart from their span, so nothing says which model answered.",
            "Write the messages onto the span: set OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental and "
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only.",
        ),
        # Why a trace was quarantined: structure and logprobs.
        Reason(
            "no_token_ids",
            "trace",
            "No ids of the sampled tokens were logged, and text cannot be turned back into them.",
            'vLLM: send "return_token_ids": true with each request.',
        ),
        Reason(
            "redacted_ids",
            "trace",
            "Something was taken out of the texts, and by the settings the token ids went with it.",
            'Nothing, if that is wanted; with logs.redact.redacted_ids = "keep" the ids stay, and spell what was taken '
            "out.",
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
            "provider_no_logprobs",
            "trace",
            "The provider never returns log-probabilities or token ids, whatever is asked of it.",
            "Nothing: such traces serve for scoring and reading. Serve the model yourself to train on its traces.",
        ),
        Reason(
            "version_spans_incomplete",
            "trace",
            "The spans of weight versions do not cover the tokens of a call, each once.",
            "Upgrade the serving engine, or find out which gateway cut the reply.",
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
            "context_shifted",
            "trace",
            "The server dropped a part of the context, so what the tokens were sampled after cannot be told.",
            "Serve with room for prompt and reply, and without context shift (llama.cpp: --no-context-shift).",
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
        Reason(
            "conflicting_copies",
            "trace",
            "Two copies of one response give its tokens other log-probabilities, and nothing says which are right.",
            "Log each call once, or mend the gateway that changes the numbers.",
        ),
        Reason(
            "output_overridden",
            "trace",
            "A guardrail replaced the answer: its score was given to another text than the sampled one.",
            "Nothing: such traces are kept out.",
        ),
        Reason(
            "multimodal_prompt",
            "trace",
            "The prompt holds an image or sound, which its token ids do not say.",
            "Nothing: such traces are kept out.",
        ),
        # Why a trace was quarantined: meaning of the logprobs.
        Reason(
            "logprob_kind_unknown",
            "trace",
            "Nothing says whether the log-probabilities are of the raw or of the processed distribution.",
            "State logprobs_mode (vLLM) or logprob_kind (any other server) under [deployments.NAME] in the settings.",
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
            '--generation-config vllm (SGLang: sampling_defaults = "openai"); else log all five with each request, or '
            "state them under [deployments.NAME.defaults].",
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
            "deployment and state it.",
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
            "Nothing: traces that span a deployment are kept out, for a prefix cache may have been kept across it; "
            "finish open sessions before a deployment.",
        ),
        Reason(
            "cache_hit",
            "trace",
            "A gateway answered from its cache: another policy may have written the tokens, for another trace.",
            "Turn off the response cache for traffic that is to be trained on.",
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
            "ambiguous_join",
            "trace",
            "An outcome of the reward's name goes by a key that several traces share, so it may be about any of them.",
            "Send the trace id, the call id or the response id with each score; a session or an ask joins only while "
            "it has one trace.",
        ),
        Reason(
            "score_precedes_trace",
            "trace",
            "The outcome is older than the trace that it scores: it is about something else, or a clock is wrong.",
            "Mend the clock or the key of the scorer, or raise reward.skew_minutes.",
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
            "truncated_array",
            "note",
            "The JSON array of the file has no closing bracket.",
            "Nothing, if it is still being written; whole elements were kept.",
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
            "file_gone",
            "note",
            "The file was there when the files were listed, and gone when it was to be read.",
            "Keep log files until they have been read; the other files were.",
        ),
        Reason(
            "file_changed",
            "note",
            "The part of the file that had been read has changed since.",
            "Append to log files, never rewrite them; lines that had landed were counted as duplicates.",
        ),
        Reason(
            "request_retracted",
            "note",
            "The server put the request back while it generated and read its prompt anew.",
            "Nothing, unless the weights were updated in between: log weight versions.",
        ),
        Reason(
            "attempt_failed",
            "note",
            "The record says that its attempt ended in an error.",
            "Nothing: its calls were logged, and whether it is scored is the scorer's to say.",
        ),
        Reason(
            "score_without_time",
            "note",
            "The record holds a score but no time, so the score was not read.",
            "Log times with the record, or send the score by itself with its event_time.",
        ),
        Reason(
            "finish_by_length",
            "note",
            "The reply was cut by the token limit.",
            "Raise max_tokens if many replies end so.",
        ),
        Reason(
            "stop_string_not_found",
            "note",
            "A stop string ended the reply, and the logged tokens do not spell it: none was masked as behind it.",
            "Log the texts of tokens (no return_tokens_as_token_ids), or stop by token ids.",
        ),
        Reason(
            "sampling_logprob_differs",
            "note",
            "The server gave two log-probabilities of one token, and they differ; `logprob` was kept.",
            "Ask the provider which of them is of the distribution that was sampled from, and state logprob_kind.",
        ),
        Reason(
            "prompt_not_in_log",
            "note",
            "The request goes on from an earlier response by its id, so its messages are only the last of the prompt.",
            "Send the whole conversation with each request.",
        ),
        Reason(
            "trace_id_from_response",
            "note",
            "The line names no trace, so its response stands for a trace of one call.",
            "Log a trace id with each call, so that the calls of one try are put together.",
        ),
        Reason(
            "trace_id_from_line",
            "note",
            "The line names neither a trace nor a response, so the line itself stands for a trace of one call.",
            "Log a trace id with each call; without one no score can be joined to it.",
        ),
        Reason(
            "time_of_reading",
            "note",
            "The line has no time, so the time of reading stands for the time of the call.",
            "Log the time of each call: ages are measured from it.",
        ),
        Reason(
            "payload_truncated",
            "note",
            "A gateway cut long texts in the record; lists of numbers are whole.",
            "LiteLLM: raise MAX_STRING_LENGTH_PROMPT_IN_DB, or log through a callback.",
        ),
        Reason(
            "text_redacted",
            "note",
            "A gateway took the text out of the record, and with it ids and log-probabilities.",
            "LiteLLM: turn off turn_off_message_logging for traffic that is to be trained on.",
        ),
        Reason(
            "text_not_logged",
            "note",
            "The record of a call has no reply in it.",
            "Turn on the capture of content (LiteLLM: store_prompts_in_spend_logs; OpenTelemetry: "
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT).",
        ),
        Reason(
            "gateway_dropped_logprobs",
            "note",
            "A gateway put a stream together and left its log-probabilities and prompt ids out.",
            'LiteLLM: send "stream": false for traffic that is to be trained on.',
        ),
        Reason(
            "attributes_dropped",
            "note",
            "The exporter dropped attributes of the span over its limit, so fields may be missing.",
            "Raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT and OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT.",
        ),
        Reason(
            "orphan_messages",
            "note",
            "The line also holds messages of other model calls, whose spans stand elsewhere: those were not read.",
            "Write the messages onto the span: set OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental and "
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only.",
        ),
        Reason(
            "answer_unreadable",
            "note",
            "The server's answer within the record could not be read, so only the record's own fields were.",
            "Raise the exporter's limit on lengths, or log the responses themselves.",
        ),
        Reason(
            "model_unknown",
            "note",
            "The record does not name the model that answered.",
            "Name the model where the call is recorded.",
        ),
        Reason(
            "score_unusable",
            "note",
            "A score in the record of a call could not be used and was left out.",
            "State what its label or its scorer means under [logs.words], and log it again as a line of its own.",
        ),
        Reason(
            "parameter_unreadable",
            "note",
            "A sampling parameter has a value of the wrong type, so it counts as unknown.",
            "Record parameters as numbers.",
        ),
        Reason("token_text_ids", "note", "Token ids were read from token_id:N strings.", "Prefer return_token_ids."),
        Reason(
            "top_tokens_without_ids",
            "note",
            "The top-K list names texts, not ids, so it was not kept.",
            "Log ids with return_tokens_as_token_ids.",
        ),
        Reason(
            "field_says_raw",
            "note",
            "The field of the log-probabilities says that they are of the raw distribution, before the temperature.",
            "Nothing: the settings may say the same.",
        ),
        Reason(
            "field_says_temperature",
            "note",
            "The field of the log-probabilities says that they are taken after the temperature and before top-p.",
            "Nothing: the settings may say the same.",
        ),
        Reason(
            "field_says_processed",
            "note",
            "The field of the log-probabilities says that they are of the processed distribution.",
            "Nothing: the settings may say the same.",
        ),
        Reason(
            "log_says_truncated",
            "note",
            "The log names a parameter of its server that cuts the support, beside top-p, top-k and min-p.",
            "Serve without it for traffic that is to be trained on.",
        ),
        Reason(
            "log_says_penalised",
            "note",
            "The log names a penalty of its server, beside those that every server knows.",
            "Serve without it for traffic that is to be trained on.",
        ),
        Reason(
            "log_says_greedy",
            "note",
            "The log says that its server took the likeliest token, whatever the temperature.",
            "Turn on sampling for traffic that is to be trained on.",
        ),
        Reason(
            "prompt_from_successor",
            "note",
            "The ids of a prompt were not logged and were read from the next call's prompt, which repeats them.",
            'vLLM: send "return_token_ids": true with each request.',
        ),
        Reason(
            "turn_not_logged",
            "note",
            "A prompt holds an assistant's turn that no logged call of the trace said.",
            "Find out whether a call is missing from the log, or whether the client rewrites its history.",
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
            "Sample one choice for traffic that is to be trained on, or state choice_selection under "
            "[deployments.NAME] if the first or a random one is served.",
        ),
    )
}
"""Every reason, by its code."""


def reason(code: str) -> Reason:
    """The reason of that code; `KeyError` when it is not in the closed list."""
    if code not in REASONS:
        raise KeyError(f"reason {code!r} is not in the closed list of schemas/reasons.py; add it there, with its fix")
    return REASONS[code]
