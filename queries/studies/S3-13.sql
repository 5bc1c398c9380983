-- The study takes the counter of double-precision operations in programs of single precision, so of most kernels it counts
-- nothing; and it averages over names, so that a kernel of eight invocations counts as much as one of a thousand. Neither
-- is the cost of a model, which does not depend on how often a profiler looked.
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
select 'mean count of a kernel' as quantity, c.run, c.model, f.gpu as machine, c.batch_size, f.gpus, c.counted_from as setting, 'flop' as unit,
    p.value as published, c.name_mean_flop as study, c.launch_mean_flop as corrected, p.claim, p.place
from counts as c
join fitting as f using (run)
left join published as p on c.model = p.model and c.batch_size = p.batch_size
where c.counted_from <> 'model' and c.launches is not null
union all
select 'FLOPs of a batch, forward', c.run, c.model, f.gpu, c.batch_size, f.gpus, c.counted_from, 'flop', null, c.flop, coalesce(f.flop_per_sample, m.flop) * c.batch_size,
    printf('study: all %d invocations together', c.launches), null
from counts as c
join fitting as f using (run)
left join models as m on c.model = m.model
where c.counted_from <> 'model' and c.flop is not null
order by all;

with double_only as (
    select
        count(*) filter (setting = 'flop_count_dp' and quantity = 'mean count of a kernel') as logs,
        min(corrected / nullif(study, 0)) filter (quantity = 'mean count of a kernel') as least,
        max(corrected / nullif(study, 0)) filter (quantity = 'mean count of a kernel') as most,
        min(study / nullif(corrected, 0)) filter (setting = 'flop_count_dp' and quantity like 'FLOPs%') as least_of,
        max(study / nullif(corrected, 0)) filter (setting = 'flop_count_dp' and quantity like 'FLOPs%') as most_of
    from cells
)
select
    case when logs > 0 then printf('%d logs count double precision in code of single precision: all their invocations together hold %.2g %% to %.2g %% of the FLOPs of one batch''s forward pass; ', logs, 100 * least_of, 100 * most_of) else '' end
    || printf('weighted by invocations the mean of a kernel is %.2g to %.2g times that over names.', least, most) as verdict
from double_only
