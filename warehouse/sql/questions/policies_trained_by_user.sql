-- Which policy versions were trained on this user's traces, descendants included? For an erasure.
-- Grain: one row per policy version.
-- Parameters:
--   $user_hash varchar   the user, as the salted hash
-- Columns:
--   policy_version   the version
--   state            candidate, held, current or retired
--   num_own_traces   the user's traces in the updates that made this version; 0 for a descendant without any
--   is_descendant    whether it is tainted only through a version that it came from
with recursive own as (
    select
        current_policies.policy_version,
        count(distinct replays.trace_id) as num_own_traces,
    from replays
    inner join trace_summaries using (trace_id)
    inner join current_policies using (run_id)
    where trace_summaries.user_hash = $user_hash
    group by current_policies.policy_version
),
family as (
    select
        policy_version,
    from own
    union
    select
        current_policies.policy_version,
    from current_policies
    inner join family on current_policies.parent_version = family.policy_version
)
select
    family.policy_version,
    current_policies.state,
    coalesce(own.num_own_traces, 0) as num_own_traces,
    own.policy_version is null as is_descendant,
from family
inner join current_policies using (policy_version)
left join own using (policy_version)
order by current_policies.optimizer_step, family.policy_version
