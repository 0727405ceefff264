-- Which traces have calls that their current revision does not know?
-- Grain: one row per trace, by time of its first call.
-- Columns:
--   trace_id    the trace
--   num_calls   its calls in the lake
--   num_tokens  their tokens as the server counted them; 0 where it did not
--   since       start of its first call
--   until       start of its last call
with logged as (
    select
        trace_id,
        count(*) as num_calls,
        sum(coalesce(num_prompt_tokens, 0) + coalesce(num_completion_tokens, 0))::bigint as num_tokens,
        min(started_at) as since,
        max(started_at) as until,
    from calls
    group by trace_id
),
assembled as (
    select
        trace_id,
        arg_max(num_calls, trace_revision) as num_calls,
    from traces
    group by trace_id
)
select
    logged.trace_id,
    logged.num_calls,
    logged.num_tokens,
    logged.since,
    logged.until,
from logged
left join assembled using (trace_id)
where logged.num_calls is distinct from assembled.num_calls
order by logged.since, logged.trace_id
