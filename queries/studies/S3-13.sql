-- The study takes the counter of double-precision operations in programs of single precision, so of most kernels it
-- counts nothing; and it averages over names, so that a kernel of eight invocations counts as much as one of a
-- thousand. Neither is the cost of a model, which does not depend on how often a profiler looked. The study shows a
-- figure without numbers: its means are worked out here from the averages that its logs print.
-- /// study
-- title = "FLOP count by batch size"
-- study = "mean over kernel names of nvprof's flop_count_dp"
-- corrected = "sum over invocations / invocations; beside it the FLOPs of a forward pass"
-- fits = "kernel_metrics or run in (select run from summaries where starts_with(metric, 'flop_count_'))"
-- capture = "tracelab collect sweep S3 --match '*profiler-ncu*'"
-- example = ["generated/nvprof"]
-- chart = { x = "batch_size", by = "model", log = true }
-- [answers]
-- counts = { query = "sweep_flop" }
-- ///
select
    'mean count of a kernel' as quantity,
    c.run,
    c.model,
    f.gpu as machine,
    c.batch_size,
    f.gpus,
    c.counted_from as setting,
    'flop' as unit,
    p.value as published,
    c.name_mean_flop as study,
    c.launch_mean_flop as corrected,
    p.claim,
    p.place
from counts as c
join fitting as f using (run)
left join published as p on c.model = p.model and c.batch_size = p.batch_size and contains(f.gpu, p.machine)
where c.counted_from <> 'model' and c.launches is not null
union all by name
select
    'FLOPs of a batch, forward' as quantity,
    c.run,
    c.model,
    f.gpu as machine,
    c.batch_size,
    f.gpus,
    c.counted_from as setting,
    'flop' as unit,
    c.flop as study,
    coalesce(f.flop_per_sample, m.flop) * c.batch_size as corrected,
    printf('study: all %d invocations together', c.launches) as claim
from counts as c
join fitting as f using (run)
left join models as m on c.model = m.model
where c.counted_from <> 'model' and c.flop is not null
order by all;

with means as (
    select setting, corrected / nullif(study, 0) as factor, study is not null as is_counted, study = 0 as is_nothing
    from cells where quantity = 'mean count of a kernel'
),
doubles as (
    select count(*) as logs, count(*) filter (is_nothing) as empty from means where setting = 'flop_count_dp'
),
sums as (
    select min(study / nullif(corrected, 0)) as least, max(study / nullif(corrected, 0)) as most
    from cells where setting = 'flop_count_dp' and quantity like 'FLOPs%'
)
select
    concat_ws(
        '; ',
        (
            select
                printf('%d log%s count%s double precision in code of single precision', logs,
                    case logs when 1 then '' else 's' end, case logs when 1 then 's' else '' end)
                || case
                    when empty = logs then ', and find' || case logs when 1 then 's' else '' end || ' none'
                    when empty > 0 then printf(', of which %d find%s none', empty,
                        case empty when 1 then 's' else '' end)
                    else ''
                end
                || case
                    when least is null or empty = logs then ''
                    else printf(': all their invocations together hold %.2g %% to %.2g %% of the FLOPs of one batch''s forward pass',
                        100 * least, 100 * most)
                end
            from doubles, sums where logs > 0
        ),
        (
            select printf('weighted by invocations the mean of a kernel is %s times that over names',
                format_range(min(factor), max(factor)))
            from means having count(factor) > 0
        ),
        (
            select 'a mean of nothing but zeros is the same over names and over invocations'
            from means having count(*) > 0 and count(factor) = 0
        )
    ) || '.' as verdict
