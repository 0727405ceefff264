-- Which traces did one reason keep out, or keep waiting, in one run?
-- Grain: one row per trace.
-- Parameters:
--   $run_id varchar   the run
--   $reason varchar   code of the reason that decided
-- Columns:
--   trace_id   the trace
--   reasons    all reasons that apply to it, the deciding one first
select
    trace_id,
    reasons,
from verdicts
where
    run_id = $run_id
    and reasons[1] = $reason
order by trace_id
