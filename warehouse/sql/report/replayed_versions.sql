-- Whose traces moved the policy?
-- Grain: one row per version with an admitted trace.
-- Parameters:
--   $run_id varchar   the run
-- Tables:
--   judged (trace_id, version_label, policy_lag, is_admitted)   report/judged
-- Columns:
--   version          the version that wrote the traces
--   num_admitted     admitted traces
--   num_replayed     of those, traces that an update read
--   num_in_trust     of those, traces that the method let move the policy
--   mean_advantage   mean over the replayed traces
--   positive_mass    sum of the positive coefficients
--   negative_mass    sum of the negative coefficients, as a negative number
with replayed as (
    select
        trace_id,
        bool_or(in_trust) as in_trust,
        avg(advantage) as advantage,
        sum(positive_mass) as positive_mass,
        sum(negative_mass) as negative_mass,
    from replays
    where run_id = $run_id
    group by trace_id
)
select
    judged.version_label as version,
    count(*) as num_admitted,
    count(replayed.trace_id) as num_replayed,
    count(*) filter (replayed.in_trust) as num_in_trust,
    avg(replayed.advantage) as mean_advantage,
    coalesce(sum(replayed.positive_mass), 0) as positive_mass,
    coalesce(sum(replayed.negative_mass), 0) as negative_mass,
from judged
left join replayed using (trace_id)
where judged.is_admitted
group by judged.version_label
order by min(judged.policy_lag) nulls last, version desc
