-- Which of these updates of sequences does the lake not hold yet?
-- Grain: one row per row that was handed over.
-- Tables:
--   incoming (run_id, step, trace_id, sequence_index)   the columns of replays
-- Columns:
--   *   the columns of incoming
select incoming.*
from incoming
anti join replays using (run_id, step, trace_id, sequence_index)
