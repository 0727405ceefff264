-- By which names are traces known, and by which do score events name what they score?
-- Grain: one row per kind of key, key and trace, and one per key of each outcome.
-- Columns:
--   kind         exact (the trace id as it is written), trace, call, response, session or ask
--   rank         0 to 5 in that order: an outcome goes by the first that leads to one trace
--   key          the name in one spelling: ids of 8 or 16 bytes as lower-case hex, whether they were written in upper
--                case, as a UUID with dashes, behind "tr-" or "0x" or in base64; any other name as it is
--   trace_id     the trace that is known by it; null for the key of an outcome
--   outcome_id   the outcome that names it; null for the name of a trace
with known as (
    select distinct
        trace_id,
        session_id,
        ask_id,
    from current_traces
),
unplaced as (
    -- A session or an ask may have many traces, so an outcome that names something more precise never goes by them.
    select
        *,
        trace_id is null and call_id is null and response_id is null as is_loose,
    from outcomes
),
stated as (
    select 'exact' as kind, 0 as rank, trace_id as key, trace_id, null as outcome_id from known
    union all
    select 'trace', 1, trace_id, trace_id, null from known
    union all
    select 'call', 2, call_id, trace_id, null from calls
    union all
    select 'call', 2, span_id, trace_id, null from calls
    union all
    select 'response', 3, response_id, trace_id, null from calls
    union all
    select 'session', 4, session_id, trace_id, null from known
    union all
    select 'ask', 5, ask_id, trace_id, null from known
    union all
    select 'exact', 0, trace_id, null, outcome_id from outcomes
    union all
    select 'trace', 1, trace_id, null, outcome_id from outcomes
    union all
    select 'call', 2, call_id, null, outcome_id from outcomes
    union all
    select 'response', 3, response_id, null, outcome_id from outcomes
    union all
    select 'session', 4, session_id, null, outcome_id from unplaced where is_loose
    union all
    select 'ask', 5, business_key, null, outcome_id from unplaced where is_loose
)
select distinct
    kind,
    rank,
    case
        when kind = 'exact' then key
        when length(key) in (16, 32) and regexp_full_match(key, '[0-9a-fA-F]+') then lower(key)
        when length(key) in (18, 34) and regexp_full_match(key, '0x[0-9a-fA-F]+') then lower(substr(key, 3))
        when length(key) = 35 and regexp_full_match(key, 'tr-[0-9a-fA-F]{32}') then lower(right(key, 32))
        when length(key) = 36 and regexp_full_match(key, '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}')
            then lower(replace(key, '-', ''))
        when length(key) = 24 and regexp_full_match(key, '[A-Za-z0-9+/]{22}==') then lower(hex(from_base64(key)))
        when length(key) = 12 and regexp_full_match(key, '[A-Za-z0-9+/]{11}=') then lower(hex(from_base64(key)))
        else key
    end as key,
    trace_id,
    outcome_id,
from stated
where key is not null
