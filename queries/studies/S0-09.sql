-- Whether batch size or GPUs matter more depends on how much a doubling of each raises the samples per second, cell by
-- cell; sums of GPU time do not show which cell ends first. 1 is proportional, 0 is no effect.
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
select
    'effect of the batch size' as quantity,
    null as run,
    q.model,
    q.batch_size,
    q.processors as gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    'elasticity' as unit,
    null as study,
    q.batch_elasticity as corrected
from marginals as q where q.batch_elasticity is not null
union all by name
select
    'effect of the GPUs' as quantity,
    q.model,
    q.batch_size,
    q.processors as gpus,
    concat_ws(', ', q.layout, nullif(q.variant, '')) as setting,
    'elasticity' as unit,
    q.gpus_elasticity as corrected
from marginals as q where q.gpus_elasticity is not null
order by all;

with lines as (  -- of marginals that share sweep, layout and variant, nothing but the batch size differs, the machine neither
    select
        coalesce(model, 'one model') as model,
        case when contains(layout, 'CPU') then 'a processor' else 'GPUs' end as kind,
        arg_min(batch_elasticity, batch_size) as batch_first,
        arg_max(batch_elasticity, batch_size) as batch_last,
        arg_min(gpus_elasticity, batch_size) as gpus_first,
        arg_max(gpus_elasticity, batch_size) as gpus_last,
        arg_min(batch_elasticity - gpus_elasticity, batch_size) as first_lead,
        arg_max(batch_elasticity - gpus_elasticity, batch_size) as last_lead
    from marginals
    group by sweep, model, layout, variant
    having count(batch_elasticity) + count(gpus_elasticity) > 0
),
models as (
    select printf('%s on %s: ', model, kind) || concat_ws(', ',
        'a larger batch gives ' || format_range(min(batch_first), max(batch_first)) || ' at the smallest and '
            || format_range(min(batch_last), max(batch_last)) || ' at the largest batch sizes',
        case kind when 'GPUs' then 'more GPUs give ' else 'more processes give ' end
            || format_range(min(gpus_first), max(gpus_first)) || ' and '
            || format_range(min(gpus_last), max(gpus_last))) as effect
    from lines
    group by model, kind
)
select
    coalesce(
        (select join_list(list(effect order by effect)) || ' (1: proportional, 0: none)' from models),
        'No two cells differ in the batch size alone, or in GPUs alone'
    )
    || coalesce((
        select printf('; of %d layouts with both effects the batch brings more at the smallest sizes in %d, the GPUs at the largest in %d',
            count(*), count(*) filter (first_lead > 0), count(*) filter (last_lead < 0))
        from lines where first_lead is not null having count(*) > 0
    ), '') || '.' as verdict
