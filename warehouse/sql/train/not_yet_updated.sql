-- Which of these updates of a run does the lake not hold yet?
-- Grain: one row per row that was handed over.
-- Tables:
--   incoming (run_id, step)   the columns of updates
-- Columns:
--   *   the columns of incoming
select incoming.*
from incoming
anti join updates using (run_id, step)
