-- Which traces refer to calls that are not there?
-- Grain: one row per trace and call.
-- Columns:
--   trace_id   the trace, at its current revision
--   call_id    the call that is missing from calls, or that belongs to another trace; null where the trace has none
with span_calls as (
    select distinct
        trace_id,
        unnest(list_transform(spans, lambda span: span.call_id)) as call_id,
    from current_traces
)
select
    span_calls.trace_id,
    span_calls.call_id,
from span_calls
anti join calls using (trace_id, call_id)
union all
select distinct
    current_traces.trace_id,
    null,
from current_traces
anti join calls using (trace_id)
order by trace_id, call_id
