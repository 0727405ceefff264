-- What was last decided about each trace?
-- Grain: one row per trace: the verdict with the latest clock; of two runs with one clock, the one started later.
-- Columns:
--   *   the columns of verdicts
with started as (
    select
        run_id,
        started_at,
    from current_runs
)
select verdicts.*
from verdicts
left join started using (run_id)
qualify row_number() over (
    partition by verdicts.trace_id
    order by verdicts.decided_at desc, started.started_at desc nulls last, verdicts.run_id desc
) = 1
