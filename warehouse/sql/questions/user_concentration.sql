-- Is one user the training set?
-- Grain: one row per verdict; the row with verdict null is over all traces.
-- Columns:
--   verdict           admitted, quarantined or pending; null for all traces
--   num_traces        traces
--   num_unknown       those without a user; the rest is over the others
--   num_users         users
--   top_user_share    share of the user with the most traces
--   effective_users   users that would give the same concentration if all had equally many
with members as (
    select
        unnest([null, latest_verdicts.verdict]) as verdict,
        unnest([true, latest_verdicts.verdict is not null]) as is_member,
        trace_summaries.user_hash,
    from trace_summaries
    left join latest_verdicts using (trace_id)
),
users as (
    select
        verdict,
        user_hash,
        count(*) as num_traces,
    from members
    where is_member
    group by verdict, user_hash
)
select
    verdict,
    sum(num_traces)::bigint as num_traces,
    coalesce(sum(num_traces) filter (user_hash is null), 0)::bigint as num_unknown,
    count(user_hash) as num_users,
    max(num_traces) filter (user_hash is not null)
        / sum(num_traces) filter (user_hash is not null) as top_user_share,
    pow(sum(num_traces) filter (user_hash is not null), 2)
        / sum(num_traces * num_traces) filter (user_hash is not null) as effective_users,
from users
group by verdict
order by verdict nulls first
