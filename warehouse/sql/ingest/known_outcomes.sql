-- Which of these outcomes have landed already?
-- Grain: one row per incoming outcome that is in the lake.
-- Tables:
--   incoming (item_id)
-- Columns:
--   item_id  the outcome's id
select incoming.item_id
from incoming
semi join outcomes on outcomes.outcome_id = incoming.item_id
union
-- A row of version 1 is known by the first part of the id: version 1 did not read what the second part is of.
select incoming.item_id
from incoming
semi join outcomes
    on outcomes.outcome_id = split_part(incoming.item_id, '.', 1)
    and outcomes.schema_version = 1
