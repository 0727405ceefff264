-- What did each scorer say?
-- Grain: one row per name, source_kind, source and scorer_version; those with most traces first.
-- Tables:
--   said (trace_id, name, source_kind, source, scorer_version, value, num_events)   validate/outcomes_as_of
--   judged (trace_id)   report/judged
-- Columns:
--   name, source_kind, source, scorer_version   what was scored, and by whom
--   num_outcomes         events, superseded ones included
--   num_traces           judged traces that have its score
--   num_orphans          traces that it scored and that are not among the judged ones
--   mean                 mean score over its judged traces
--   standard_deviation   of the same
with placed as (
    select
        said.*,
        judged.trace_id is not null as is_judged,
    from said
    left join judged on judged.trace_id = said.trace_id
)
select
    name,
    source_kind,
    source,
    coalesce(scorer_version, '') as scorer_version,
    sum(num_events)::bigint as num_outcomes,
    count(*) filter (is_judged and "value" is not null) as num_traces,
    count(*) filter (not is_judged) as num_orphans,
    avg("value") filter (is_judged) as mean,
    stddev_pop("value") filter (is_judged) as standard_deviation,
from placed
group by name, source_kind, source, coalesce(scorer_version, '')
order by num_traces desc, num_outcomes desc, name, source_kind, source, scorer_version
