-- How did loss, drift and the rest go from update to update of the run?
-- Grain: one row per update, or per several in a row when there were more than so many.
-- Parameters:
--   $run_id varchar       the run
--   $num_rows bigint      most rows
-- Columns:
--   first_step, last_step       updates of the row, from 0
--   num_updates                 how many they are
--   num_warming_up              of those, updates in which the critic learned alone
--   in_trust_share              share of the traces they read that the method let move the policy, warm-up left out
--   mean_drift                  mean over the updates, nats per action token
--   loss                        mean over the updates that moved the policy
--   grad_norm                   the same, before the clip
--   mean_entropy                mean over the updates, nats per action token
--   critic_explained_variance   mean over the updates; null without a critic
with numbered as (
    select
        *,
        (row_number() over (order by step) - 1) * $num_rows // greatest($num_rows, count(*) over ()) as row_index,
    from updates
    where run_id = $run_id
)
select
    min(step) as first_step,
    max(step) as last_step,
    count(*) as num_updates,
    count(*) filter (is_critic_warming_up) as num_warming_up,
    sum(num_in_trust) filter (in_trust_share is not null)
        / sum(num_traces) filter (in_trust_share is not null) as in_trust_share,
    avg(mean_drift) as mean_drift,
    avg(loss) as loss,
    avg(grad_norm) as grad_norm,
    avg(mean_entropy) as mean_entropy,
    avg(critic_explained_variance) as critic_explained_variance,
from numbered
group by row_index
order by first_step
