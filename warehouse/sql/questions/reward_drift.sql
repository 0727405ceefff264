-- Did the mean score of a source move between the nights before and now?
-- Grain: one row per name, source_kind and source.
-- Parameters:
--   $since timestamptz = null   traces that ended from here on are "now"; null takes 24 hours before the clock
-- Columns:
--   name          what was scored
--   source_kind   human, program, judge, user or webhook
--   source        who scored
--   num_before    scored traces before
--   mean_before   their mean score
--   num_now       scored traces now
--   mean_now      their mean score
--   z             difference over its standard error; null where a side has fewer than two or nothing varies
with sides as (
    select
        current_outcomes.name,
        current_outcomes.source_kind,
        current_outcomes.source,
        current_outcomes.value,
        trace_summaries.ended_at >= coalesce(
            $since::timestamptz, current_clock.as_of - interval 24 hours
        ) as is_now,
    from current_outcomes
    inner join trace_summaries using (trace_id)
    cross join current_clock
    where current_outcomes.value is not null
),
measured as (
    select
        name,
        source_kind,
        source,
        count(*) filter (not is_now) as num_before,
        avg(value) filter (not is_now) as mean_before,
        var_samp(value) filter (not is_now) as variance_before,
        count(*) filter (is_now) as num_now,
        avg(value) filter (is_now) as mean_now,
        var_samp(value) filter (is_now) as variance_now,
    from sides
    group by name, source_kind, source
)
select
    name,
    source_kind,
    source,
    num_before,
    mean_before,
    num_now,
    mean_now,
    (mean_now - mean_before)
        / nullif(sqrt(variance_before / nullif(num_before, 0) + variance_now / nullif(num_now, 0)), 0) as z,
from measured
order by abs(z) desc nulls last, name, source_kind, source
