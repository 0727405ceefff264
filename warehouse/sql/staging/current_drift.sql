-- How far has the current policy moved from each trace?
-- Grain: one row per trace, all of whose sequences were scored under the current policy.
-- Columns:
--   *            the columns of trace_drift
--   policy_lag   optimizer updates between the behavior policy and the current one; null when not registered
select
    trace_drift.*,
    current_policy.optimizer_step - behavior_policies.optimizer_step as policy_lag,
from trace_drift
inner join current_policy using (policy_version)
left join current_policies as behavior_policies
    on behavior_policies.policy_version = trace_drift.behavior_version
where trace_drift.is_complete
