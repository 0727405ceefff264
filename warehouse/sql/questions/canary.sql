-- How far are the traces of each version from that version itself? Above the numerics floor, the log is wrong, not old.
-- Grain: one row per policy version; without a rescored trace it is not measured, and its figures are null.
-- Columns:
--   policy_version       the version, which wrote the traces and scored them
--   state                candidate, held, current or retired
--   num_traces           its traces that were scored whole under itself
--   mean_abs_log_ratio   mean of the traces' mean absolute log ratio, nats
--   median_drift         median of the traces' mean Bernoulli KL, nats
--   mean_drift           mean of the same, nats
--   p99_max_ratio        99th percentile of the traces' largest ratio
select
    current_policies.policy_version,
    any_value(current_policies.state) as state,
    count(trace_drift.trace_id) as num_traces,
    avg(trace_drift.mean_abs_log_ratio) as mean_abs_log_ratio,
    median(trace_drift.mean_bernoulli_kl) as median_drift,
    avg(trace_drift.mean_bernoulli_kl) as mean_drift,
    quantile_cont(trace_drift.max_ratio, 0.99) as p99_max_ratio,
from current_policies
left join trace_drift
    on trace_drift.policy_version = current_policies.policy_version
    and trace_drift.behavior_version = current_policies.policy_version
    and trace_drift.is_complete
    and trace_drift.num_action_tokens > 0
group by current_policies.policy_version
order by any_value(current_policies.optimizer_step) desc, current_policies.policy_version
