-- What are the logged log-probabilities of?
-- Grain: one row per kind, temperature and top-p; rare ones together as "others".
-- Parameters:
--   $num_labels bigint   groups told apart
-- Tables:
--   judged (logprob_kind, temperature, top_p, is_usable)   report/judged
-- Columns:
--   logprob_kind   raw, temperature, processed, unknown, mixed, or others
--   temperature    null when unknown or mixed
--   top_p          null when unknown
--   num_traces     traces
--   num_usable     of those, usable ones
with grouped as (
    select
        logprob_kind,
        temperature,
        top_p,
        count(*) as num_traces,
        count(*) filter (is_usable) as num_usable,
    from judged
    group by logprob_kind, temperature, top_p
),
ranked as (
    select
        *,
        row_number() over (order by num_traces desc, logprob_kind, temperature, top_p) <= $num_labels as is_listed,
    from grouped
)
select
    case when is_listed then logprob_kind else 'others' end as logprob_kind,
    case when is_listed then temperature end as temperature,
    case when is_listed then top_p end as top_p,
    sum(num_traces)::bigint as num_traces,
    sum(num_usable)::bigint as num_usable,
from ranked
group by all
order by num_traces desc, logprob_kind, temperature, top_p
