-- How many traces carry log-probabilities that a ratio can use?
-- Grain: one row per version, and one row per day.
-- Tables:
--   judged (version_label, day_label, policy_lag, is_present, is_aligned, is_usable)   report/judged
-- Columns:
--   grouping      version or day
--   label         the version or the day
--   num_traces    traces judged
--   num_present   with log-probabilities at all
--   num_aligned   of those, with one for each sampled token and with all ids
--   num_usable    of those, kept out by no reason of structure, log-probabilities or version
select
    case when grouping(version_label) = 0 then 'version' else 'day' end as grouping,
    coalesce(version_label, day_label) as label,
    count(*) as num_traces,
    count(*) filter (is_present) as num_present,
    count(*) filter (is_aligned) as num_aligned,
    count(*) filter (is_usable) as num_usable,
from judged
group by grouping sets ((version_label), (day_label))
order by grouping, min(policy_lag) nulls last, label desc
