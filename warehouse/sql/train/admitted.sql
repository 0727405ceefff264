-- Which traces did the gate of this run admit, at which revision and with which reward?
-- Grain: one row per admitted trace.
-- Parameters:
--   $run_id varchar   the run
-- Columns:
--   trace_id         the trace
--   trace_revision   the revision that was judged
--   reward           its reward
select
    trace_id,
    trace_revision,
    reward,
from verdicts
where run_id = $run_id
    and verdict = 'admitted'
order by trace_id
