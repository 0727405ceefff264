-- Which of these outcomes have landed already?
-- Grain: one row per incoming outcome that is in the lake.
-- Tables:
--   incoming (item_id)
-- Columns:
--   item_id  the outcome's id
select incoming.item_id
from incoming
semi join outcomes on outcomes.outcome_id = incoming.item_id
