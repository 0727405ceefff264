-- Do the logged log-probabilities mean what a ratio needs: the distribution that the tokens were sampled from?
-- Grain: one row per kind, temperature, nucleus bound, top-k and meaning.
-- Columns:
--   logprob_kind   raw, temperature, processed or unknown
--   temperature    sampling temperature; null when unknown or mixed
--   top_p          nucleus bound; null when unknown
--   top_k          top-k bound, -1 when off; null when unknown
--   num_traces     traces with a sequence of this kind
--   meaning        exact, or the first reason in gate order that ingest found against it
with kinds as (
    select
        trace_id,
        logprob_kind,
        temperature,
        top_p,
        top_k,
        list_filter(
            [
                'no_behavior_logprobs',
                'logprob_kind_unknown',
                'logprob_kind_mismatch',
                'truncated_support',
                'greedy_sampling',
                'penalised_sampling',
                'grammar_constrained',
                'sampling_params_unknown',
                'sampling_mixed'
            ],
            lambda code: list_contains(faults, code)
        )[1] as reason,
    from current_traces
)
select
    logprob_kind,
    temperature,
    top_p,
    top_k,
    count(distinct trace_id) as num_traces,
    coalesce(reason, 'exact') as meaning,
from kinds
group by logprob_kind, temperature, top_p, top_k, reason
order by num_traces desc, logprob_kind, temperature, top_p, top_k, meaning
