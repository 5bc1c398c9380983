-- Ranks without recorded GPU activity.
-- A row is one run and rank with API calls or ops, and no kernel, copy, memset or graph. With kernel launches the record
-- of the kernels is missing, which is a warning; a run on the CPU has none to record. A run whose source has accelerator
-- events without a table of their own has no row: the reader's diagnostic device_events_unmapped counts them.
-- /// check
-- title = "No GPU activity"
-- severity = "info"
-- how_to_fix = "If the run used a GPU, record GPU activity too; else ignore this."
-- ///
with recorded as (
    select run, rank, count(*) filter (name similar to '(cuda|cu|hip)(Module)?LaunchKernel.*') as launches
    from api_calls
    group by run, rank
    union all
    select distinct run, rank, 0 from ops
),
active as (
    select distinct run, rank from gpu_activity
),
idle as (
    select run, rank, sum(launches)::bigint as launches
    from recorded
    anti join active using (run, rank)
    anti join (select distinct run from diagnostics where code = 'device_events_unmapped') using (run)
    group by run, rank
)
select
    run,
    rank,
    greatest(launches, 1) as count,
    case
        when launches > 0
        then format('{}, and no GPU activity.', count_phrase(launches, 'kernel launch', 'kernel launches'))
        else 'No GPU activity: none ran, or none was recorded.'
    end as message,
    case when launches > 0 then 'warning' end as severity,
    case
        when launches > 0
        then 'Record GPU activity too: ProfilerActivity.CUDA, or nsys with --trace=cuda; '
            || 'another profiler on the same GPU hides it, and a kernel that fails loses it.'
    end as how_to_fix
from idle
order by run, rank
