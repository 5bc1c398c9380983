-- Times of one epoch on a processor, one GPU and two. From one GPU to two is the step that costs a GPU, so its efficiency
-- (speed-up / GPUs) is told. A network that needs more arithmetic cannot be the faster one on a processor unless
-- something else, such as the loader, sets the time.
-- /// study
-- title = "Time of the first epoch"
-- study = "time with fewer / time with more processors"
-- corrected = "speed-up / (GPUs / GPUs)"
-- fits = "steps and model in ('alexnet', 'resnet18') and sweep like 'S2%' and status = 'ok'"
-- alone = true
-- capture = "tracelab collect sweep S2"
-- example = ["smoke"]
-- chart = { x = "gpus", by = "model" }
-- [answers]
-- scaling = { query = "sweep_scaling" }
-- ///
with published_pairs as (
    select m.model, m.machine, m.gpus, f.value / m.value as speedup, m.gpus / nullif(f.gpus, 0) as gpus_factor, m.place
    from published as m
    join published as f on m.model = f.model and f.gpus = (
        select max(n.gpus) from published as n where n.model = m.model and n.gpus < m.gpus
    )
),
at_hand as (
    select s.run, s.model, f.gpu as machine, s.batch_size, f.gpus, s.layout, s.speedup_factor as speedup, s.processor_factor as gpus_factor
    from scaling as s
    join fitting as f using (run)
    where s.base_run <> s.run
),
pairs as (
    select null as run, model, machine, null::bigint as batch_size, gpus, 'published' as setting, speedup, gpus_factor, place from published_pairs
    union all
    select run, model, machine, batch_size, gpus, layout, speedup, gpus_factor, null from at_hand
)
select 'first epoch' as quantity, null as run, model, machine, null as batch_size, gpus, 'published' as setting, unit, value as published, null as study, null as corrected, place
from published
union all
select 'speed-up', run, model, machine, batch_size, gpus, setting, 'x', null, speedup, null, place from pairs
union all
select 'efficiency', run, model, machine, batch_size, gpus, setting, 'ratio', null, null, speedup / gpus_factor, place from pairs where gpus_factor is not null
order by all;

with times as (
    select model, max(published) filter (gpus = 0) as cpu from cells where quantity = 'first epoch' group by model
),
costs as (
    select model, t.cpu, m.flop from times as t join models as m using (model)
),
pairs as (
    select model, max(study) filter (quantity = 'speed-up') as speedup, max(corrected) as efficiency
    from cells
    where setting = 'published' and gpus = 2
    group by model
)
select
    (select string_agg(printf('two GPUs make %s %.3f times faster, an efficiency of %.0f %%', model, speedup, 100 * efficiency), '; ' order by model) from pairs)
    || (
        select coalesce('. On the processor ' || string_agg(printf('%s takes less time than %s with %.1f times its FLOPs', a.model, b.model, a.flop / b.flop), '; ')
            || ': something else than arithmetic sets the time.', '.')
        from costs as a join costs as b on a.flop > b.flop and a.cpu < b.cpu
    ) as verdict
