-- Which is the highest revision of each of these traces, what does it know, and where was it split to?
-- Grain: one row per wanted trace that has been put together before.
-- Tables:
--   wanted (trace_id)
-- Columns:
--   trace_id        the trace
--   trace_revision  its highest revision
--   num_calls       calls that it knows
--   meaning_sha256  settings that it was made under; null in rows of older lakes
--   split           train or holdout, which later revisions keep
select
    traces.trace_id,
    max(traces.trace_revision) as trace_revision,
    arg_max(traces.num_calls, traces.trace_revision) as num_calls,
    arg_max(traces.meaning_sha256, traces.trace_revision) as meaning_sha256,
    arg_max(traces.split, traces.trace_revision) as split,
from traces
semi join wanted on wanted.trace_id = traces.trace_id
group by traces.trace_id
