-- Where does each trace stand, and why?
-- Grain: one row per trace.
-- Columns:
--   trace_id             the trace
--   trace_revision       its current revision
--   ask_id               what was asked
--   user_hash            salted hash of the user
--   workload             kind of traffic
--   deployment           deployment named by the log
--   behavior_version     the policy version that wrote it; null when unknown or when several did
--   policy_lag           optimizer updates between that version and the current one; null when not registered
--   num_sequences        training sequences
--   num_calls            logged calls
--   num_action_tokens    tokens that may be trained on
--   logprob_kind         raw, temperature, processed or unknown
--   logprob_exact        whether the numbers are exactly the sampler's distribution
--   temperature          sampling temperature
--   split                train or holdout
--   faults               reason codes found while it was put together
--   started_at           start of the first call
--   ended_at             last known time
--   verdict              admitted, quarantined or pending; null while no gate has judged it
--   reason               the reason that leads the verdict
--   reasons              all its reasons
--   stage                the waterfall stage that decided
--   verdict_run_id       the run that decided
--   decided_at           that run's clock
--   reward               reward by the settings' rule at that time
--   age_hours            age by that run's clock, hours
--   drift                mean Bernoulli KL under the current policy, nats; null if not rescored
--   num_updates          optimizer updates that it took part in
with behavior_policies as (
    select
        current_policies.policy_version as behavior_version,
        current_policy.optimizer_step - current_policies.optimizer_step as policy_lag,
    from current_policies
    cross join current_policy
),
updates as (
    select
        trace_id,
        count(distinct (run_id, step)) as num_updates,
    from replays
    group by trace_id
)
select
    trace_summaries.trace_id,
    trace_summaries.trace_revision,
    trace_summaries.ask_id,
    trace_summaries.user_hash,
    trace_summaries.workload,
    trace_summaries.deployment,
    trace_summaries.behavior_version,
    behavior_policies.policy_lag,
    trace_summaries.num_sequences,
    trace_summaries.num_calls,
    trace_summaries.num_action_tokens,
    trace_summaries.logprob_kind,
    trace_summaries.logprob_exact,
    trace_summaries.temperature,
    trace_summaries.split,
    trace_summaries.faults,
    trace_summaries.started_at,
    trace_summaries.ended_at,
    latest_verdicts.verdict,
    latest_verdicts.reasons[1] as reason,
    latest_verdicts.reasons,
    latest_verdicts.stage,
    latest_verdicts.run_id as verdict_run_id,
    latest_verdicts.decided_at,
    latest_verdicts.reward,
    latest_verdicts.age_hours,
    current_drift.mean_bernoulli_kl as drift,
    coalesce(updates.num_updates, 0) as num_updates,
from trace_summaries
left join behavior_policies using (behavior_version)
left join latest_verdicts using (trace_id)
left join current_drift using (trace_id)
left join updates using (trace_id)
