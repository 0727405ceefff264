-- Are there several current policies, or policies and none current?
-- Grain: one row, or none when exactly one policy is current or there is no policy at all.
-- Columns:
--   num_current   policies whose state is current
--   versions      their names
select
    count(*) filter (state = 'current') as num_current,
    list(policy_version order by policy_version) filter (state = 'current') as versions,
from current_policies
having count(*) > 0
    and count(*) filter (state = 'current') <> 1
