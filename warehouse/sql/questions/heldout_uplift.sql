-- By how much would each policy have earned more on the held-out traces than the policy that wrote them?
-- Grain: one row per policy version and behavior version.
-- Parameters:
--   $min_ess_share double = 0.1   below this share of effective traces the estimate is not given
-- Columns:
--   policy_version     the policy that is judged
--   behavior_version   the policy that wrote the traces
--   num_traces         held-out traces with a reward in their latest verdict, whatever the trust gate thinks of them;
--                      never one that was trained on
--   mean_reward        their mean reward
--   ess_share          effective sample size of the whole-trace importance weights over the number of traces
--   uplift             mean of (weight - 1) times (reward - mean reward); null below the least share
--   half_width         half of its 95% interval
with weighted as (
    select
        trace_drift.policy_version,
        trace_drift.behavior_version,
        latest_verdicts.reward,
        exp(greatest(-20, least(20, trace_drift.sequence_log_ratio))) as trace_weight,
        avg(latest_verdicts.reward) over (
            partition by trace_drift.policy_version, trace_drift.behavior_version
        ) as mean_reward,
    from trace_drift
    inner join trace_summaries using (trace_id)
    inner join latest_verdicts using (trace_id)
    anti join replays using (trace_id)
    where trace_summaries.split = 'holdout'
        and latest_verdicts.reward is not null
        and trace_drift.is_complete
        and trace_drift.num_action_tokens > 0
        and trace_drift.policy_version is distinct from trace_drift.behavior_version
),
estimated as (
    select
        policy_version,
        behavior_version,
        count(*) as num_traces,
        any_value(mean_reward) as mean_reward,
        pow(sum(trace_weight), 2) / sum(trace_weight * trace_weight) / count(*) as ess_share,
        avg((trace_weight - 1) * (reward - mean_reward)) as uplift,
        1.96 * stddev_samp((trace_weight - 1) * (reward - mean_reward)) / sqrt(count(*)) as half_width,
    from weighted
    group by policy_version, behavior_version
)
select
    policy_version,
    behavior_version,
    num_traces,
    mean_reward,
    ess_share,
    case when ess_share >= $min_ess_share then uplift end as uplift,
    case when ess_share >= $min_ess_share then half_width end as half_width,
from estimated
order by policy_version, behavior_version
