-- Which trace is each score event about?
-- Grain: one row per outcome.
-- Columns:
--   *            the columns of outcomes; trace_id is that of the lake where one was found, what the event states
--                where its trace has not been seen, and null where it states none or leads to several
--   key_kind     how it was found: exact, trace, call, response, session or ask; null where it was not
--   key          the key that it was found by; null where it was not
--   num_traces   traces of that key: 1 is a join, more are none, 0 waits for its trace
with traces_by_key as (
    select
        kind,
        key,
        count(distinct trace_id) as num_traces,
        any_value(trace_id) as found_trace_id,
    from key_spellings
    where trace_id is not null
    group by kind, key
),
candidates as (
    select
        spelled.outcome_id,
        spelled.kind,
        spelled.key,
        found.num_traces,
        found.found_trace_id,
        -- A key of one trace before one of several, then the most precise.
        row_number() over (partition by spelled.outcome_id order by found.num_traces > 1, spelled.rank) as place,
    from key_spellings as spelled
    inner join traces_by_key as found using (kind, key)
    where spelled.outcome_id is not null
)
select
    outcomes.* replace (
        case
            when candidates.num_traces = 1 then candidates.found_trace_id
            when candidates.num_traces is null then outcomes.trace_id
        end as trace_id
    ),
    candidates.kind as key_kind,
    candidates.key as key,
    coalesce(candidates.num_traces, 0) as num_traces,
from outcomes
left join candidates on candidates.outcome_id = outcomes.outcome_id and candidates.place = 1
