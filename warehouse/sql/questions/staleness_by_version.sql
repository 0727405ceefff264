-- Which policy versions wrote the traces, how old are they, and how far has the current policy moved from them?
-- Grain: one row per behavior version; null for traces whose version is unknown or mixed.
-- Parameters:
--   $trust double = 0.003       highest drift that the gate admits, nats per token
--   $as_of timestamptz = null   clock that ages are measured from; null takes that of the latest run, else the present
-- Columns:
--   behavior_version     the version that wrote the traces
--   optimizer_step       its optimizer updates since the base weights
--   policy_lag           updates between it and the current policy; null when it is not registered
--   num_traces           traces that it wrote
--   share                their share of all traces
--   min_age_hours        age of the newest, hours
--   median_age_hours     median age, hours
--   max_age_hours        age of the oldest, hours
--   num_rescored         traces that were scored under the current policy; the columns that follow are over these
--   mean_drift           mean of the traces' mean Bernoulli KL, nats; null when none was rescored
--   median_drift         median of the same, nats
--   mean_abs_log_ratio   mean of the traces' mean absolute log ratio, nats
--   share_over_trust     share of rescored traces whose drift is over the trust
with aged as (
    select
        trace_summaries.trace_id,
        trace_summaries.behavior_version,
        epoch(coalesce($as_of::timestamptz, current_clock.as_of) - trace_summaries.ended_at) / 3600 as age_hours,
    from trace_summaries
    cross join current_clock
)
select
    aged.behavior_version,
    any_value(behavior_policies.optimizer_step) as optimizer_step,
    any_value(current_policy.optimizer_step - behavior_policies.optimizer_step) as policy_lag,
    count(*) as num_traces,
    count(*) / sum(count(*)) over () as share,
    min(aged.age_hours) as min_age_hours,
    median(aged.age_hours) as median_age_hours,
    max(aged.age_hours) as max_age_hours,
    count(current_drift.mean_bernoulli_kl) as num_rescored,
    avg(current_drift.mean_bernoulli_kl) as mean_drift,
    median(current_drift.mean_bernoulli_kl) as median_drift,
    avg(current_drift.mean_abs_log_ratio) as mean_abs_log_ratio,
    avg((current_drift.mean_bernoulli_kl > $trust)::integer) as share_over_trust,
from aged
left join current_policies as behavior_policies
    on behavior_policies.policy_version = aged.behavior_version
left join current_policy on true
left join current_drift using (trace_id)
group by aged.behavior_version
order by policy_lag desc nulls last, behavior_version
