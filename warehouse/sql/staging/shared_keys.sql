-- Which traces share the key that a score event goes by, so that nothing says which of them it is about?
-- Grain: one row per kind of key, key and trace.
-- Columns:
--   kind       trace, call, response, session or ask
--   key        the key
--   trace_id   a trace that is known by it
select distinct
    spelled.kind,
    spelled.key,
    spelled.trace_id,
from key_spellings as spelled
inner join joined_outcomes as events on events.key_kind = spelled.kind and events.key = spelled.key
where events.num_traces > 1
    and spelled.trace_id is not null
