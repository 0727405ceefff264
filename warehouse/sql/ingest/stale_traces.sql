-- Which traces have calls that their current revision does not know, or other settings now than it was made under?
-- Grain: one row per trace, by time of its first call.
-- Tables:
--   meanings (logged_deployment, landed_as, model, settings_sha256)   the present settings of all that calls name
-- Columns:
--   trace_id    the trace
--   num_calls   its calls in the lake
--   num_tokens  their tokens as the server counted them; 0 where it did not
--   since       start of its first call
--   until       start of its last call
with meant as (
    select
        calls.trace_id,
        coalesce(calls.num_prompt_tokens, 0) + coalesce(calls.num_completion_tokens, 0) as num_tokens,
        calls.started_at,
        meanings.settings_sha256,
    from calls
    left join meanings
        on meanings.logged_deployment is not distinct from calls.logged_deployment
        and meanings.landed_as is not distinct from case when calls.schema_version = 1 then calls.deployment end
        and meanings.model = calls.model
),
logged as (
    select
        trace_id,
        count(*) as num_calls,
        sum(num_tokens)::bigint as num_tokens,
        min(started_at) as since,
        max(started_at) as until,
        min(settings_sha256) as first_sha256,
        max(settings_sha256) as last_sha256,
    from meant
    group by trace_id
),
several as (
    select trace_id,
    from logged
    where first_sha256 <> last_sha256
),
mixed as (
    -- Few traces have calls of several deployments, and only those need all of their hashes.
    select
        meant.trace_id,
        sha256(string_agg(distinct meant.settings_sha256, ',' order by meant.settings_sha256)) as meaning_sha256,
    from meant
    semi join several on several.trace_id = meant.trace_id
    group by meant.trace_id
),
assembled as (
    select
        trace_id,
        arg_max(num_calls, trace_revision) as num_calls,
        arg_max(meaning_sha256, trace_revision) as meaning_sha256,
    from traces
    group by trace_id
)
select
    logged.trace_id,
    logged.num_calls,
    logged.num_tokens,
    logged.since,
    logged.until,
from logged
left join mixed using (trace_id)
left join assembled using (trace_id)
where logged.num_calls is distinct from assembled.num_calls
    or coalesce(mixed.meaning_sha256, logged.first_sha256) is distinct from assembled.meaning_sha256
order by logged.since, logged.trace_id
