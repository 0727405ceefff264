-- In which state is each run?
-- Grain: one row per run, its highest revision.
-- Columns:
--   *   the columns of runs
with latest as (
    select
        run_id,
        max(revision) as revision,
    from runs
    group by run_id
)
select runs.*
from runs
inner join latest using (run_id, revision)
