-- Were traces logged twice under different names, and did the copies get different rewards?
-- Grain: one row per kind of copy.
-- Columns:
--   kind              same_numbers: equal tokens and log-probabilities, one try logged twice; same_tokens: equal
--                     tokens alone, which short replies can be by chance
--   num_groups        groups of two or more traces that are copies of each other
--   num_extra         traces beyond the first of each group
--   num_conflicting   groups whose latest verdicts carry different rewards
with prints as (
    select
        trace_id,
        list(hash(token_ids) order by sequence_index) as token_print,
        list(hash(token_ids, token_logprobs) order by sequence_index) as number_print,
    from current_traces
    where num_action_tokens > 0
    group by trace_id
),
kinds as (
    select 'same_numbers' as kind, trace_id, number_print as print,
    from prints
    union all
    select 'same_tokens' as kind, trace_id, token_print as print,
    from prints
),
copies as (
    select
        kinds.kind,
        kinds.print,
        count(*) as num_copies,
        min(latest_verdicts.reward) <> max(latest_verdicts.reward) as is_conflicting,
    from kinds
    left join latest_verdicts using (trace_id)
    group by kinds.kind, kinds.print
)
select
    kind,
    count(*) filter (num_copies > 1) as num_groups,
    coalesce(sum(num_copies - 1), 0)::bigint as num_extra,
    count(*) filter (num_copies > 1 and coalesce(is_conflicting, false)) as num_conflicting,
from copies
group by kind
order by kind
