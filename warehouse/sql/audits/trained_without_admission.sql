-- Which traces trained a policy though their run did not admit them?
-- Grain: one row per run and trace.
-- Columns:
--   run_id     the run
--   trace_id   the trace
--   verdict    its verdict in that run; null where it was not judged
select distinct
    replays.run_id,
    replays.trace_id,
    verdicts.verdict,
from replays
left join verdicts using (run_id, trace_id)
where verdicts.verdict is distinct from 'admitted'
order by replays.run_id, replays.trace_id
