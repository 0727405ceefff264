-- On what did a whole re-export have the last word, and says something else now, or nothing?
-- Grain: one row per keys of an outcome as they were stated, name, source_kind and source.
-- Parameters:
--   $uri varchar   the file
-- Tables:
--   held (item_id)   the outcomes that the file holds now; all of them are in the log
-- Columns:
--   trace_id, call_id, response_id, session_id, business_key   the keys
--   name, source_kind, source   what was scored, and by whom
--   event_id, scorer_version, label   of the latest event that is left, or of the one that is gone; no label of that
--   value                       what the file says now; null when it says nothing
with marked as (
    select
        outcomes.*,
        held.item_id is not null as is_held,
        (outcomes.event_time, outcomes.observed_time, outcomes.outcome_id) as place,
    from outcomes
    left join held on held.item_id = outcomes.outcome_id
),
words as (
    select
        trace_id,
        call_id,
        response_id,
        session_id,
        business_key,
        name,
        source_kind,
        source,
        arg_max(uri, place) as last_uri,
        arg_max(is_held, place) as is_last_held,
        arg_max_null(value, place) as last_value,
        arg_max_null(event_id, place) as last_event_id,
        arg_max_null(scorer_version, place) as last_scorer_version,
        bool_or(is_held) as is_any_held,
        arg_max_null(value, place) filter (is_held) as held_value,
        arg_max_null(event_id, place) filter (is_held) as held_event_id,
        arg_max_null(scorer_version, place) filter (is_held) as held_scorer_version,
        arg_max_null(label, place) filter (is_held) as held_label,
    from marked
    group by trace_id, call_id, response_id, session_id, business_key, name, source_kind, source
)
select
    trace_id,
    call_id,
    response_id,
    session_id,
    business_key,
    name,
    source_kind,
    source,
    case when is_any_held then held_event_id else last_event_id end as event_id,
    case when is_any_held then held_scorer_version else last_scorer_version end as scorer_version,
    held_label as label,
    held_value as value,
from words
where last_uri = $uri
    and not is_last_held
    and held_value is distinct from last_value
order by all
