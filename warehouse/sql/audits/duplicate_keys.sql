-- Which rows share a key that should be theirs alone? The lake has no unique constraints.
-- Grain: one row per table and key that occurs more than once.
-- Columns:
--   table_name   the table
--   row_key      the key, as JSON
--   num_rows     rows that have it
select
    'source_files' as table_name,
    to_json({'uri': uri, 'file_version': file_version}) as row_key,
    count(*) as num_rows,
from source_files
group by uri, file_version
having count(*) > 1
union all
select
    'calls' as table_name,
    to_json({'call_id': call_id}) as row_key,
    count(*) as num_rows,
from calls
group by call_id
having count(*) > 1
union all
select
    'rejects' as table_name,
    to_json({'uri': uri, 'file_version': file_version, 'byte_offset': byte_offset}) as row_key,
    count(*) as num_rows,
from rejects
group by uri, file_version, byte_offset
having count(*) > 1
union all
select
    'traces' as table_name,
    to_json({'trace_id': trace_id, 'trace_revision': trace_revision, 'sequence_index': sequence_index}) as row_key,
    count(*) as num_rows,
from traces
group by trace_id, trace_revision, sequence_index
having count(*) > 1
union all
select
    'outcomes' as table_name,
    to_json({'outcome_id': outcome_id}) as row_key,
    count(*) as num_rows,
from outcomes
group by outcome_id
having count(*) > 1
union all
select
    'policies' as table_name,
    to_json({'policy_version': policy_version, 'revision': revision}) as row_key,
    count(*) as num_rows,
from policies
group by policy_version, revision
having count(*) > 1
union all
select
    'rescored' as table_name,
    to_json({'trace_id': trace_id, 'trace_revision': trace_revision, 'sequence_index': sequence_index, 'policy_version': policy_version}) as row_key,
    count(*) as num_rows,
from rescored
group by trace_id, trace_revision, sequence_index, policy_version
having count(*) > 1
union all
select
    'verdicts' as table_name,
    to_json({'run_id': run_id, 'trace_id': trace_id}) as row_key,
    count(*) as num_rows,
from verdicts
group by run_id, trace_id
having count(*) > 1
union all
select
    'findings' as table_name,
    to_json({'run_id': run_id, 'name': name, 'subject': subject}) as row_key,
    count(*) as num_rows,
from findings
group by run_id, name, subject
having count(*) > 1
union all
select
    'runs' as table_name,
    to_json({'run_id': run_id, 'revision': revision}) as row_key,
    count(*) as num_rows,
from runs
group by run_id, revision
having count(*) > 1
union all
select
    'replays' as table_name,
    to_json({'run_id': run_id, 'step': step, 'trace_id': trace_id, 'sequence_index': sequence_index}) as row_key,
    count(*) as num_rows,
from replays
group by run_id, step, trace_id, sequence_index
having count(*) > 1
union all
select
    'updates' as table_name,
    to_json({'run_id': run_id, 'step': step}) as row_key,
    count(*) as num_rows,
from updates
group by run_id, step
having count(*) > 1
union all
select
    'evaluations' as table_name,
    to_json({'run_id': run_id, 'policy_version': policy_version, 'name': name}) as row_key,
    count(*) as num_rows,
from evaluations
group by run_id, policy_version, name
having count(*) > 1
union all
select
    'erasures' as table_name,
    to_json({'erasure_id': erasure_id}) as row_key,
    count(*) as num_rows,
from erasures
group by erasure_id
having count(*) > 1
order by table_name, row_key
