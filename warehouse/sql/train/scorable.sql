-- Which traces can be scored, and which of them were scored already?
-- Grain: one row per trace at its current revision whose log-probabilities are exact.
-- Parameters:
--   $policy_version varchar       the current policy
--   $disqualifying varchar[]      faults with which a trace cannot be scored
--   $vocabulary_size bigint       token ids that the model knows: 0 to this, exclusive; null when it does not say
--   $num_positions bigint         positions that the model knows; null when it does not say
-- Columns:
--   trace_id             the trace
--   trace_revision       its current revision
--   behavior_version     the policy version that wrote it; null when unknown or when several did
--   num_action_tokens    tokens that will be scored
--   is_scored            whether all of it was scored under the current policy
--   is_scored_by_own     whether all of it was scored under the version that wrote it
--   misfit               why the model cannot read it: foreign token ids, or long; null when it can
--   newest_rank          1 for the trace that ended last
--   canary_rank          1 for the first trace of its version in an order that no trace can choose; misfits come last
with complete as (
    select
        trace_id,
        trace_revision,
        bool_or(policy_version = $policy_version) as is_scored,
        bool_or(policy_version = behavior_version) as is_scored_by_own,
    from trace_drift
    where is_complete
    group by trace_id, trace_revision
),

-- What a policy has scored, the model can read: only the tokens of the others are looked at.
extents as (
    select
        trace_id,
        trace_revision,
        max(list_max(token_ids)) as largest_id,
        max(len(token_ids)) as num_positions,
    from current_traces
    anti join complete using (trace_id, trace_revision)
    where num_action_tokens > 0
    group by trace_id, trace_revision
),

misfits as (
    select
        trace_id,
        trace_revision,
        if(largest_id >= $vocabulary_size::bigint, 'foreign', 'long') as misfit,
    from extents
    where largest_id >= $vocabulary_size::bigint
        or num_positions > $num_positions::bigint
)

select
    trace_summaries.trace_id,
    trace_summaries.trace_revision,
    trace_summaries.behavior_version,
    trace_summaries.num_action_tokens,
    coalesce(complete.is_scored, false) as is_scored,
    coalesce(complete.is_scored_by_own, false) as is_scored_by_own,
    misfits.misfit,
    row_number() over (order by trace_summaries.ended_at desc, trace_summaries.trace_id) as newest_rank,
    row_number() over (
        partition by trace_summaries.behavior_version
        order by misfits.misfit is not null, sha256(trace_summaries.trace_id), trace_summaries.trace_id
    ) as canary_rank,
from trace_summaries
left join complete using (trace_id, trace_revision)
left join misfits using (trace_id, trace_revision)
where trace_summaries.logprob_exact
    and trace_summaries.temperature > 0
    and (trace_summaries.logprob_kind <> 'raw' or trace_summaries.temperature = 1)
    and trace_summaries.num_action_tokens > 0
    and not list_has_any(trace_summaries.faults, $disqualifying)
order by newest_rank
