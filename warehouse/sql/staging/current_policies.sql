-- In which state is each policy version?
-- Grain: one row per policy version, its highest revision.
-- Columns:
--   *   the columns of policies
with latest as (
    select
        policy_version,
        max(revision) as revision,
    from policies
    group by policy_version
)
select policies.*
from policies
inner join latest using (policy_version, revision)
