-- Which runs speak for the last nights?
-- Grain: one row per night: of its runs of the same kind with findings, the one started last; this run for its own night.
-- Parameters:
--   $run_id varchar          this run; runs that started after it are not looked at
--   $num_nights bigint = 14  nights, this one included
-- Columns:
--   night        YYYY-MM-DD
--   run_id       the run that speaks for it
--   is_tonight   whether it is this run
with this_run as (
    select
        kind,
        night,
        started_at,
    from current_runs
    where run_id = $run_id
),
candidates as (
    select
        current_runs.night,
        current_runs.run_id,
        current_runs.run_id = $run_id as is_tonight,
        current_runs.started_at,
    from current_runs
    cross join this_run
    where
        current_runs.run_id = $run_id
        or (
            current_runs.kind = this_run.kind
            and current_runs.night < this_run.night
            and current_runs.started_at <= this_run.started_at
            and current_runs.run_id in (select findings.run_id from findings)
        )
),
spoken as (
    select
        night,
        run_id,
        is_tonight,
    from candidates
    qualify row_number() over (partition by night order by is_tonight desc, started_at desc, run_id desc) = 1
)
select
    night,
    run_id,
    is_tonight,
from spoken
order by night desc
limit $num_nights
