-- How many traces did the updates of the run read?
-- Grain: one row.
-- Parameters:
--   $run_id varchar   the run
-- Tables:
--   judged (trace_id, is_admitted)   report/judged
-- Columns:
--   num_replayed   traces that an update read
--   num_trained    of those, traces that the run had admitted
with replayed as (
    select distinct trace_id
    from replays
    where run_id = $run_id
)
select
    count(*) as num_replayed,
    count(*) filter (judged.is_admitted) as num_trained,
from replayed
left join judged using (trace_id)
