-- Which of these calls have landed already?
-- Grain: one row per incoming call that is in the lake.
-- Tables:
--   incoming (item_id)
-- Columns:
--   item_id  the call's id
select incoming.item_id
from incoming
semi join calls on calls.call_id = incoming.item_id
