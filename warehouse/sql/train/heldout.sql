-- Which held-out traces of this run could have been trained on otherwise, at which revision and with which reward?
-- Grain: one row per trace.
-- Parameters:
--   $run_id varchar     the run
--   $num_rows bigint    most rows
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
inner join traces using (trace_id, trace_revision)
where verdicts.run_id = $run_id
    and verdicts.stage = 'holdout'
    and verdicts.reward is not null
group by verdicts.trace_id, verdicts.trace_revision, verdicts.reward
having bool_and(coalesce(traces.temperature > 0, false))
order by md5(verdicts.trace_id), verdicts.trace_id
limit $num_rows
