-- Which of these scores does the lake not hold yet?
-- Grain: one row per score that was handed over.
-- Tables:
--   incoming (trace_id, trace_revision, sequence_index, policy_version)   the columns of rescored
-- Columns:
--   *   the columns of incoming
select incoming.*
from incoming
anti join rescored using (trace_id, trace_revision, sequence_index, policy_version)
