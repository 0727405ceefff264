-- What did the updates of the run do, in order?
-- Grain: one row per update, or per several in a row when there were more than so many.
-- Parameters:
--   $run_id varchar       the run
--   $num_rows bigint      most rows
-- Columns:
--   first_step, last_step   updates of the row, from 0
--   methods                 the update methods, sorted
--   num_traces              traces read
--   num_in_trust            of those, traces that moved the policy
--   mean_drift              mean over the traces read, nats per action token
--   max_ratio               largest importance ratio
--   masked_share            mean share of action tokens whose coefficient is 0
--   positive_mass           sum of the positive coefficients
--   negative_mass           sum of the negative coefficients, as a negative number
with by_trace as (
    select
        step,
        trace_id,
        any_value(method) as method,
        bool_or(in_trust) as in_trust,
        avg(drift) as drift,
        max(max_ratio) as max_ratio,
        avg(masked_share) as masked_share,
        sum(positive_mass) as positive_mass,
        sum(negative_mass) as negative_mass,
    from replays
    where run_id = $run_id
    group by step, trace_id
),
steps as (
    select
        step,
        (row_number() over (order by step) - 1) * $num_rows // greatest($num_rows, count(*) over ()) as row_index,
    from by_trace
    group by step
)
select
    min(by_trace.step) as first_step,
    max(by_trace.step) as last_step,
    list_sort(list(distinct by_trace.method)) as methods,
    count(*) as num_traces,
    count(*) filter (by_trace.in_trust) as num_in_trust,
    avg(by_trace.drift) as mean_drift,
    max(by_trace.max_ratio) as max_ratio,
    avg(by_trace.masked_share) as masked_share,
    sum(by_trace.positive_mass) as positive_mass,
    sum(by_trace.negative_mass) as negative_mass,
from by_trace
inner join steps using (step)
group by steps.row_index
order by first_step
