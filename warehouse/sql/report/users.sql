-- Is one user, or one trace, the training set?
-- Grain: one row.
-- Tables:
--   judged (user_hash, reasons)   report/judged
-- Columns:
--   num_users         users among the traces whose user is known
--   num_with_user     traces whose user is known
--   top_user_share    share of those that the most frequent user wrote; null without any
--   effective_users   (sum n)^2 / sum n^2 over users; null without any
--   num_duplicates    traces that equal an earlier one
with per_user as (
    select
        user_hash,
        count(*) as num_traces,
    from judged
    where user_hash is not null
    group by user_hash
),
copies as (
    select count(*) filter (list_contains(reasons, 'duplicate_trace')) as num_duplicates
    from judged
)
select
    count(*) as num_users,
    coalesce(sum(num_traces), 0)::bigint as num_with_user,
    max(num_traces) / sum(num_traces) as top_user_share,
    sum(num_traces) ** 2 / sum(num_traces ** 2) as effective_users,
    (select copies.num_duplicates from copies) as num_duplicates,
from per_user
