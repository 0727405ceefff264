-- How long are the traces, by reward?
-- Grain: one row per class of rewards.
-- Parameters:
--   $middle double   where the range of rewards is cut in two
-- Tables:
--   judged (num_action_tokens, reward)   report/judged
-- Columns:
--   is_high      whether the rewards lie above the middle
--   low, high    lowest and highest reward of the class
--   num_traces   traces with action tokens and a reward
--   tokens       action tokens at 0%, 5%, ... 100% of the traces
select
    reward > $middle as is_high,
    min(reward) as low,
    max(reward) as high,
    count(*) as num_traces,
    quantile_cont(
        num_action_tokens,
        [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1]
    ) as tokens,
from judged
where
    reward is not null
    and num_action_tokens > 0
group by is_high
order by is_high desc
