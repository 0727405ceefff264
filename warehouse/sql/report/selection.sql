-- Whom does the trust gate drop, of the usable traces that were scored under the current policy?
-- Grain: one row per dimension and class of traces.
-- Parameters:
--   $trust double    highest drift that the gate admits, nats
--   $middle double   where the range of rewards is cut in two
-- Tables:
--   judged (trace_id, drift, is_usable, num_action_tokens, reward, workload_label)   report/judged
-- Columns:
--   dimension             length, reward or workload
--   label                 the class
--   num_kept              traces within the trust
--   num_dropped           traces outside it
--   mean_reward_kept      mean reward of the kept ones that have one
--   mean_reward_dropped   mean reward of the dropped ones that have one
with scored as (
    select
        drift <= $trust as is_kept,
        ntile(3) over (order by num_action_tokens, trace_id) as third,
        reward,
        workload_label,
    from judged
    where
        drift is not null
        and is_usable
),
classed as (
    select
        is_kept,
        reward,
        unnest([
            {'position': 1, 'dimension': 'length', 'label': ['short third', 'middle third', 'long third'][third], 'rank': third},
            {
                'position': 2,
                'dimension': 'reward',
                'label': case
                    when reward is null then 'no reward'
                    when reward > $middle then 'high reward'
                    else 'low reward'
                end,
                'rank': case when reward is null then 3 when reward > $middle then 1 else 2 end
            },
            {'position': 3, 'dimension': 'workload', 'label': workload_label, 'rank': 0}
        ], recursive := true),
    from scored
)
select
    dimension,
    label,
    count(*) filter (is_kept) as num_kept,
    count(*) filter (not is_kept) as num_dropped,
    avg(reward) filter (is_kept) as mean_reward_kept,
    avg(reward) filter (not is_kept) as mean_reward_dropped,
from classed
group by position, dimension, label, rank
order by position, rank, label
