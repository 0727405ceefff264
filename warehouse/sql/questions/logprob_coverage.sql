-- Which share of the calls carries log-probabilities that can be used, day by day and version by version?
-- Grain: one row per day (UTC) and policy version.
-- Parameters:
--   $lowest double = -9999   log-probabilities at or below are placeholders of the engine, nats
-- Columns:
--   day                   day on which the call began
--   policy_version        the version that wrote it; null when unknown
--   num_calls             calls
--   share_with_ids        share with token ids
--   share_with_prompt     share with prompt token ids
--   share_with_logprobs   share with log-probabilities
--   share_aligned         share with one log-probability for each token
--   share_usable          share aligned, all finite, none positive, none a placeholder
with judged as (
    select
        started_at::date as day,
        policy_version,
        token_ids is not null as has_ids,
        prompt_token_ids is not null as has_prompt,
        token_logprobs is not null as has_logprobs,
        coalesce(len(token_logprobs) = len(token_ids), false) as is_aligned,
        coalesce(
            len(list_filter(token_logprobs, lambda x: isfinite(x) and x <= 0 and x > $lowest)) = len(token_ids),
            false
        ) as is_usable,
    from calls
)
select
    day,
    policy_version,
    count(*) as num_calls,
    avg(has_ids::integer) as share_with_ids,
    avg(has_prompt::integer) as share_with_prompt,
    avg(has_logprobs::integer) as share_with_logprobs,
    avg(is_aligned::integer) as share_aligned,
    avg((is_aligned and is_usable)::integer) as share_usable,
from judged
group by day, policy_version
order by day desc, policy_version
