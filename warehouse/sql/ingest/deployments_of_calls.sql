-- Which deployments and models do the calls name?
-- Grain: one row per combination that occurs.
-- Columns:
--   logged_deployment   the deployment that the line names; null when it names none
--   deployment          the deployment that was found when it landed
--   model               the served model's name
select distinct
    logged_deployment,
    deployment,
    model,
from calls
order by all
