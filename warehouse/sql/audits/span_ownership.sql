-- Which sampled tokens are owned by several sequences of their trace, or by none?
-- Grain: one row per trace revision and call.
-- Columns:
--   trace_id         the trace
--   trace_revision   the revision
--   call_id          the call
--   num_owners       sequences that own it; expected 1
with spans as (
    select
        trace_id,
        trace_revision,
        sequence_index,
        unnest(spans) as span,
    from traces
)
select
    trace_id,
    trace_revision,
    span.call_id as call_id,
    count(distinct sequence_index) filter (span.owned) as num_owners,
from spans
group by trace_id, trace_revision, span.call_id
having count(distinct sequence_index) filter (span.owned) <> 1
order by trace_id, trace_revision, call_id
