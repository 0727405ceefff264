-- Does the lag in updates predict the drift that was measured?
-- Grain: one row per policy lag, over traces that were scored under the current policy.
-- Columns:
--   policy_lag           optimizer updates between the behavior policy and the current one
--   num_traces           traces scored
--   median_drift         median of the traces' mean Bernoulli KL, nats
--   p95_drift            95th percentile of the same, nats
--   mean_abs_log_ratio   mean of the traces' mean absolute log ratio, nats
--   mean_m2              mean of the traces' mean squared log ratio, nats^2
--   ess_share            effective sample size of the whole-trace importance weights over the number of traces
with centred as (
    select
        policy_lag,
        mean_bernoulli_kl,
        mean_abs_log_ratio,
        m2,
        -- The share does not change with the scale of the weights, and the largest one is 1 here: nothing overflows.
        exp(sequence_log_ratio - max(sequence_log_ratio) over (partition by policy_lag)) as trace_weight,
    from current_drift
    where num_action_tokens > 0
)
select
    policy_lag,
    count(*) as num_traces,
    median(mean_bernoulli_kl) as median_drift,
    quantile_cont(mean_bernoulli_kl, 0.95) as p95_drift,
    avg(mean_abs_log_ratio) as mean_abs_log_ratio,
    avg(m2) as mean_m2,
    sum(trace_weight) * sum(trace_weight) / sum(trace_weight * trace_weight) / count(*) as ess_share,
from centred
group by policy_lag
order by policy_lag nulls last
