-- What was logged of these traces, as far as putting them together needs it?
-- Grain: one row per call.
-- Parameters:
--   $since timestamptz   start of the first call that is wanted; files of other times are not opened
--   $until timestamptz   start of the last call that is wanted
-- Tables:
--   wanted (trace_id)
-- Columns:
--   *               columns of calls
--   landed_as       the deployment that was found at landing, of rows of version 1, which kept no other name; else null
--   landed_version  the policy version that was found then, of rows of version 1, which kept no weights; else null
select
    calls.call_id,
    calls.trace_id,
    calls.call_index,
    calls.response_id,
    calls.ask_id,
    calls.session_id,
    calls.user_hash,
    calls.workload,
    calls.logged_deployment,
    case when calls.schema_version = 1 then calls.deployment end as landed_as,
    case when calls.schema_version = 1 then calls.policy_version end as landed_version,
    calls.model,
    calls.engine,
    calls.choice_index,
    calls.num_choices,
    calls.prompt_token_ids,
    calls.token_ids,
    calls.token_logprobs,
    calls.top_token_ids,
    calls.top_token_logprobs,
    calls.sampling_json,
    calls.version_spans,
    calls.masked_positions,
    calls.num_prompt_tokens,
    calls.finish_reason,
    calls.messages_json,
    calls.reply_text,
    calls.started_at,
    calls.ended_at,
    calls.notes,
from calls
semi join wanted on wanted.trace_id = calls.trace_id
where calls.started_at between $since and $until
