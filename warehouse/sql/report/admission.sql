-- What share of each version would a trust of x admit?
-- Grain: one row per version and trust.
-- Parameters:
--   $trusts double[]   the trusts to try, nats
-- Tables:
--   judged (version_label, policy_lag, drift)   report/judged
-- Columns:
--   version        the version
--   num_scored     traces scored under the current policy
--   trust          the trust
--   num_admitted   scored traces whose drift is at most that
with tried as (
    select unnest($trusts) as trust
),
scored as (
    select
        version_label as version,
        policy_lag,
        drift,
    from judged
    where drift is not null
)
select
    scored.version,
    count(*) as num_scored,
    tried.trust,
    count(*) filter (scored.drift <= tried.trust) as num_admitted,
from scored
cross join tried
group by scored.version, tried.trust
order by min(scored.policy_lag) nulls last, scored.version desc, tried.trust
