-- Which sequences have per-token lists of different lengths?
-- Grain: one row per sequence, of traces or of rescored.
-- Columns:
--   table_name       traces or rescored
--   trace_id         the trace
--   trace_revision   the revision
--   sequence_index   the sequence
--   num_tokens       its token ids
--   num_values       values in the list that differs
select
    'traces' as table_name,
    trace_id,
    trace_revision,
    sequence_index,
    len(token_ids) as num_tokens,
    case when len(token_logprobs) <> len(token_ids) then len(token_logprobs) else len(action_mask) end as num_values,
from traces
where len(token_logprobs) <> len(token_ids)
    or len(action_mask) <> len(token_ids)
union all
select
    'rescored' as table_name,
    rescored.trace_id,
    rescored.trace_revision,
    rescored.sequence_index,
    len(traces.token_ids) as num_tokens,
    len(rescored.logprobs) as num_values,
from rescored
inner join traces using (trace_id, trace_revision, sequence_index)
where len(rescored.logprobs) <> len(traces.token_ids)
order by table_name, trace_id, trace_revision, sequence_index
