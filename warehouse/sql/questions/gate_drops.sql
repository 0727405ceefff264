-- Whom does the trust gate drop: long traces, one workload, or the failures?
-- Grain: one row per workload and third of the traces by number of action tokens.
-- Parameters:
--   $trust double = 0.003   highest drift that the gate admits, nats per token
-- Columns:
--   workload            kind of traffic
--   length_third        1 shortest to 3 longest
--   num_traces          traces scored under the current policy
--   max_action_tokens   action tokens of the longest in this third
--   share_dropped       share with a drift over the trust
--   num_rewards         traces with a reward in their latest verdict; the means are over these
--   mean_reward         mean reward of all
--   mean_reward_kept    mean reward of those within the trust
with thirds as (
    select
        trace_id,
        mean_bernoulli_kl,
        num_action_tokens,
        ntile(3) over (order by num_action_tokens, trace_id) as length_third,
    from current_drift
    where num_action_tokens > 0
)
select
    trace_summaries.workload,
    thirds.length_third,
    count(*) as num_traces,
    max(thirds.num_action_tokens) as max_action_tokens,
    avg((thirds.mean_bernoulli_kl > $trust)::integer) as share_dropped,
    count(latest_verdicts.reward) as num_rewards,
    avg(latest_verdicts.reward) as mean_reward,
    avg(latest_verdicts.reward) filter (thirds.mean_bernoulli_kl <= $trust) as mean_reward_kept,
from thirds
inner join trace_summaries using (trace_id)
left join latest_verdicts using (trace_id)
group by trace_summaries.workload, thirds.length_third
order by trace_summaries.workload, thirds.length_third
