-- What does not vary with model and batch is the start of the process (S3-09). Peaks of a run that trains do: with the
-- batch size where all else is alike, and with the model. A run that failed has the peak until then, beside its status,
-- and is compared with none.
-- /// study
-- title = "Memory by model and batch size"
-- study = "no figure: shares of API calls at start-up"
-- corrected = "the most that a device had allocated; beside a status, until the run failed"
-- fits = "memory_peaks or memory_events"
-- capture = "tracelab collect sweep S3"
-- example = ["generated/sweeps/generated-scaling", "smoke"]
-- chart = { kind = "line", x = "batch_size", by = "model" }
-- [answers]
-- memory = { query = "sweep_memory" }
-- ///
select
    'peak of a device' as quantity,
    m.run,
    m.model,
    f.gpu as machine,
    m.batch_size,
    f.gpus,
    concat_ws(', ', m.layout, nullif(m.variant, '')) as setting,
    case when m.status in ('oom', 'failed') then m.status end as status,
    'bytes' as unit,
    null::double as study,
    max(m.allocated_bytes) as corrected,
    any_value(p.claim) as claim,
    any_value(p.place) as place
from memory as m
join fitting as f using (run)
left join published as p on true
where m.allocated_bytes > 0
group by all
order by m.model, m.batch_size, m.run;

with peaks as (  -- repeats taken together
    select model, machine, setting, batch_size, avg(corrected) as peak
    from cells
    where status is null and model is not null and setting <> '' and batch_size is not null
    group by all
),
lines as (
    select
        model, setting,
        max(peak) / min(peak) as factor,
        arg_min(batch_size, (peak, batch_size)) as least_batch, min(peak) as least,
        arg_max(batch_size, (peak, batch_size)) as most_batch, max(peak) as most
    from peaks
    group by model, machine, setting
    having count(*) > 1
),
models as (
    select
        setting, batch_size,
        max(peak) / min(peak) as factor,
        arg_min(model, (peak, model)) as least_model, min(peak) as least,
        arg_max(model, (peak, model)) as most_model, max(peak) as most
    from peaks
    group by machine, setting, batch_size
    having count(*) > 1
),
steepest as (from lines order by factor desc, model, setting limit 1),
widest as (from models order by factor desc, setting, batch_size limit 1)
select
    coalesce((
        select printf('Between batch sizes of one model on one layout peaks differ up to %.3g times (%s on %s: %.4g MB at batch %d, %.4g MB at %d)',
            factor, model, setting, least / 1e6, least_batch, most / 1e6, most_batch)
        from steepest
    ), 'No model has peaks at two batch sizes of one layout')
    || coalesce((
        select printf(
            '; between models at one batch size and layout up to %.3g times (batch %d on %s: %s %.4g MB, %s %.4g MB)',
            factor, batch_size, setting, least_model, least / 1e6, most_model, most / 1e6)
        from widest
    ), '')
    || coalesce((
        select printf('; %d of %d peaks are of runs that failed, and compared with none', count(status), count(*))
        from cells having count(status) > 0
    ), '') || '.' as verdict
