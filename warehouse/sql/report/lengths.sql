-- How long are the traces, and how often were replies cut?
-- Grain: one row per version.
-- Tables:
--   judged (version_label, policy_lag, num_sequences, num_action_tokens, truncated, reward)   report/judged
-- Columns:
--   label                       the version
--   num_traces                  traces judged
--   num_without_action_tokens   traces without any token to train on
--   num_forked                  traces of several sequences
--   tokens_p50, tokens_p95      action tokens of a trace, over traces that have any
--   num_truncated               traces whose last reply was cut
--   mean_reward_truncated       mean reward of those that have one
--   mean_reward_whole           mean reward of the others that have one
select
    version_label as label,
    count(*) as num_traces,
    count(*) filter (num_action_tokens = 0) as num_without_action_tokens,
    count(*) filter (num_sequences > 1) as num_forked,
    quantile_cont(num_action_tokens, 0.5) filter (num_action_tokens > 0) as tokens_p50,
    quantile_cont(num_action_tokens, 0.95) filter (num_action_tokens > 0) as tokens_p95,
    count(*) filter (truncated) as num_truncated,
    avg(reward) filter (truncated) as mean_reward_truncated,
    avg(reward) filter (not truncated) as mean_reward_whole,
from judged
group by version_label
order by min(policy_lag) nulls last, label desc
