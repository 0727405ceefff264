-- Which scores have arrived, which are still on the way, and which never came? Pending is not 0.
-- Grain: one row per day on which the trace ended (UTC), outcome name and kind of source.
-- Parameters:
--   $maturity_hours double = 36   hours after the end of a trace within which its score may still come or be revised
--   $as_of timestamptz = null     clock; null takes that of the latest run, else the present
-- Columns:
--   day              day of the traces
--   name             what was scored
--   source_kind      human, program, judge, user or webhook
--   num_traces       traces of that day
--   num_arrived      traces with a score
--   num_pending      without a score, maturity window open
--   num_never_came   without a score, maturity window over
--   share_arrived    arrived over all
--   mean_arrived     mean of the scores that arrived, one per trace
--   mean_if_zero     the same with every missing score read as 0: what a careless join would show
with kinds as (
    select distinct
        name,
        source_kind,
    from current_outcomes
),
scores as (
    select
        trace_id,
        name,
        source_kind,
        avg(value) as score,
    from current_outcomes
    group by trace_id, name, source_kind
),
expected as (
    select
        trace_summaries.ended_at::date as day,
        kinds.name,
        kinds.source_kind,
        scores.score,
        epoch(coalesce($as_of::timestamptz, current_clock.as_of) - trace_summaries.ended_at) / 3600
            < $maturity_hours as is_open,
    from trace_summaries
    cross join current_clock
    cross join kinds
    left join scores using (trace_id, name, source_kind)
)
select
    day,
    name,
    source_kind,
    count(*) as num_traces,
    count(score) as num_arrived,
    count(*) filter (score is null and is_open) as num_pending,
    count(*) filter (score is null and not is_open) as num_never_came,
    count(score) / count(*) as share_arrived,
    avg(score) as mean_arrived,
    sum(coalesce(score, 0)) / count(*) as mean_if_zero,
from expected
group by day, name, source_kind
order by day desc, name, source_kind
