-- How many calls, of how many lines and traces, does the lake hold?
-- Grain: one row.
-- Parameters:
--   $snapshot bigint   snapshot of the lake
-- Tables:
--   summaries (trace_id)   trace_summaries: traces that are put together
--   judged (trace_id)      report/judged: traces that the run judged
-- Columns:
--   num_calls           calls
--   num_lines           log lines that they were read from
--   num_traces          traces that they belong to, or that are put together
--   num_not_assembled   of those, traces that are not put together
--   num_not_judged      of those, traces that are put together and that the run did not judge
--   num_judged          of those, traces that the run judged
--   num_erasures        erasure requests that had been applied
with lines as (
    select
        count(*) as num_calls,
        count(distinct (uri, byte_offset)) as num_lines,
    from calls at (version => $snapshot)
),
known as (
    select trace_id
    from calls at (version => $snapshot)
    union
    select trace_id
    from summaries
    union
    select trace_id
    from judged
),
placed as (
    select
        known.trace_id,
        judged.trace_id is not null as is_judged,
        summaries.trace_id is not null as is_assembled,
    from known
    left join judged using (trace_id)
    left join summaries using (trace_id)
),
counted as (
    select
        count(*) as num_traces,
        count(*) filter (not is_judged and not is_assembled) as num_not_assembled,
        count(*) filter (not is_judged and is_assembled) as num_not_judged,
        count(*) filter (is_judged) as num_judged,
    from placed
),
erased as (
    select count(*) as num_erasures
    from erasures at (version => $snapshot)
)
select
    lines.num_calls,
    lines.num_lines,
    counted.num_traces,
    counted.num_not_assembled,
    counted.num_not_judged,
    counted.num_judged,
    erased.num_erasures,
from lines
cross join counted
cross join erased
