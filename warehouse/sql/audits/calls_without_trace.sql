-- Which calls belong to no trace, though their trace has been put together or calls that came later have?
-- Grain: one row per call.
-- Columns:
--   call_id       the call
--   trace_id      the trace that it names
--   ingested_at   when it landed
with assembled as (
    select
        max(ingested_at) as last_assembled_at,
    from traces
)
select
    calls.call_id,
    calls.trace_id,
    calls.ingested_at,
from calls
cross join assembled
anti join traces using (trace_id)
where calls.ingested_at < assembled.last_assembled_at
order by calls.ingested_at, calls.call_id
