-- Why were lines rejected?
-- Grain: one row per reason.
-- Tables:
--   rejected (uri, byte_offset, reason)   current_rejects
-- Columns:
--   reason      code from the closed list
--   num_lines   lines that are still rejected for it
--   places      up to three places, as file:byte
select
    reason,
    count(*) as num_lines,
    list(uri || ':' || byte_offset order by uri, byte_offset)[1:3] as places,
from rejected
group by reason
order by num_lines desc, reason
