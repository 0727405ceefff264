-- How did tonight's findings stand on the nights before?
-- Grain: one row per night and finding, for the findings of this run.
-- Parameters:
--   $run_id varchar   this run
-- Tables:
--   nights (night, run_id)   from report/nights
-- Columns:
--   name, subject   the finding
--   night           the night
--   value           the measurement; null when it was not measured
--   status          how it stood
with tonight as (
    select
        name,
        subject,
    from findings
    where run_id = $run_id
)
select
    findings.name,
    findings.subject,
    nights.night,
    findings."value",
    findings.status,
from findings
inner join nights on nights.run_id = findings.run_id
inner join tonight
    on tonight.name = findings.name
    and tonight.subject = findings.subject
order by findings.name, findings.subject, nights.night
