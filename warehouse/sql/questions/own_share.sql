-- How much of each trace did the model itself write?
-- Grain: one row per workload.
-- Columns:
--   workload            kind of traffic
--   num_sequences       training sequences
--   num_tokens          tokens of all sequences
--   num_action_tokens   tokens that may be trained on
--   mean_own_share      mean over sequences of action tokens over tokens
--   num_no_action       sequences without an action token
select
    workload,
    count(*) as num_sequences,
    sum(len(token_ids))::bigint as num_tokens,
    sum(num_action_tokens)::bigint as num_action_tokens,
    avg(num_action_tokens / nullif(len(token_ids), 0)) as mean_own_share,
    count(*) filter (num_action_tokens = 0) as num_no_action,
from current_traces
group by workload
order by workload
