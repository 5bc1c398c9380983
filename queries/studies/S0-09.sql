-- Whether batch size or GPUs matter more is a question of how much a doubling of each gives, cell by cell: of samples a
-- second, for sums of GPU time do not tell who is done first. 1 is proportional, 0 is no effect.
-- /// study
-- title = "What reduces the runtime"
-- study = "by eye, from sums of CPU and GPU time"
-- corrected = "d log(samples/s) / d log(batch size) and / d log(GPUs)"
-- fits = "steps and status = 'ok' and sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S0"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "setting" }
-- [answers]
-- marginals = { query = "sweep_marginals" }
-- ///
select 'effect of the batch size' as quantity, null as run, q.model, q.batch_size, q.processors as gpus, concat_ws(', ', q.layout, nullif(q.variant, '')) as setting, 'elasticity' as unit, null as study, q.batch_elasticity as corrected
from marginals as q where q.batch_elasticity is not null
union all
select 'effect of the GPUs', null, q.model, q.batch_size, q.processors, concat_ws(', ', q.layout, nullif(q.variant, '')), 'elasticity', null, q.gpus_elasticity
from marginals as q where q.gpus_elasticity is not null
order by all;

select
    coalesce((select printf('A larger batch gives %.2g at the smallest and %.2g at the largest batch sizes', arg_min(corrected, batch_size), arg_max(corrected, batch_size)) from cells where quantity = 'effect of the batch size' having count(*) > 0), 'No two batch sizes of one layout are at hand')
    || coalesce((select printf('; more GPUs give %.2g and %.2g', arg_min(corrected, batch_size), arg_max(corrected, batch_size)) from cells where quantity = 'effect of the GPUs' having count(*) > 0), '; no two numbers of GPUs are at hand')
    || ' (1: proportional, 0: none).' as verdict
