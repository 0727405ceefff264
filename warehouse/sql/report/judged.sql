-- What is known of each trace that the run judged?
-- Grain: one row per verdict of the run.
-- Parameters:
--   $run_id varchar              the run
--   $misaligned varchar[]        reasons for which log-probabilities and tokens do not belong together one by one
--   $unusable varchar[]          reasons of the stages structure, logprobs and version
--   $num_labels bigint           versions and workloads told apart by name; rarer ones are "others"
--   $num_days bigint             days told apart; earlier ones are "earlier"
-- Tables:
--   summaries (the columns of trace_summaries)
-- Columns:
--   trace_id, verdict, stage, reasons, reward, drift, policy_lag, age_hours, gate_sha256   as in verdicts
--   reason               the reason that decided; null for an admitted trace
--   is_admitted          whether it may be trained on
--   is_present           whether its log-probabilities were logged
--   is_aligned           and there is one for each sampled token, with the ids of prompt and tokens
--   is_usable            and no reason of structure, log-probabilities or version applies
--   behavior_version     the version that wrote it; null when unknown or when several did
--   version_label        the same for people: "unknown", or "others" for a rare one
--   workload_label       likewise
--   day_label            day on which it began, or "earlier"
--   logprob_kind, temperature, top_p, user_hash, num_sequences, num_action_tokens, truncated   as in trace_summaries
with joined as (
    select
        verdicts.trace_id,
        verdicts.verdict,
        verdicts.stage,
        verdicts.reasons,
        verdicts.reasons[1] as reason,
        verdicts.reward,
        verdicts.drift,
        verdicts.policy_lag,
        verdicts.age_hours,
        verdicts.gate_sha256,
        verdicts.verdict = 'admitted' as is_admitted,
        not list_contains(verdicts.reasons, 'no_behavior_logprobs') as is_present,
        summaries.behavior_version,
        coalesce(summaries.behavior_version, 'unknown') as version,
        coalesce(summaries.workload, 'unknown') as workload,
        strftime(summaries.started_at at time zone 'UTC', '%Y-%m-%d') as day,
        coalesce(summaries.logprob_kind, 'mixed') as logprob_kind,
        summaries.temperature,
        summaries.top_p,
        summaries.user_hash,
        coalesce(summaries.num_sequences, 0) as num_sequences,
        coalesce(summaries.num_action_tokens, 0) as num_action_tokens,
        coalesce(summaries.truncated, false) as truncated,
    from verdicts
    left join summaries using (trace_id)
    where verdicts.run_id = $run_id
),
versions as (
    select
        version,
        row_number() over (order by count(*) desc, version) as version_rank,
    from joined
    group by version
),
workloads as (
    select
        workload,
        row_number() over (order by count(*) desc, workload) as workload_rank,
    from joined
    group by workload
),
days as (
    select
        day,
        row_number() over (order by day desc nulls last) as day_rank,
    from joined
    group by day
)
select
    joined.* exclude (version, workload, day),
    joined.is_present and not list_has_any(joined.reasons, $misaligned) as is_aligned,
    joined.is_present and not list_has_any(joined.reasons, $misaligned)
        and not list_has_any(joined.reasons, $unusable) as is_usable,
    case when versions.version_rank <= $num_labels then joined.version else 'others' end as version_label,
    case when workloads.workload_rank <= $num_labels then joined.workload else 'others' end as workload_label,
    case when days.day_rank <= $num_days then coalesce(joined.day, 'unknown') else 'earlier' end as day_label,
from joined
inner join versions using (version)
inner join workloads using (workload)
inner join days on days.day is not distinct from joined.day
