-- What is the mean reward, with missing ones skipped and with missing ones read as 0?
-- Grain: one row for all judged traces, then one per version.
-- Tables:
--   judged (version_label, policy_lag, reward)   report/judged
-- Columns:
--   label                "all" or the version
--   is_all               whether it is the row of all traces
--   num_traces           traces judged
--   num_rewarded         traces that have a reward
--   mean                 mean reward over those
--   mean_if_zero         mean over all, a missing reward read as 0
--   standard_deviation   of the rewards there are
select
    case when grouping(version_label) = 1 then 'all' else version_label end as label,
    grouping(version_label) = 1 as is_all,
    count(*) as num_traces,
    count(reward) as num_rewarded,
    avg(reward) as mean,
    sum(reward) / count(*) as mean_if_zero,
    stddev_pop(reward) as standard_deviation,
from judged
group by grouping sets ((), (version_label))
order by is_all desc, min(policy_lag) nulls last, label desc
