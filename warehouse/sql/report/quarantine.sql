-- Why were traces not admitted?
-- Grain: one row per reason that decided about at least one judged trace.
-- Parameters:
--   $num_examples bigint = 3   trace ids to show
-- Tables:
--   judged (trace_id, verdict, stage, reason, reasons)   report/judged
--   nights (run_id, is_tonight)   report/nights
-- Columns:
--   reason       code of the reason that decided
--   stage        stage of the gate at which the traces left
--   is_pending   whether they wait
--   num_traces   traces that left for it
--   num_also     further traces that it holds for
--   usual        mean of num_traces over the nights before; null when there are none
--   examples     the first trace ids
with tonight as (
    select
        reason,
        any_value(stage) as stage,
        bool_and(verdict = 'pending') as is_pending,
        count(*) as num_traces,
        list(trace_id order by trace_id)[1:$num_examples] as examples,
    from judged
    where verdict <> 'admitted'
    group by reason
),
holding as (
    select
        unnest(reasons) as reason,
        reason as deciding_reason,
    from judged
),
also as (
    select
        reason,
        count(*) as num_also,
    from holding
    where reason <> deciding_reason
    group by reason
),
earlier as (
    select
        verdicts.run_id,
        verdicts.reasons[1] as reason,
    from verdicts
    inner join nights using (run_id)
    where not nights.is_tonight
),
num_earlier as (
    select count(distinct run_id) as num_nights
    from earlier
),
before as (
    select
        reason,
        count(*) as num_traces,
    from earlier
    group by reason
)
select
    tonight.reason,
    tonight.stage,
    tonight.is_pending,
    tonight.num_traces,
    coalesce(also.num_also, 0) as num_also,
    coalesce(before.num_traces, 0) / nullif(num_earlier.num_nights, 0) as usual,
    tonight.examples,
from tonight
left join also using (reason)
left join before using (reason)
cross join num_earlier
order by tonight.num_traces desc, tonight.reason
