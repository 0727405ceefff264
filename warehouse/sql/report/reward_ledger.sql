-- Where does the reward of every judged trace stand?
-- Grain: one row; the five numbers after the first add up to it.
-- Tables:
--   judged (reward, reasons)   report/judged
-- Columns:
--   num_traces     traces judged
--   num_refused    outcomes that conflict, lie out of range, may be of other traces or are older than the trace
--   num_immature   an outcome that may still be revised
--   num_mature     a reward that may be trained on
--   num_pending    no outcome yet, and the maturity window is open
--   num_missing    no outcome within the maturity window
with placed as (
    select
        case
            when list_has_any(
                reasons,
                ['conflicting_outcomes', 'reward_out_of_range', 'ambiguous_join', 'score_precedes_trace']
            ) then 'refused'
            when list_contains(reasons, 'reward_immature') then 'immature'
            when reward is not null then 'mature'
            when list_contains(reasons, 'reward_pending') then 'pending'
            else 'missing'
        end as place,
    from judged
)
select
    count(*) as num_traces,
    count(*) filter (place = 'refused') as num_refused,
    count(*) filter (place = 'immature') as num_immature,
    count(*) filter (place = 'mature') as num_mature,
    count(*) filter (place = 'pending') as num_pending,
    count(*) filter (place = 'missing') as num_missing,
from placed
