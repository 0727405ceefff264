-- How far is each trace from each policy that scored it?
-- Grain: one row per trace and policy version, over the sequences of the trace's current revision.
-- Columns:
--   trace_id             the trace
--   trace_revision       its current revision
--   policy_version       the policy that scored it
--   behavior_version     the policy that wrote it
--   num_sequences        sequences that were scored
--   is_complete          whether every sequence with action tokens was scored
--   num_action_tokens    tokens that the means are over
--   mean_bernoulli_kl    drift, nats per token
--   mean_abs_log_ratio   nats per token
--   k1                   mean of minus the log ratio, nats
--   k2                   mean of half the squared log ratio, nats
--   k3                   mean of ratio minus 1 minus log ratio, nats
--   m2                   mean squared log ratio, nats^2
--   max_ratio            largest importance ratio
--   sequence_log_ratio   sum of the log ratios, nats
--   scored_at            when its last sequence was scored
with wanted as (
    select
        trace_id,
        trace_revision,
        count(*) filter (num_action_tokens > 0) as num_wanted,
    from current_traces
    group by trace_id, trace_revision
)
select
    rescored.trace_id,
    rescored.trace_revision,
    rescored.policy_version,
    any_value(rescored.behavior_version) as behavior_version,
    count(*) as num_sequences,
    count(*) filter (rescored.num_action_tokens > 0) = any_value(wanted.num_wanted) as is_complete,
    sum(rescored.num_action_tokens)::bigint as num_action_tokens,
    sum(rescored.mean_bernoulli_kl * rescored.num_action_tokens)
        / nullif(sum(rescored.num_action_tokens), 0) as mean_bernoulli_kl,
    sum(rescored.mean_abs_log_ratio * rescored.num_action_tokens)
        / nullif(sum(rescored.num_action_tokens), 0) as mean_abs_log_ratio,
    sum(rescored.k1 * rescored.num_action_tokens) / nullif(sum(rescored.num_action_tokens), 0) as k1,
    sum(rescored.k2 * rescored.num_action_tokens) / nullif(sum(rescored.num_action_tokens), 0) as k2,
    sum(rescored.k3 * rescored.num_action_tokens) / nullif(sum(rescored.num_action_tokens), 0) as k3,
    sum(rescored.m2 * rescored.num_action_tokens) / nullif(sum(rescored.num_action_tokens), 0) as m2,
    max(rescored.max_ratio) as max_ratio,
    sum(rescored.sequence_log_ratio) as sequence_log_ratio,
    max(rescored.scored_at) as scored_at,
from rescored
inner join wanted using (trace_id, trace_revision)
group by rescored.trace_id, rescored.trace_revision, rescored.policy_version
