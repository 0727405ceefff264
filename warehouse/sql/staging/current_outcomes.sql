-- What is the latest word of each source about each trace?
-- Grain: one row per trace, name, source_kind and source: the event with the latest event_time.
-- Columns:
--   *             the columns of outcomes; trace_id is found as joined_outcomes says, and an event that leads to no
--                 trace or to several is left out
--   is_conflict   whether another event of the same time gave another value; events without a time of their own are of
--                 one time, that at which the last of them was read
with joined as (
    select * exclude (key_kind, key, num_traces) replace (
        case
            when outcome_id like '%.untimed' then max(event_time) over (
                partition by trace_id, name, source_kind, source, outcome_id like '%.untimed'
            )
            else event_time
        end as event_time
    )
    from joined_outcomes
    where trace_id is not null
),
latest as (
    select
        trace_id,
        name,
        source_kind,
        source,
        max(event_time) as event_time,
    from joined
    group by trace_id, name, source_kind, source
),
last_events as (
    select joined.*
    from joined
    inner join latest using (trace_id, name, source_kind, source, event_time)
),
chosen as (
    select
        trace_id,
        name,
        source_kind,
        source,
        max_by(outcome_id, (observed_time, outcome_id)) as outcome_id,
        min(value) <> max(value) or count(value) not in (0, count(*)) as is_conflict,
    from last_events
    group by trace_id, name, source_kind, source
)
select
    last_events.*,
    coalesce(chosen.is_conflict, false) as is_conflict,
from last_events
inner join chosen using (trace_id, name, source_kind, source, outcome_id)
