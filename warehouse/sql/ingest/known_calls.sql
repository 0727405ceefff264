-- Which of these calls have landed already?
-- Grain: one row per incoming call that is in the lake.
-- Tables:
--   incoming (item_id)
-- Columns:
--   item_id  the call's id
select incoming.item_id
from incoming
semi join calls on calls.call_id = incoming.item_id
union
-- A row of version 1 is known by the first part of the id: version 1 did not read what the second part is of.
select incoming.item_id
from incoming
semi join calls
    on calls.call_id = split_part(incoming.item_id, '.', 1)
    and calls.schema_version = 1
