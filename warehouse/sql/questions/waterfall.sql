-- What became of every line and every trace, step by step?
-- Grain: one row per step.
-- Parameters:
--   $run_id varchar = null   the run whose verdicts count; null takes the latest with verdicts
-- Columns:
--   step_number     order of the steps
--   unit            lines, calls or traces
--   step            what happens in it
--   num_leaving     how many leave here
--   num_remaining   how many remain: the row before of the same unit, less those that leave; what remains of the
--                   traces after already_trained was admitted, and after not_trained took part in an update
with chosen as (
    select
        verdicts.run_id,
    from verdicts
    left join current_runs using (run_id)
    where $run_id::varchar is null or verdicts.run_id = $run_id::varchar
    order by verdicts.decided_at desc, current_runs.started_at desc nulls last, verdicts.run_id desc
    limit 1
),
files as (
    select
        coalesce(sum(num_lines), 0)::bigint as num_lines,
        coalesce(sum(num_landed), 0)::bigint as num_landed,
        coalesce(sum(num_duplicates), 0)::bigint as num_duplicates,
        coalesce(sum(num_rejects), 0)::bigint as num_rejects,
        coalesce(sum(num_blank), 0)::bigint as num_blank,
    from current_source_files
    where content_kind = 'calls'
),
judged as (
    select
        trace_summaries.trace_id,
        coalesce(case when verdicts.verdict = 'admitted' then 'admitted' else verdicts.stage end, 'not_judged') as stage,
    from trace_summaries
    left join (select verdicts.* from verdicts inner join chosen using (run_id)) as verdicts using (trace_id)
),
stages as (
    select
        unnest([
            'not_judged', 'structure', 'logprobs', 'version', 'reward', 'duplicates', 'holdout', 'scored', 'staleness',
            'already_trained',
        ]) as stage,
        unnest(range(10)) as stage_number,
),
trained as (
    select distinct
        replays.trace_id,
    from replays
    inner join chosen using (run_id)
),
leaving as (
    select
        coalesce(stages.stage_number, 10) as stage_number,
        coalesce(stages.stage, counted.stage) as stage,
        coalesce(counted.num_traces, 0) as num_traces,
    from stages
    full join (
        select stage, count(*) as num_traces,
        from judged
        where stage <> 'admitted'
        group by stage
    ) as counted using (stage)
),
steps as (
    select 0 as step_number, 'lines' as unit, 'read' as step, 0 as num_leaving, num_lines as num_entering, from files
    union all
    select 1, 'lines', 'blank', num_blank, num_lines, from files
    union all
    select 2, 'lines', 'duplicates', num_duplicates, num_lines, from files
    union all
    select 3, 'lines', 'rejects', num_rejects, num_lines, from files
    union all
    select 4, 'calls', 'landed', 0, count(*), from calls
    union all
    select 5, 'traces', 'assembled', 0, count(*), from judged
    union all
    select
        6 + stage_number,
        'traces',
        stage,
        num_traces,
        (select count(*) from judged),
    from leaving
    union all
    select
        17,
        'traces',
        'not_trained',
        count(*) filter (judged.stage = 'admitted' and trained.trace_id is null),
        count(*),
    from judged
    left join trained using (trace_id)
)
select
    step_number,
    unit,
    step,
    num_leaving::bigint as num_leaving,
    (
        num_entering - sum(num_leaving) over (partition by unit order by step_number, step rows unbounded preceding)
    )::bigint as num_remaining,
from steps
order by step_number, step
