-- How are the rewards spread over their range?
-- Grain: one row per class of rewards that any trace is in; rewards outside the range are in the first and last class.
-- Parameters:
--   $lowest double         lower end of the range
--   $highest double        upper end of the range
--   $num_classes bigint    classes of equal width
-- Tables:
--   judged (reward)   report/judged
-- Columns:
--   class        number of the class, from 0
--   num_traces   traces whose reward is in it
select
    greatest(0, least(
        $num_classes - 1,
        floor((reward - $lowest) / ($highest - $lowest) * $num_classes)::bigint
    )) as class,
    count(*) as num_traces,
from judged
where reward is not null
group by class
order by class
