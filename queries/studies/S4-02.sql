-- Two GPUs are slower at small batches because scattering, gathering and the broadcast of parameters cost the same for
-- every batch size; from some batch size on the arithmetic that they share out is worth more. That batch size is
-- computed. That time rises again at 100 is no matter of powers of two: it is measured.
-- /// study
-- title = "Training time by GPUs and batch size"
-- study = "time on 2 GPUs / time on 1"
-- corrected = "speed-up / GPUs, and the batch size from which it passes 1"
-- fits = "steps and status = 'ok' and sweep is not null and batch_size is not null"
-- capture = "tracelab collect sweep S4"
-- example = ["generated/sweeps/generated-scaling", "smoke/S4-smoke"]
-- chart = { kind = "line", x = "batch_size", by = "model" }
-- [answers]
-- scaling = { query = "sweep_scaling" }
-- crossovers = { query = "sweep_crossover" }
-- ///
select
    'time on more GPUs / on the fewest' as quantity,
    null as run,
    p.model,
    null as machine,
    p.batch_size,
    p.gpus,
    'the study, 2 GPUs' as setting,
    p.unit,
    p.value as published,
    null::double as study,
    null::double as corrected,
    p.claim,
    p.place
from published as p
union all by name
select
    'time on more GPUs / on the fewest' as quantity,
    s.run,
    s.model,
    f.gpu as machine,
    s.batch_size,
    f.gpus,
    concat_ws(', ', s.layout, nullif(s.variant, '')) as setting,
    'x' as unit,
    1 / nullif(s.speedup_factor, 0) as study
from scaling as s join fitting as f using (run) where s.base_run <> s.run and s.speedup_factor is not null
union all by name
select
    'efficiency' as quantity,
    s.run,
    s.model,
    f.gpu as machine,
    s.batch_size,
    f.gpus,
    concat_ws(', ', s.layout, nullif(s.variant, '')) as setting,
    'ratio' as unit,
    s.efficiency_ratio as corrected
from scaling as s join fitting as f using (run) where s.base_run <> s.run and s.efficiency_ratio is not null
union all by name
select
    'crossover batch size' as quantity,
    c.model,
    c.base_processors as gpus,
    concat_ws(', ', c.layout, nullif(c.variant, '')) as setting,
    'count' as unit,
    coalesce(c.estimated_batch_size, c.crossover_batch_size) as corrected
from crossovers as c where c.model in (select model from fitting)
order by all;

select
    coalesce(
        (
            select string_agg(printf('%s, %s: faster from a batch of about %.3g on', coalesce(model, 'one model'),
                setting, corrected), '; ' order by model, setting)
            from cells where quantity = 'crossover batch size' and corrected is not null
        ),
        (
            select printf('More GPUs are %s at every batch size at hand',
                case
                    when min(study) > 1 then 'slower'
                    when max(study) < 1 then 'faster'
                    else 'now faster, now slower'
                end)
            from cells where study is not null having count(*) > 0
        ),
        'No two numbers of GPUs are at hand'
    )
    || coalesce((
        select printf('; efficiency is %.3g %% to %.3g %%', 100 * min(corrected), 100 * max(corrected))
        from cells where quantity = 'efficiency' having count(*) > 0
    ), '') || '.' as verdict
