-- What did the gate of this run admit, as one policy sees it?
-- Grain: one row per sequence of an admitted trace.
-- Parameters:
--   $run_id varchar           the run whose verdicts count
--   $policy_version varchar   the policy whose log-probabilities are wanted
-- Columns:
--   trace_id           the trace
--   sequence_index     the sequence
--   ask_id             what was asked; null where the log does not say
--   workload           kind of traffic; null where the log does not say
--   reward             reward of the trace
--   policy_lag         updates between the writing and the current policy; null where it is unknown
--   action_mask        one per token
--   behavior_logprobs  nats, one per token, as logged
--   logprobs           nats, one per token, under that policy; null where it has not scored the sequence
select
    verdicts.trace_id,
    traces.sequence_index,
    traces.ask_id,
    traces.workload,
    verdicts.reward,
    verdicts.policy_lag,
    traces.action_mask,
    traces.token_logprobs as behavior_logprobs,
    rescored.logprobs,
from verdicts
inner join traces using (trace_id, trace_revision)
left join rescored
    on rescored.trace_id = traces.trace_id
    and rescored.trace_revision = traces.trace_revision
    and rescored.sequence_index = traces.sequence_index
    and rescored.policy_version = $policy_version
where verdicts.run_id = $run_id
    and verdicts.verdict = 'admitted'
    and traces.num_action_tokens > 0
order by verdicts.trace_id, traces.sequence_index
