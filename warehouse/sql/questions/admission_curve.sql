-- If the trust were set to this value, how many of the rescored traces would be admitted?
-- Grain: one row per trust.
-- Parameters:
--   $trusts double[] = [0.0003, 0.001, 0.003, 0.01, 0.03]   values of the trust to try, nats per token
-- Columns:
--   trust                    highest drift admitted, nats per token
--   num_rescored             traces scored under the current policy
--   num_admitted             those with a drift of at most the trust
--   share                    their share
--   mean_num_action_tokens   mean action tokens of the admitted; null when there is none
with trusts as (
    select
        unnest($trusts::double[]) as trust,
)
select
    trusts.trust,
    count(current_drift.mean_bernoulli_kl) as num_rescored,
    count(*) filter (current_drift.mean_bernoulli_kl <= trusts.trust) as num_admitted,
    count(*) filter (current_drift.mean_bernoulli_kl <= trusts.trust)
        / nullif(count(current_drift.mean_bernoulli_kl), 0) as share,
    avg(current_drift.num_action_tokens)
        filter (current_drift.mean_bernoulli_kl <= trusts.trust) as mean_num_action_tokens,
from trusts
left join current_drift on true
group by trusts.trust
order by trusts.trust
