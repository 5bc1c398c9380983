-- Ranks of one run that have no recorded step in common.
-- A row is one run of several ranks whose marked steps have numbers, none of which all ranks have; `rank` is the one whose
-- first number is highest. Figures by step, such as the step time and late ranks, then compare different steps.
-- /// check
-- title = "Ranks without a step in common"
-- severity = "warning"
-- how_to_fix = "Record the same steps on all ranks: by tracelab collect run --wait or --on-demand, or by the same schedule in each rank."
-- ///
with steps as (
    select distinct run, rank, try_cast(regexp_extract(name, '(\d+)\D*$', 1) as bigint) as step
    from step_ranges('annotations', '(?i)^(profiler)?step\s*#?\s*\d+$')
    where not nested
),
ranks as (
    select run, rank, min(step) as first_step, max(step) as last_step from steps group by run, rank
),
most as (
    select run, max(ranks) as ranks_of_step
    from (select run, step, count(*) as ranks from steps group by run, step)
    group by run
)
select
    run,
    arg_max(rank, (first_step, rank)) as rank,
    count(*) as count,
    format(
        'No step is recorded on all of its {} ranks: rank {} has steps {} to {}, rank {} has {} to {}.',
        count(*),
        arg_min(rank, (first_step, rank)), arg_min(first_step, (first_step, rank)), arg_min(last_step, (first_step, rank)),
        arg_max(rank, (first_step, rank)), arg_max(first_step, (first_step, rank)), arg_max(last_step, (first_step, rank))
    ) as message
from ranks
join most using (run)
group by run
having count(*) > any_value(ranks_of_step)
order by run
