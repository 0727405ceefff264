-- Which tokens have the most extreme importance ratios under the current policy?
-- Grain: one row per token, the most extreme first.
-- Parameters:
--   $num_rows bigint = 20   how many tokens
-- Columns:
--   trace_id           the trace
--   sequence_index     the sequence
--   token_position     position in the sequence, from 0
--   token_id           the token
--   behavior_logprob   log-probability under the behavior policy, nats
--   logprob            log-probability under the current policy, nats
--   ratio              current over behavior probability
with pairs as (
    select
        current_traces.trace_id,
        current_traces.sequence_index,
        current_traces.token_ids,
        current_traces.token_logprobs,
        current_traces.action_mask,
        rescored.logprobs,
    from current_traces
    inner join rescored using (trace_id, trace_revision, sequence_index)
    inner join current_policy using (policy_version)
    -- Unnest pads the shorter list with nulls and says nothing, so lists that do not match are kept out first.
    where len(rescored.logprobs) = len(current_traces.token_ids)
        and len(current_traces.token_logprobs) = len(current_traces.token_ids)
        and len(current_traces.action_mask) = len(current_traces.token_ids)
),
tokens as (
    select
        trace_id,
        sequence_index,
        unnest(range(len(token_ids))) as token_position,
        unnest(token_ids) as token_id,
        unnest(token_logprobs) as behavior_logprob,
        unnest(logprobs) as logprob,
        unnest(action_mask) as is_action,
    from pairs
)
select
    trace_id,
    sequence_index,
    token_position,
    token_id,
    behavior_logprob,
    logprob,
    exp(logprob::double - behavior_logprob::double) as ratio,
from tokens
where is_action
order by abs(logprob::double - behavior_logprob::double) desc, trace_id, sequence_index, token_position
limit $num_rows
