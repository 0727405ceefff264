-- Which trace revisions do not have all their sequences, and which revisions are missing?
-- Grain: one row per trace revision.
-- Columns:
--   trace_id         the trace
--   trace_revision   the revision; one that is missing has no sequence
--   num_expected     sequences that it says it has
--   num_found        sequences that there are
with revisions as (
    select
        trace_id,
        trace_revision,
        max(num_sequences) as num_expected,
        count(*) as num_found,
    from traces
    group by trace_id, trace_revision
),
expected as (
    select
        trace_id,
        unnest(range(max(trace_revision) + 1))::integer as trace_revision,
    from traces
    group by trace_id
)
select
    expected.trace_id,
    expected.trace_revision,
    revisions.num_expected,
    coalesce(revisions.num_found, 0) as num_found,
from expected
left join revisions using (trace_id, trace_revision)
where revisions.num_found is distinct from revisions.num_expected
    or revisions.num_found is null
order by expected.trace_id, expected.trace_revision
