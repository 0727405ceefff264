-- At which stage did the judged traces leave?
-- Grain: one row per stage and verdict.
-- Tables:
--   judged (stage, verdict)   report/judged
-- Columns:
--   stage        code of the stage
--   verdict      admitted, quarantined or pending
--   num_traces   traces
select
    stage,
    verdict,
    count(*) as num_traces,
from judged
group by stage, verdict
order by stage, verdict
