-- What had each source said about each trace by the run's clock?
-- Grain: one row per trace, name, source_kind and source: the event with the latest event_time.
-- Parameters:
--   $as_of timestamptz    the run's clock; events that reached us later are not known yet
-- Tables:
--   events (the columns of outcomes)
--   known_calls (call_id, response_id, trace_id)
-- Columns:
--   trace_id            the trace, found through call_id or response_id where the event names only those; null when
--                       that leads to no trace or to several, and then each event is a row of its own
--   name                what was scored
--   source_kind         human, program, judge, user or webhook
--   source              who scored
--   scorer_version      version of the scorer
--   value               the latest score; null when it was withdrawn
--   event_time          when it was given
--   first_observed_time when the first score of this source reached us
--   num_events          scores of this source, revisions included
--   is_conflict         whether another event of the same time gave another value
with calls_by_id as (
    select
        call_id,
        any_value(trace_id) as found_trace_id,
    from known_calls
    group by call_id
    having count(distinct trace_id) = 1
),
calls_by_response as (
    select
        response_id,
        any_value(trace_id) as found_trace_id,
    from known_calls
    where response_id is not null
    group by response_id
    having count(distinct trace_id) = 1
),
known_events as (
    select
        *,
        -- Keys of their own, so that each join is on one equality: with a second condition it compares all pairs.
        case when trace_id is null then call_id end as wanted_call_id,
        case when trace_id is null then response_id end as wanted_response_id,
    from events
    where observed_time <= $as_of
),
joined as (
    select events.* exclude (wanted_call_id, wanted_response_id) replace (
        coalesce(events.trace_id, calls_by_id.found_trace_id, calls_by_response.found_trace_id) as trace_id
    )
    from known_events as events
    left join calls_by_id on calls_by_id.call_id = events.wanted_call_id
    left join calls_by_response on calls_by_response.response_id = events.wanted_response_id
),
keyed as (
    select
        *,
        case when trace_id is null then outcome_id end as lone_event,
    from joined
),
timed as (
    select
        *,
        max(event_time) over (partition by trace_id, lone_event, name, source_kind, source) as latest_time,
    from keyed
)
select
    trace_id,
    name,
    source_kind,
    source,
    arg_max_null(scorer_version, (event_time, observed_time, outcome_id)) as scorer_version,
    arg_max_null(value, (event_time, observed_time, outcome_id)) as value,
    max(event_time) as event_time,
    min(observed_time) as first_observed_time,
    count(*) as num_events,
    count(distinct value) filter (event_time = latest_time)
        + coalesce(max((value is null)::integer) filter (event_time = latest_time), 0) > 1 as is_conflict,
from timed
group by trace_id, lone_event, name, source_kind, source
order by trace_id, name, source_kind, source, lone_event
