-- Which outcomes name nothing that they could score?
-- Grain: one row per outcome.
-- Columns:
--   outcome_id   the outcome
--   uri          the file that it came from
select
    outcome_id,
    uri,
from outcomes
where trace_id is null
    and call_id is null
    and response_id is null
    and session_id is null
    and business_key is null
order by outcome_id
