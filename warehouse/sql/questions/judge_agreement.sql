-- How far can each judge be trusted, measured against people?
-- Grain: one row per judge, scorer_version and outcome name.
-- Parameters:
--   $pass double = 0.5   scores from it on are a pass, of judges and of people (judge.pass_value in the settings)
-- Columns:
--   source           the judge
--   scorer_version   its version
--   name             what was scored
--   num_judged       traces that it scored
--   raw_pass_rate    share that it passed
--   num_labelled     those that people labelled as well, a tie among people left out; the rest is over these
--   true_pass        people pass, judge passes
--   false_pass       people fail, judge passes
--   true_fail        people fail, judge fails
--   false_fail       people pass, judge fails
--   tpr              share of what people pass that the judge passes
--   tnr              share of what people fail that the judge fails
--   kappa            agreement beyond chance (Cohen)
--   corrected_rate   pass rate corrected for the judge's errors (Rogan-Gladen), within 0 and 1; null where the judge
--                    tells pass from fail no better than chance (tpr + tnr up to 1.05)
with labels as (
    select
        trace_id,
        name,
        avg((value >= $pass)::integer) > 0.5 as people_pass,
    from current_outcomes
    where source_kind = 'human'
        and value is not null
    group by trace_id, name
    having avg((value >= $pass)::integer) <> 0.5
),
judged as (
    select
        current_outcomes.source,
        current_outcomes.scorer_version,
        current_outcomes.name,
        current_outcomes.value >= $pass as judge_pass,
        labels.people_pass,
    from current_outcomes
    left join labels using (trace_id, name)
    where current_outcomes.source_kind = 'judge'
        and current_outcomes.value is not null
),
counted as (
    select
        source,
        scorer_version,
        name,
        count(*) as num_judged,
        avg(judge_pass::integer) as raw_pass_rate,
        count(people_pass) as num_labelled,
        count(*) filter (people_pass and judge_pass) as true_pass,
        count(*) filter (not people_pass and judge_pass) as false_pass,
        count(*) filter (not people_pass and not judge_pass) as true_fail,
        count(*) filter (people_pass and not judge_pass) as false_fail,
    from judged
    group by source, scorer_version, name
),
rated as (
    select
        *,
        true_pass / nullif(true_pass + false_fail, 0) as tpr,
        true_fail / nullif(true_fail + false_pass, 0) as tnr,
        (true_pass + true_fail) / nullif(num_labelled, 0) as agreement,
        (
            (true_pass + false_fail) * (true_pass + false_pass) + (true_fail + false_pass) * (true_fail + false_fail)
        ) / nullif(num_labelled * num_labelled, 0) as chance_agreement,
    from counted
)
select
    source,
    scorer_version,
    name,
    num_judged,
    raw_pass_rate,
    num_labelled,
    true_pass,
    false_pass,
    true_fail,
    false_fail,
    tpr,
    tnr,
    (agreement - chance_agreement) / nullif(1 - chance_agreement, 0) as kappa,
    case
        when tpr + tnr > 1.05
            then least(1, greatest(0, (raw_pass_rate + tnr - 1) / (tpr + tnr - 1)))
    end as corrected_rate,
from rated
order by source, scorer_version, name
