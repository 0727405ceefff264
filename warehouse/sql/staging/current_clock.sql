-- From which time are ages measured?
-- Grain: one row.
-- Columns:
--   as_of   clock of the run that was started last, UTC; the present where there is no run
select
    coalesce(max_by(as_of, started_at), now()) as as_of,
from current_runs
