-- Which traces did the gate of this run admit, at which revision and with which reward?
-- Grain: one row per admitted trace.
-- Parameters:
--   $run_id varchar   the run
-- Columns:
--   trace_id         the trace
--   trace_revision   the revision that was judged
--   reward           its reward
--   ask_id           what it answers; null where the log does not say
select
    verdicts.trace_id,
    verdicts.trace_revision,
    verdicts.reward,
    min(traces.ask_id) as ask_id,
from verdicts
left join traces using (trace_id, trace_revision)
where verdicts.run_id = $run_id
    and verdicts.verdict = 'admitted'
group by verdicts.trace_id, verdicts.trace_revision, verdicts.reward
order by verdicts.trace_id
