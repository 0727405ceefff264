-- What had each source said about each trace by the run's clock?
-- Grain: one row per trace, name, source_kind and source: the event with the latest event_time.
-- Parameters:
--   $as_of timestamptz    the run's clock; events that reached us later are not known yet
-- Tables:
--   events (the columns of joined_outcomes)
--   shared (the columns of shared_keys)
-- Columns:
--   trace_id            the trace; null when the events lead to none or to several: each event that leads to none is
--                       a row of its own, and those that go by one shared key are one
--   name                what was scored
--   source_kind         human, program, judge, user or webhook
--   source              who scored
--   scorer_version      version of the scorer
--   value               the latest score; null when it was withdrawn
--   event_time          when it was given
--   first_observed_time when the first score of this source reached us
--   num_events          scores of this source, revisions included; 0 where all of them may be of other traces
--   is_conflict         whether another event of the same time gave another value; events without a time of their own
--                       are of one time, that at which the last of them was read
--   is_ambiguous        whether a score that stands goes by a key that this trace shares with others
with keyed as (
    select
        *,
        case when num_traces > 1 then key_kind end as shared_kind,
        case when num_traces > 1 then key end as shared_key,
        case when trace_id is null and num_traces <= 1 then outcome_id end as lone_event,
    from events
    where observed_time <= $as_of
),
placed as (
    select
        * replace (
            case
                when outcome_id like '%.untimed' then max(event_time) over (
                    partition by
                        trace_id,
                        shared_kind,
                        shared_key,
                        lone_event,
                        name,
                        source_kind,
                        source,
                        outcome_id like '%.untimed'
                )
                else event_time
            end as event_time
        ),
    from keyed
),
timed as (
    select
        *,
        max(event_time) over (
            partition by trace_id, shared_kind, shared_key, lone_event, name, source_kind, source
        ) as latest_time,
    from placed
),
words as (
    select
        trace_id,
        shared_kind,
        shared_key,
        lone_event,
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
    group by trace_id, shared_kind, shared_key, lone_event, name, source_kind, source
),
doubtful as (
    select
        shared.trace_id,
        words.name,
        words.source_kind,
        words.source,
        max(words.event_time) as event_time,
        min(words.first_observed_time) as first_observed_time,
    from words
    inner join shared on shared.kind = words.shared_kind and shared.key = words.shared_key
    where words.value is not null or words.is_conflict
    group by shared.trace_id, words.name, words.source_kind, words.source
),
said as (
    select
        words.* exclude (shared_kind, shared_key),
        words.shared_key is not null or doubtful.trace_id is not null as is_ambiguous,
    from words
    left join doubtful using (trace_id, name, source_kind, source)
    union all by name
    select
        doubtful.*,
        0 as num_events,
        false as is_conflict,
        true as is_ambiguous,
    from doubtful
    anti join words using (trace_id, name, source_kind, source)
)
select
    trace_id,
    name,
    source_kind,
    source,
    scorer_version,
    value,
    event_time,
    first_observed_time,
    num_events,
    is_conflict,
    is_ambiguous,
from said
order by trace_id, name, source_kind, source, lone_event
