-- What did the run find?
-- Grain: one row per finding of the run.
-- Parameters:
--   $run_id varchar   the run
-- Columns:
--   section, name, subject, value, lower, upper, num_observations, threshold, comparison, severity, status, unit,
--   sentence, fix   as in findings
select
    section,
    name,
    subject,
    "value",
    lower,
    upper,
    num_observations,
    threshold,
    comparison,
    severity,
    status,
    unit,
    sentence,
    fix,
from findings
where run_id = $run_id
order by section, name, subject
