-- How did loss, drift, trust, entropy and speed go from update to update of a run?
-- Grain: one row per update, in order.
-- Parameters:
--   $run_id varchar = null   the run; null takes the latest that made an update
-- Columns:
--   run_id                      the run
--   step                        update within the run, from 0
--   method                      the update method
--   moved                       whether the weights were changed
--   loss                        minus the sum of coefficients times logprobs; null unless moved
--   grad_norm                   gradient norm before the clip; null unless moved
--   learning_rate               rate of the update
--   mean_drift                  mean drift of the traces, nats per action token
--   in_trust_share              share of the traces that the method let move the policy; null while a critic warms up
--   masked_token_share          share of action tokens that the method masked, clipped or dropped with their trace
--   mean_entropy                mean entropy of the policy at the action tokens, nats
--   entropy_share               the same as a share of the mean surprise that was logged for these tokens
--   critic_explained_variance   explained variance of the critic's values; null without a critic
--   tokens_per_second           tokens over the wall time of the update
--   slots_per_token             tokens that the model computed for each token of the sequences
--   mfu                         share of the device's peak that was used; null where the peak is unknown
with chosen as (
    select
        run_id,
    from updates
    where $run_id::varchar is null or run_id = $run_id::varchar
    order by replayed_at desc, run_id desc
    limit 1
)
select
    updates.run_id,
    updates.step,
    updates.method,
    updates.moved,
    updates.loss,
    updates.grad_norm,
    updates.learning_rate,
    updates.mean_drift,
    updates.in_trust_share,
    updates.masked_token_share,
    updates.mean_entropy,
    updates.mean_entropy / nullif(updates.mean_surprise, 0.0) as entropy_share,
    updates.critic_explained_variance,
    updates.tokens_per_second,
    updates.num_slots / nullif(updates.num_tokens, 0) as slots_per_token,
    updates.mfu,
from updates
inner join chosen using (run_id)
order by updates.step
