-- What is known of each trace without looking at its tokens?
-- Grain: one row per trace, its current revision, all sequences together.
-- Columns:
--   trace_id             the trace
--   trace_revision       its current revision
--   num_sequences        training sequences
--   num_calls            logged calls
--   num_action_tokens    tokens that the behavior policy sampled and that may be trained on
--   ask_id               what was asked
--   session_id           conversation or user session
--   user_hash            salted hash of the user
--   workload             kind of traffic
--   deployment           deployment named by the log
--   engine               serving engine
--   behavior_version     the policy version that wrote it; null when unknown or when several did
--   policy_version_min   first policy version of its tokens
--   policy_version_max   last policy version of its tokens
--   logprob_kind         raw, temperature, processed or unknown; null when its sequences differ
--   logprob_exact        whether the numbers are exactly the sampler's distribution, in every sequence
--   temperature          null when unknown or mixed
--   top_p                nucleus bound, the lowest
--   finish_reason        how its last sequence ended
--   truncated            whether a sequence ended by length or abort
--   faults               reason codes found while it was put together
--   split                train or holdout
--   started_at           start of the first call
--   ended_at             last known time
select
    trace_id,
    trace_revision,
    any_value(num_sequences) as num_sequences,
    any_value(num_calls) as num_calls,
    sum(num_action_tokens)::bigint as num_action_tokens,
    any_value(ask_id) as ask_id,
    any_value(session_id) as session_id,
    any_value(user_hash) as user_hash,
    any_value(workload) as workload,
    any_value(deployment) as deployment,
    any_value(engine) as engine,
    case
        when bool_and(num_known = num_spans and coalesce(first_version = last_version, false)) filter (where is_used)
            and min(first_version) filter (where is_used) = max(last_version) filter (where is_used)
            then min(first_version) filter (where is_used)
    end as behavior_version,
    min_by(policy_version_min, sequence_index) as policy_version_min,
    max_by(policy_version_max, sequence_index) filter (where is_used) as policy_version_max,
    case
        when min(logprob_kind) filter (where is_used) = max(logprob_kind) filter (where is_used)
            then min(logprob_kind) filter (where is_used)
    end as logprob_kind,
    bool_and(logprob_exact) filter (where is_used) as logprob_exact,
    case
        when count(temperature) = count(*) and min(temperature) = max(temperature) then min(temperature)
    end as temperature,
    min(top_p) as top_p,
    max_by(finish_reason, sequence_index) filter (where is_used) as finish_reason,
    bool_or(truncated) filter (where is_used) as truncated,
    any_value(faults) as faults,
    any_value(split) as split,
    min(started_at) as started_at,
    max(ended_at) as ended_at,
from (
    select
        *,
        branch_kind <> 'abandoned' as is_used,
        len(version_spans) as num_spans,
        list_count(versions) as num_known,
        list_min(versions) as first_version,
        list_max(versions) as last_version,
    from (select *, list_transform(version_spans, lambda span: span.policy_version) as versions from current_traces)
)
group by trace_id, trace_revision
