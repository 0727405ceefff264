-- Which run is the report about?
-- Grain: one row, or none when there is no such run.
-- Parameters:
--   $run_id varchar   the run
-- Columns:
--   kind, night, state, decision, sentence, settings_json, settings_sha256, code_version, base_policy, new_policy,
--   lake_snapshot, as_of, started_at   as in runs, its highest revision
select
    kind,
    night,
    state,
    decision,
    sentence,
    settings_json,
    settings_sha256,
    code_version,
    base_policy,
    new_policy,
    lake_snapshot,
    as_of,
    started_at,
from current_runs
where run_id = $run_id
