-- Which deployments and models do the calls name?
-- Grain: one row per combination that occurs.
-- Columns:
--   logged_deployment   the deployment that the line names; null when it names none
--   landed_as           the deployment that was found at landing, of rows of version 1, which kept no other name;
--                       else null
--   model               the served model's name
select distinct
    logged_deployment,
    case when schema_version = 1 then deployment end as landed_as,
    model,
from calls
order by all
