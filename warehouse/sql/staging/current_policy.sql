-- Which policy is being served?
-- Grain: one row, or none while no policy is current.
-- Columns:
--   policy_version   its name
--   optimizer_step   optimizer updates since the base weights
select
    policy_version,
    optimizer_step,
from current_policies
where state = 'current'
order by optimizer_step desc, policy_version
limit 1
