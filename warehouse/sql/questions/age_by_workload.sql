-- How old are the traces by the wall clock, workload by workload?
-- Grain: one row per workload.
-- Parameters:
--   $as_of timestamptz = null   clock that ages are measured from; null takes that of the latest run, else the present
-- Columns:
--   workload           kind of traffic
--   num_traces         traces
--   median_age_hours   median hours since the end of the trace
--   p90_age_hours      90th percentile of the same
--   max_age_hours      age of the oldest
with aged as (
    select
        trace_summaries.workload,
        epoch(coalesce($as_of::timestamptz, current_clock.as_of) - trace_summaries.ended_at) / 3600 as age_hours,
    from trace_summaries
    cross join current_clock
)
select
    workload,
    count(*) as num_traces,
    median(age_hours) as median_age_hours,
    quantile_cont(age_hours, 0.9) as p90_age_hours,
    max(age_hours) as max_age_hours,
from aged
group by workload
order by median_age_hours desc, workload
