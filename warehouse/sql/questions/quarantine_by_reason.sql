-- Why were traces not admitted in this run, against the runs before it?
-- Grain: one row per verdict and reason.
-- Parameters:
--   $run_id varchar = null    the run; null takes the latest with verdicts
--   $num_before bigint = 5    how many runs before it to compare with
-- Columns:
--   verdict           quarantined or pending
--   reason            code from the closed list of reasons
--   num_traces        traces with this reason in this run
--   num_leading       those for which it decided
--   num_runs_before   runs compared with
--   mean_before       mean traces with this reason in those runs; null when there is none
--   times_usual       this run over that mean
with ranked_runs as (
    select
        verdicts.run_id,
        row_number() over (
            order by max(verdicts.decided_at) desc, max(current_runs.started_at) desc nulls last, verdicts.run_id desc
        ) as run_number,
    from verdicts
    left join current_runs using (run_id)
    group by verdicts.run_id
),
chosen as (
    select
        run_id,
        run_number,
    from ranked_runs
    where run_id = coalesce($run_id::varchar, (select run_id from ranked_runs where run_number = 1))
),
compared as (
    select
        ranked_runs.run_id,
        ranked_runs.run_number = chosen.run_number as is_chosen,
    from ranked_runs
    cross join chosen
    where ranked_runs.run_number between chosen.run_number and chosen.run_number + $num_before
),
before as (
    select
        count(*) as num_runs,
    from compared
    where not is_chosen
),
reasons as (
    select
        compared.is_chosen,
        verdicts.verdict,
        unnest(verdicts.reasons) as reason,
        generate_subscripts(verdicts.reasons, 1) = 1 as is_leading,
    from verdicts
    inner join compared using (run_id)
    where verdicts.verdict <> 'admitted'
)
select
    reasons.verdict,
    reasons.reason,
    count(*) filter (reasons.is_chosen) as num_traces,
    count(*) filter (reasons.is_chosen and reasons.is_leading) as num_leading,
    any_value(before.num_runs) as num_runs_before,
    count(*) filter (not reasons.is_chosen) / nullif(any_value(before.num_runs), 0) as mean_before,
    count(*) filter (reasons.is_chosen) * any_value(before.num_runs)
        / nullif(count(*) filter (not reasons.is_chosen), 0) as times_usual,
from reasons
cross join before
group by reasons.verdict, reasons.reason
order by num_leading desc, num_traces desc, reasons.verdict, reasons.reason
