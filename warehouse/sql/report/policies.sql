-- On which policy versions does the run stand, and which did it make?
-- Grain: one row per version: the base, the new one, their ancestors, and those that wrote judged traces.
-- Parameters:
--   $base_policy varchar = null   the current policy when the run began
--   $new_policy varchar = null    the version that the run made
--   $num_rows bigint              most rows: those nearest to the base first
-- Tables:
--   judged (behavior_version)   report/judged
-- Columns:
--   version, optimizer_step, parent, method, checkpoint_sha256   as in policies
--   role   made by this run, base, wrote traces, or ancestor
with recursive family as (
    select policy_version
    from current_policies
    where policy_version in ($base_policy, $new_policy)
    union
    select current_policies.parent_version
    from current_policies
    inner join family using (policy_version)
    where current_policies.parent_version is not null
),
writers as (
    select distinct behavior_version as policy_version
    from judged
    where behavior_version is not null
),
wanted as (
    select policy_version
    from family
    union
    select policy_version
    from writers
)
select
    current_policies.policy_version as version,
    case
        when current_policies.policy_version = $new_policy then 'made by this run'
        when current_policies.policy_version = $base_policy then 'base'
        when writers.policy_version is not null then 'wrote traces'
        else 'ancestor'
    end as role,
    current_policies.optimizer_step,
    current_policies.parent_version as parent,
    current_policies.method,
    current_policies.checkpoint_sha256,
from current_policies
inner join wanted using (policy_version)
left join writers using (policy_version)
order by current_policies.optimizer_step desc, version desc
limit $num_rows
