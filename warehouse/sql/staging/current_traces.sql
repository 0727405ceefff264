-- Which training sequences are current?
-- Grain: one row per sequence of the highest revision of each trace.
-- Columns:
--   *   the columns of traces
with revised as (
    -- Revisions begin at 0 and most traces have no other, so only the few that were revised are looked at.
    select
        trace_id,
        max(trace_revision) as latest_revision,
    from traces
    where trace_revision > 0
    group by trace_id
)
select traces.*
from traces
left join revised using (trace_id)
where traces.trace_revision = coalesce(revised.latest_revision, 0)
