-- Who scored what, day by day: did a source, its version or its mean change last night?
-- Grain: one row per day of the event (UTC), name, source_kind, source and scorer_version.
-- Columns:
--   day              day of the events
--   name             what was scored
--   source_kind      human, program, judge, user or webhook
--   source           who scored
--   scorer_version   version of the scorer
--   num_traces       traces with a score
--   share            share of the day's scores of that name
--   mean_value       mean score
with scored as (
    select
        event_time::date as day,
        name,
        source_kind,
        source,
        scorer_version,
        value,
    from current_outcomes
    where value is not null
)
select
    day,
    name,
    source_kind,
    source,
    scorer_version,
    count(*) as num_traces,
    count(*) / sum(count(*)) over (partition by day, name) as share,
    avg(value) as mean_value,
from scored
group by day, name, source_kind, source, scorer_version
order by day desc, name, source_kind, source, scorer_version
