-- Times of one epoch on a processor, one GPU and two. From one GPU to two is the step that costs a GPU, so its
-- efficiency (speed-up / GPUs) is listed. A network that needs more arithmetic cannot be the faster one on a processor
-- unless something else, such as the loader, sets the time.
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
-- speed = { query = "sweep_throughput" }
-- ///
with published_pairs as (
    select m.model, m.machine, m.gpus, f.value / m.value as speedup, m.gpus / nullif(f.gpus, 0) as gpus_factor, m.place
    from published as m
    join published as f on m.model = f.model and f.gpus = (
        select max(n.gpus) from published as n where n.model = m.model and n.gpus < m.gpus
    )
),
at_hand as (
    select s.*, f.gpu as machine, f.gpus, concat_ws(', ', s.layout, nullif(s.variant, '')) as setting
    from scaling as s
    join fitting as f using (run)
),
pairs as (
    select
        null as run,
        model,
        machine,
        null::bigint as batch_size,
        gpus,
        'published' as setting,
        speedup,
        gpus_factor,
        place
    from published_pairs
    union all by name
    select run, model, machine, batch_size, gpus, setting, speedup_factor as speedup, processor_factor as gpus_factor
    from at_hand where base_run <> run
),
first_epochs as (  -- as long as on the slowest rank
    select run, max(dur_ns) / 1e9 as seconds
    from steps where phase = 'epoch' and dur_ns >= 0 and run in (select run from fitting)
    group by run, epoch
    qualify row_number() over (partition by run order by epoch) = 1
)
select
    'first epoch' as quantity,
    null as run,
    model,
    machine,
    null as batch_size,
    gpus,
    'published' as setting,
    unit,
    value as published,
    null as study,
    null as corrected,
    claim,
    place
from published
union all by name
select
    case when t.iterations < t.expected_iterations then 'first epoch, cut short' else 'first epoch' end as quantity,
    e.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    f.gpus,
    concat_ws(', ', t.layout, nullif(t.variant, '')) as setting,
    's' as unit,
    e.seconds as study,
    coalesce(printf('%d of %d iterations', t.iterations, t.expected_iterations),
        printf('%d iterations', t.iterations)) as claim
from first_epochs as e join fitting as f using (run) join speed as t using (run)
union all by name
select
    'speed-up over the processor' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    setting,
    'x' as unit,
    over_cpu_factor as study
from at_hand where gpus > 0 and over_cpu_factor is not null
union all by name
select 'speed-up' as quantity, run, model, machine, batch_size, gpus, setting, 'x' as unit, speedup as study, place
from pairs
union all by name
select
    'efficiency' as quantity,
    run,
    model,
    machine,
    batch_size,
    gpus,
    setting,
    'ratio' as unit,
    speedup / gpus_factor as corrected,
    place
from pairs where gpus_factor is not null
order by all;

with times as (
    select model, max(published) filter (gpus = 0) as cpu from cells where quantity = 'first epoch' group by model
),
costs as (
    select model, t.cpu, m.flop from times as t join models as m using (model)
),
published_two as (
    select model, max(study) filter (quantity = 'speed-up') as speedup, max(corrected) as efficiency
    from cells
    where setting = 'published' and gpus = 2
    group by model
),
at_hand as (
    select
        f.sweep,
        c.machine,
        c.model,
        c.batch_size,
        c.setting,
        avg(c.study) filter (c.quantity = 'speed-up over the processor') as over_cpu,
        avg(c.study) filter (c.quantity = 'speed-up') as speedup,
        avg(c.corrected) filter (c.quantity = 'efficiency') as efficiency
    from cells as c join fitting as f using (run)
    group by all
),
sentences as (
    select
        concat_ws(', ', model, 'batch ' || batch_size, setting,
            case
                when (select count(distinct (sweep, machine)) from at_hand) > 1 then concat_ws(', ', machine, sweep)
            end) || ': '
        || concat_ws(', ', printf('%.3g times as fast as the processor', over_cpu),
            printf('%.3g times as fast as the fewest, an efficiency of %.0f %%', speedup, 100 * efficiency)) as sentence
    from at_hand
    where over_cpu is not null or speedup is not null
)
select
    (
        select string_agg(
            printf('Two GPUs make %s %.3f times as fast, an efficiency of %.0f %%', model, speedup, 100 * efficiency),
            '. ' order by model)
        from published_two
    )
    || (
        select coalesce('. On the processor '
            || string_agg(
                printf('%s takes less time than %s with %.1f times its FLOPs', a.model, b.model, a.flop / b.flop), '; ')
            || ': something else than arithmetic sets the time', '')
        from costs as a join costs as b on a.flop > b.flop and a.cpu < b.cpu
    )
    || coalesce((select '. At hand ' || join_list(list(sentence order by sentence)) from sentences having count(*) > 0),
        '') || '.' as verdict
