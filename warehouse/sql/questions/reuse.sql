-- How often were traces trained on, and did their drift grow in between?
-- Grain: one row per number of updates.
-- Columns:
--   num_updates         optimizer updates that a trace took part in
--   num_traces          traces with that number
--   mean_drift_growth   mean of the last minus the first drift of a trace, nats
with per_update as (
    select
        replays.trace_id,
        replays.run_id,
        replays.step,
        min(replays.replayed_at) as replayed_at,
        any_value(replays.drift) as drift,
    from replays
    group by replays.trace_id, replays.run_id, replays.step
),
per_trace as (
    select
        trace_id,
        count(*) as num_updates,
        max_by(drift, (replayed_at, step)) - min_by(drift, (replayed_at, step)) as drift_growth,
    from per_update
    group by trace_id
)
select
    num_updates,
    count(*) as num_traces,
    avg(drift_growth) as mean_drift_growth,
from per_trace
group by num_updates
order by num_updates
