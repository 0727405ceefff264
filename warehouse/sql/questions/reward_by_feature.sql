-- What does each score pay for: length, calls, a reply that was cut?
-- Grain: one row per name, source_kind and source.
-- Columns:
--   name                    what was scored
--   source_kind             human, program, judge, user or webhook
--   source                  who scored
--   num_traces              scored traces with action tokens
--   correlation_length      with the logarithm of the number of action tokens; null where one side does not vary
--   correlation_calls       with the number of calls
--   correlation_truncated   with the trace having been cut by length or abort
select
    current_outcomes.name,
    current_outcomes.source_kind,
    current_outcomes.source,
    count(*) as num_traces,
    case
        when stddev_pop(current_outcomes.value) > 0 and stddev_pop(ln(trace_summaries.num_action_tokens)) > 0
            then corr(current_outcomes.value, ln(trace_summaries.num_action_tokens))
    end as correlation_length,
    case
        when stddev_pop(current_outcomes.value) > 0 and stddev_pop(trace_summaries.num_calls) > 0
            then corr(current_outcomes.value, trace_summaries.num_calls)
    end as correlation_calls,
    case
        when stddev_pop(current_outcomes.value) > 0 and stddev_pop(trace_summaries.truncated::integer) > 0
            then corr(current_outcomes.value, trace_summaries.truncated::integer)
    end as correlation_truncated,
from current_outcomes
inner join trace_summaries using (trace_id)
where current_outcomes.value is not null
    and trace_summaries.num_action_tokens > 0
group by current_outcomes.name, current_outcomes.source_kind, current_outcomes.source
order by current_outcomes.name, current_outcomes.source_kind, current_outcomes.source
