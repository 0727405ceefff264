-- How far is each policy from the traces that it scored, by the version that wrote them?
-- Grain: one row per scoring policy and behavior version, over traces at their current revision.
-- Parameters:
--   $trust double   drift above which a trace counts as over trust, nats per token
-- Columns:
--   policy_version       the policy that scored
--   behavior_version     the policy that wrote; null when unknown or mixed
--   num_traces           traces that were scored whole
--   num_action_tokens    their action tokens
--   mean_abs_log_ratio   mean of the traces' mean absolute log ratio, nats
--   mean_bernoulli_kl    mean of the traces' mean Bernoulli KL, nats: the gate's canary is this mean too
--   max_ratio            largest importance ratio
--   share_over_trust     share of traces whose drift is over $trust
select
    policy_version,
    behavior_version,
    count(*) as num_traces,
    sum(num_action_tokens)::bigint as num_action_tokens,
    -- In one order, so that the same traces have the same mean to the last bit.
    avg(mean_abs_log_ratio order by trace_id) as mean_abs_log_ratio,
    avg(mean_bernoulli_kl order by trace_id) as mean_bernoulli_kl,
    max(max_ratio) as max_ratio,
    avg((mean_bernoulli_kl > $trust)::int) as share_over_trust,
from trace_drift
where is_complete
    and num_action_tokens > 0
group by policy_version, behavior_version
order by policy_version, behavior_version
