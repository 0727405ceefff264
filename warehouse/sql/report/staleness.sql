-- How old are the traces of each version, by clock, by updates and by drift?
-- Grain: one row per version.
-- Parameters:
--   $base_policy varchar = null   the current policy when the run began
--   $trust double = null          highest drift that the gate admits, nats
-- Tables:
--   judged (trace_id, version_label, policy_lag, age_hours, drift)   report/judged
--   drifts (trace_id, policy_version, mean_abs_log_ratio, k3, m2, max_ratio)   trace_drift
-- Columns:
--   version              the version that wrote the traces
--   num_traces           traces judged
--   policy_lag           optimizer updates to the current policy; null when unknown or mixed
--   age_hours            median hours from the end of a trace to the run's clock
--   num_scored           traces scored under the current policy
--   drift_p50, drift_p95, mean_abs_log_ratio, k3, m2, max_ratio_p99   over those
--   num_in_trust         of those, within the trust; null without one
with scored as (
    select
        trace_id,
        mean_abs_log_ratio,
        k3,
        m2,
        max_ratio,
    from drifts
    where policy_version = $base_policy
)
select
    judged.version_label as version,
    count(*) as num_traces,
    case when min(judged.policy_lag) = max(judged.policy_lag) then min(judged.policy_lag) end as policy_lag,
    median(judged.age_hours) as age_hours,
    count(judged.drift) as num_scored,
    quantile_cont(judged.drift, 0.5) as drift_p50,
    quantile_cont(judged.drift, 0.95) as drift_p95,
    avg(scored.mean_abs_log_ratio) filter (judged.drift is not null) as mean_abs_log_ratio,
    avg(scored.k3) filter (judged.drift is not null) as k3,
    avg(scored.m2) filter (judged.drift is not null) as m2,
    quantile_cont(scored.max_ratio, 0.99) filter (judged.drift is not null) as max_ratio_p99,
    case when $trust is not null then count(*) filter (judged.drift <= $trust) end as num_in_trust,
from judged
left join scored using (trace_id)
group by judged.version_label
order by min(judged.policy_lag) nulls last, version desc
