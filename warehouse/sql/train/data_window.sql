-- Which traces trained this version: who wrote them, when, and how far the policy was from them?
-- Grain: one row per behavior version.
-- Parameters:
--   $run_id varchar        the run
--   $num_updates bigint    updates that count, from the first
-- Columns:
--   behavior_version   the version that wrote the traces; unknown where the log does not say
--   num_traces         traces read by an update
--   num_in_trust       of those, traces that moved the policy in one update at least
--   first_started_at   start of the oldest of them, UTC
--   last_ended_at      end of the newest of them, UTC
--   mean_reward        mean reward
--   mean_drift         mean drift when they were read, nats per action token
with by_trace as (
    select
        trace_id,
        min(trace_revision) as trace_revision,
        bool_or(in_trust) as in_trust,
        avg(reward) as reward,
        avg(drift) as drift,
    from replays
    where run_id = $run_id
        and step < $num_updates
    group by trace_id
),
written as (
    select
        trace_id,
        trace_revision,
        max(policy_version_max) as behavior_version,
        min(started_at) as started_at,
        max(ended_at) as ended_at,
    from traces
    group by trace_id, trace_revision
)
select
    coalesce(written.behavior_version, 'unknown') as behavior_version,
    count(*) as num_traces,
    count(*) filter (by_trace.in_trust) as num_in_trust,
    min(written.started_at) as first_started_at,
    max(written.ended_at) as last_ended_at,
    avg(by_trace.reward) as mean_reward,
    avg(by_trace.drift) as mean_drift,
from by_trace
left join written using (trace_id, trace_revision)
group by coalesce(written.behavior_version, 'unknown')
order by behavior_version
