-- What is left when a version is scored again under its own weights?
-- Grain: one row per version.
-- Parameters:
--   $num_labels bigint   versions told apart: those with most traces
-- Tables:
--   drifts (trace_id, policy_version, behavior_version, is_complete, num_action_tokens, mean_bernoulli_kl, mean_abs_log_ratio, max_ratio)   trace_drift
-- Columns:
--   version              the version
--   num_traces           traces scored whole under it that it wrote
--   mean_abs_log_ratio   mean of the traces' mean absolute log ratio, nats
--   drift                mean of the traces' mean Bernoulli KL, nats
--   max_ratio            largest importance ratio
select
    policy_version as version,
    count(*) as num_traces,
    avg(mean_abs_log_ratio) as mean_abs_log_ratio,
    avg(mean_bernoulli_kl) as drift,
    max(max_ratio) as max_ratio,
from drifts
where
    policy_version = behavior_version
    and is_complete
    and num_action_tokens > 0
group by policy_version
order by num_traces desc, version
limit $num_labels
