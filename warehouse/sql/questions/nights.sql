-- The last runs at a glance: what was judged, what trained, what was decided?
-- Grain: one row per run, the latest first.
-- Parameters:
--   $num_rows bigint = 14   how many runs
-- Columns:
--   run_id            the run
--   night             whose night it is
--   kind              nightly, or the name of the single step
--   state             started, done or failed
--   decision          go, hold, no_go or skipped
--   num_admitted      traces admitted
--   num_quarantined   traces quarantined
--   num_pending       traces pending
--   admitted_share    admitted over judged; null when none was judged
--   num_updates       optimizer updates
--   base_policy       the current policy when it began
--   new_policy        the version that it made
--   minutes           length, minutes
--   sentence          the decision in one sentence
with judged as (
    select
        run_id,
        count(*) as num_judged,
        count(*) filter (verdict = 'admitted') as num_admitted,
        count(*) filter (verdict = 'quarantined') as num_quarantined,
        count(*) filter (verdict = 'pending') as num_pending,
    from verdicts
    group by run_id
),
updates as (
    select
        run_id,
        count(distinct step) as num_updates,
    from replays
    group by run_id
)
select
    current_runs.run_id,
    current_runs.night,
    current_runs.kind,
    current_runs.state,
    current_runs.decision,
    coalesce(judged.num_admitted, 0) as num_admitted,
    coalesce(judged.num_quarantined, 0) as num_quarantined,
    coalesce(judged.num_pending, 0) as num_pending,
    judged.num_admitted / judged.num_judged as admitted_share,
    coalesce(updates.num_updates, 0) as num_updates,
    current_runs.base_policy,
    current_runs.new_policy,
    epoch(current_runs.ended_at - current_runs.started_at) / 60 as minutes,
    current_runs.sentence,
from current_runs
left join judged using (run_id)
left join updates using (run_id)
order by current_runs.started_at desc, current_runs.run_id
limit $num_rows
