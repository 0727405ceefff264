-- What is the latest word of each source about each trace?
-- Grain: one row per trace, name, source_kind and source: the event with the latest event_time.
-- Columns:
--   *             the columns of outcomes; trace_id is found through call_id or response_id where the event names
--                 only those, and an event that leads to no trace or to several is left out
--   is_conflict   whether another event of the same time gave another value
with calls_by_id as (
    select
        call_id,
        any_value(trace_id) as found_trace_id,
    from calls
    group by call_id
    having count(distinct trace_id) = 1
),
calls_by_response as (
    select
        response_id,
        any_value(trace_id) as found_trace_id,
    from calls
    where response_id is not null
    group by response_id
    having count(distinct trace_id) = 1
),
keyed as (
    select
        *,
        -- Keys of their own, so that each join is on one equality: with a second condition it compares all pairs.
        case when trace_id is null then call_id end as wanted_call_id,
        case when trace_id is null then response_id end as wanted_response_id,
    from outcomes
),
joined as (
    select keyed.* exclude (wanted_call_id, wanted_response_id) replace (
        coalesce(keyed.trace_id, calls_by_id.found_trace_id, calls_by_response.found_trace_id) as trace_id
    )
    from keyed
    left join calls_by_id on calls_by_id.call_id = keyed.wanted_call_id
    left join calls_by_response on calls_by_response.response_id = keyed.wanted_response_id
),
latest as (
    select
        trace_id,
        name,
        source_kind,
        source,
        max(event_time) as event_time,
    from joined
    where trace_id is not null
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
