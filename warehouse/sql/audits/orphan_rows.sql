-- Which rows refer to a trace, policy or run that is not there?
-- Grain: one row per table and missing thing.
-- Columns:
--   table_name   the table whose rows refer to it
--   missing      what is missing: trace, policy or run
--   name         its name
--   num_rows     rows that refer to it
with missing as (
    select 'verdicts' as table_name, 'trace' as missing, verdicts.trace_id as name
    from verdicts
    anti join traces using (trace_id, trace_revision)
    union all
    select 'rescored', 'trace', rescored.trace_id
    from rescored
    anti join traces using (trace_id, trace_revision, sequence_index)
    union all
    select 'replays', 'trace', replays.trace_id
    from replays
    anti join traces using (trace_id, trace_revision, sequence_index)
    union all
    select 'rescored', 'policy', rescored.policy_version
    from rescored
    anti join policies using (policy_version)
    union all
    select 'policies', 'policy', policies.parent_version
    from policies
    where policies.parent_version is not null
        and policies.parent_version not in (select policy_version from policies)
    union all
    select 'verdicts', 'run', verdicts.run_id
    from verdicts
    anti join runs using (run_id)
    union all
    select 'findings', 'run', findings.run_id
    from findings
    anti join runs using (run_id)
    union all
    select 'replays', 'run', replays.run_id
    from replays
    anti join runs using (run_id)
)
select
    table_name,
    missing,
    name,
    count(*) as num_rows,
from missing
group by table_name, missing, name
order by table_name, missing, name
